"""What flinkwatch still finds in worse input: `python tests/bench/degraded.py [--recordings DIR] [--only NAME …]`.

Replays every scenario of this repository, or the recordings of a directory instead (neutral form, see `neutral.py`), as
it is and in each variant of `VARIANTS`, and judges the result as `detection.py` does, with one more verdict: late, if
the incident was reported with its cause, but more than two minutes after its end. The last line is JSON.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from detectors.events.event import Record
from tests.bench import detection, neutral
from tests.bench.detection import Case, Row

SHARE = 0.05
SCRAPE_MS = 60_000
_AGAIN_MS = 3_000
# The samples of one scrape may be records of their own, milliseconds apart.
_ONE_SCRAPE_MS = 1_000
# A scrape may come a little earlier than the minute.
_EARLY_MS = 2_000


def _is_line(record: Record) -> bool:
    return record.topic == "flink.logs"


def thinned(records: Iterable[Record]) -> list[Record]:
    """One scrape of each process a minute."""
    kept, last = [], dict[bytes | None, int]()
    for record in records:
        since = record.timestamp - last.get(record.key, -SCRAPE_MS)
        if _is_line(record) or since <= _ONE_SCRAPE_MS:
            kept.append(record)
        elif since >= SCRAPE_MS - _EARLY_MS:
            last[record.key] = record.timestamp
            kept.append(record)
    return kept


def lost(records: Iterable[Record]) -> list[Record]:
    """One line in twenty is missing."""
    chance = random.Random(1)
    return [r for r in records if not _is_line(r) or chance.random() >= SHARE]


def doubled(records: Iterable[Record]) -> list[Record]:
    """One line in twenty arrives a second time, three seconds later."""
    chance = random.Random(2)
    given = list(records)
    again = [
        msgspec.structs.replace(r, timestamp=r.timestamp + _AGAIN_MS)
        for r in given
        if _is_line(r) and chance.random() < SHARE
    ]
    offsets: dict[tuple[str, int], int] = {}
    found = []
    for record in sorted([*given, *again], key=lambda r: r.timestamp):
        where = record.topic, record.partition
        offsets[where] = offsets.get(where, -1) + 1
        found.append(msgspec.structs.replace(record, offset=offsets[where]))
    return found


VARIANTS: dict[str, Callable[[Iterable[Record]], list[Record]]] = {
    "as recorded": list,
    "scrapes each 60 s": thinned,
    "5 % of lines lost": lost,
    "5 % of lines doubled": doubled,
    "logs only": lambda records: [r for r in records if _is_line(r)],
    "metrics only": lambda records: [r for r in records if not _is_line(r)],
}


def cases(folder: Path | None) -> list[Case]:
    """The scenarios, or the recordings of a directory."""
    if folder is None:
        return list(detection.scenarios())
    files = sorted(folder.glob("*/truth.yaml"))
    return [detection.case_of(neutral.load(f.parent), "raw+prometheus") for f in files]


def judged(name: str, given: list[Case]) -> list[Row]:
    """The rows of all cases in a variant."""
    change = VARIANTS[name]
    return [row for case in given for row in detection.judged(case._replace(records=change(case.records)))]


def with_late(rows: list[Row]) -> list[Row]:
    """A missed incident whose cause is reported later in the same recording is late, and not also a false alarm."""
    found: list[Row] = []
    later = [(r.name, r.reported) for r in rows if r.verdict == "false"]
    late = []
    for row in rows:
        if row.verdict == "missed" and (row.name, row.truth) in later:
            late.append((row.name, row.truth))
            found.append(row._replace(verdict="late"))
        else:
            found.append(row)
    return [r for r in found if r.verdict != "false" or (r.name, r.reported) not in late]


def cells(name: str, rows: list[Row]) -> list[str]:
    """One line of the table of docs/benchmark.md."""
    true = [r for r in rows if r.truth not in ("-", "healthy") and r.verdict != "optional"]
    counted = {v: sum(r.verdict == v for r in rows) for v in ("right", "wrong", "late", "missed", "split", "false")}
    messages = [r.messages for r in true if r.messages is not None]
    spread = f"{statistics.median(messages):g}, {max(messages)}" if messages else ""
    return [name, str(len(true)), *map(str, counted.values()), spread]


def main() -> int:
    """Replay, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, help="a directory of recordings in neutral form")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="variants")
    options = parser.parse_args()
    given = cases(options.recordings)
    head = ["variant", "true", "right", "wrong cause", "late", "missed", "split", "false", "messages"]
    lines, figures = [head, ["---"] * len(head)], {}
    for name in options.only:
        rows = with_late(judged(name, given))
        lines.append(cells(name, rows))
        figures[name] = detection.figures(rows)
        for row in rows:
            if row.verdict in ("wrong", "late", "missed", "split", "false"):
                print(f"{name}: {row.verdict} in {row.name}: true {row.truth}, reported {row.reported}")
        print("|", " | ".join(lines[-1]), "|", flush=True)
    for line in lines:
        print("|", " | ".join(line), "|")
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
