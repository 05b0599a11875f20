"""What the published alerting rules of `flink_rules.yaml` say on recorded scrapes: a real Prometheus, asked afterwards.

The scrapes become blocks of its database with their own times; each rule's expression is asked for every
`EVERY_S`, and its `for` is applied as Prometheus does. Blocks cannot hold the marks that end a series whose target is
gone, so a sample counts for two and a half scrapes instead of Prometheus' five minutes. Needs `promtool` and
`prometheus` (Debian: package prometheus).
"""

import re
import statistics
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from detectors.values.durations import parse_duration
from tests.bench.neutral import Recording, samples
from tests.prometheus_server import Prometheus, import_samples

EVERY_S = 15
RULES = Path(__file__).with_name("flink_rules.yaml")


class Alert(NamedTuple):
    """One rule begins to fire for one series; epoch ms. `since` is when its condition began to hold.

    `lasting` is False when the recording ended before `for` had passed: it would fire at that time, were the condition
    to hold on.
    """

    name: str
    since: int
    at: int
    lasting: bool


def alerts(recordings: Iterable[Recording], folder: Path) -> dict[str, list[Alert]]:
    """The alerts on each recording that has metrics, in order; works in `folder`."""
    rules = [r for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for r in group["rules"]]
    names = {n for r in rules for n in re.findall(r"flink_\w+", r["expr"])}
    by_interval: dict[int, list[Recording]] = {}
    for recording in recordings:
        every_s = _import(recording, names, folder)
        if every_s:
            by_interval.setdefault(every_s, []).append(recording)
    said = {}
    for every_s, own in by_interval.items():
        with Prometheus(folder, lookback=f"{2500 * every_s}ms") as server:
            for recording in own:
                found = [a for rule in rules for a in _fired(rule, recording, server)]
                said[recording.name] = sorted(found, key=lambda a: a.at)
    return said


def _import(recording: Recording, names: set[str], folder: Path) -> int:
    """Write the database's blocks; seconds between two scrapes of a process, 0 when there are no metrics."""
    text = folder / "metrics.txt"
    times: dict[tuple[str, int], list[int]] = {}
    with text.open("w", encoding="utf-8") as out:
        for entry in recording.entries:
            if entry.kind != "scrape" or not entry.body:
                continue
            times.setdefault((entry.host, entry.port), []).append(entry.t)
            target = f'recording="{recording.name}",job="flink",instance="{entry.host}:{entry.port}"'
            for name, labels, value in samples(entry.body):
                if name in names:
                    all_labels = f"{target},{labels}" if labels else target
                    out.write(f"{name}{{{all_labels}}} {value} {entry.t / 1000:.3f}\n")
        out.write("# EOF\n")
    gaps = [b - a for own in times.values() for a, b in pairwise(own)]
    if not gaps:
        return 0
    import_samples(text, folder)
    return max(1, round(statistics.median(gaps) / 1000))


def _fired(rule: dict[str, Any], recording: Recording, server: Prometheus) -> list[Alert]:
    begin, end = recording.entries[0].t // 1000, recording.entries[-1].t // 1000
    end = begin + (end - begin) // EVERY_S * EVERY_S
    hold = parse_duration(rule["for"]) // 1000
    fired: list[tuple[int, int, bool]] = []
    for series in server.over(rule["expr"], begin, end, EVERY_S):
        if series["metric"].get("recording") == recording.name:
            fired += _held([int(t) for t, _ in series["values"]], hold, end)
    return [Alert(rule["alert"], 1000 * since, 1000 * t, lasting) for since, t, lasting in sorted(set(fired))]


def _held(times: list[int], hold: int, end: int) -> list[tuple[int, int, bool]]:
    """(since, firing at, whether it came to that) of each stretch for which a series was true, if true long enough."""
    found: list[tuple[int, int, bool]] = []
    starts = [i for i, t in enumerate(times) if i == 0 or t - times[i - 1] > EVERY_S]
    for first, last in pairwise([*starts, len(times)]):
        since, until = times[first], times[last - 1]
        if until - since >= hold:
            found.append((since, since + hold, True))
        elif until == end:
            found.append((since, since + hold, False))
    return found
