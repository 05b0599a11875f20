"""flinkwatch next to published alerting rules: `python tests/bench/entrants.py [--recordings DIR]`.

Replays every scenario of this repository that has metrics, or the recordings of a directory instead (neutral form, see
`neutral.py`), and evaluates the rules of each file in `rules/` on the same scrapes with a real Prometheus. Each entrant
gets what it can read: flinkwatch lines and metrics, the rules metrics.

found          true incidents during which it notified, whatever it said; in brackets what would have been found had the
               recording, and the conditions, gone on
right cause    of these, how many it named (rules: by `causes` in their files)
precision      notifications that belong to a true incident; for the rules, one rule that fires once in a recording,
               for however many series
false          recordings in which it notified although nothing was wrong at the time
delay          seconds from the record that proves the incident to the first notification: median, worst
lead           seconds from the first notification to the kill, loss or expiry that follows: median, and of how many
messages       notifications of one found incident: median, worst. flinkwatch: its message in Slack and the lines in its
               thread. Rules: firing and resolved, one for each rule (Alertmanager, grouped by alertname)

The last line is JSON. Of the scenarios, some keep only the metrics that flinkwatch reads; a rule takes no part in a
recording that has none of its metrics.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests import prometheus_server
from tests.bench import detection, neutral, prometheus_rules
from tests.bench.detection import Case, Row, Truth
from tests.bench.prometheus_rules import Alert

FLINKWATCH = "flinkwatch"


class Score(NamedTuple):
    """What one entrant reported; times in seconds."""

    entrant: str
    true: int
    found: int
    later: int
    right: int
    notified: int
    belong: int
    false: int
    delays: list[float]
    leads: list[float]
    messages: list[int]


def cases(folder: Path | None) -> Iterator[tuple[Case, neutral.Recording]]:
    """The cases that have metrics, each with its scrapes."""
    if folder is None:
        for case in detection.scenarios():
            yield case, neutral.scrapes(case.name, case.records)
        return
    for file in sorted(folder.glob("*/truth.yaml")):
        recording = neutral.load(file.parent)
        yield detection.case_of(recording, "raw+prometheus"), recording


def own_score(found: Iterable[Case]) -> Score:
    """What flinkwatch reports."""
    rows: list[Row] = [row for case in found for row in detection.judged(case)]
    true = [r for r in rows if r.truth not in ("-", "healthy") and r.verdict != "optional"]
    seen = [r for r in true if r.verdict != "missed"]
    told = [r for r in rows if r.messages is not None]
    delays = [r.from_confirmed for r in seen if r.from_confirmed is not None]
    return Score(
        FLINKWATCH,
        true=len(true),
        found=len(seen),
        later=len(seen),
        right=sum(r.verdict == "right" for r in seen),
        notified=len(told),
        belong=sum(r.verdict != "false" for r in told),
        false=len({r.name for r in rows if r.verdict == "false"}),
        delays=delays,
        leads=[r.lead for r in seen if r.lead is not None and r.lead > 0],
        messages=[r.messages for r in seen if r.messages is not None],
    )


def score(entrant: str, found: Iterable[Case], alerts: dict[str, list[Alert]]) -> Score:
    """What the rules of one file report."""
    true = seen = later = right = notified = belong = false = 0
    delays, leads, messages = [], [], []
    for case in found:
        own = alerts.get(case.name, [])
        fired = [a for a in own if a.lasting]
        truths = [t for t in case.truths if not t.optional]
        for one in truths:
            near = [a for a in fired if detection.seen(a, one)]
            true += 1
            later += any(detection.seen(a, one) for a in own)
            if near:
                seen += 1
                right += any(a.causes & one.accept for a in near)
                first = min(a.at for a in near)
                delays.append((first - one.confirmed) / 1000)
                messages.append(_messages(near))
                if one.failure is not None and first < one.failure:
                    leads.append((one.failure - first) / 1000)
        by_rule = _by_rule(fired)
        notified += len(by_rule)
        belong += sum(_explained(stretches, case.truths) for stretches in by_rule.values())
        false += any(not _explained(stretches, case.truths) for stretches in by_rule.values())
    return Score(entrant, true, seen, later, right, notified, belong, false, delays, leads, messages)


def _by_rule(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        found.setdefault(alert.name, []).append(alert)
    return found


def _explained(stretches: list[Alert], truths: list[Truth]) -> bool:
    return any(detection.seen(a, t) for a in stretches for t in truths)


def _messages(alerts: list[Alert]) -> int:
    """Firing and resolved, once for each stretch of time in which a rule fires for any series."""
    count = 0
    for stretches in _by_rule(alerts).values():
        until = ended = 0
        for alert in sorted(stretches, key=lambda a: a.at):
            if alert.at > until:
                count += 1 + ended
            until, ended = max(until, alert.until), int(alert.ended)
        count += ended
    return count


def table(scores: list[Score]) -> None:
    """The table of docs/benchmark.md."""
    head = ("entrant", "found", "right cause", "precision", "false", "delay s", "lead s", "messages")
    for line in (head, ["---"] * len(head), *map(_cells, scores)):
        print("|", " | ".join(line), "|")


def _cells(one: Score) -> list[str]:
    would = f" ({one.later})" if one.later != one.found else ""
    return [
        one.entrant.replace("_", "-"),
        f"{one.found}{would} of {one.true}",
        str(one.right),
        f"{one.belong} of {one.notified}",
        str(one.false),
        f"{statistics.median(one.delays):+.1f}, {max(one.delays):+.1f}" if one.delays else "",
        f"{statistics.median(one.leads):.0f} ({len(one.leads)})" if one.leads else "",
        f"{statistics.median(one.messages):g}, {max(one.messages)}" if one.messages else "",
    ]


def main() -> int:
    """Replay, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=Path, help="a directory of recordings in neutral form")
    options = parser.parse_args()
    if not prometheus_server.available():
        sys.exit("Prometheus is not installed (Debian: apt-get install prometheus)")
    found = [(case, scrapes) for case, scrapes in cases(options.recordings) if _has_metrics(scrapes)]
    given, recordings = [case for case, _ in found], [scrapes for _, scrapes in found]
    scores = [own_score(given)]
    for entrant, rules in prometheus_rules.entrants().items():
        with tempfile.TemporaryDirectory(prefix="flinkwatch-rules-") as work:
            scores.append(score(entrant, given, prometheus_rules.alerts(recordings, Path(work), rules)))
    print(f"{len(given)} recordings with metrics, {sum(not c.truths for c in given)} of them healthy")
    table(scores)
    print(json.dumps({one.entrant: {"found": one.found, "true": one.true, "right": one.right} for one in scores}))
    return 0


def _has_metrics(recording: neutral.Recording) -> bool:
    return any(entry.kind == "scrape" and entry.body for entry in recording.entries)


if __name__ == "__main__":
    sys.exit(main())
