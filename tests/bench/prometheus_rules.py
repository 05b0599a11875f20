"""What the published alerting rules of `rules/` say on recorded scrapes: a real Prometheus, asked afterwards.

The scrapes become blocks of its database with their own times; each rule's expression is asked for every
`EVERY_S`, and its `for` is applied as Prometheus does. Blocks cannot hold the marks that end a series whose target is
gone, so a sample counts for two and a half scrapes instead of Prometheus' five minutes. `RECORDING` in an expression
stands for the recording's name. A rule takes no part in a recording that has none of its metrics. Needs `promtool` and
`prometheus` (Debian: package prometheus).
"""

import re
import statistics
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from detectors.values.durations import parse_duration
from tests.bench.neutral import Recording, samples
from tests.prometheus_server import Prometheus, import_samples

EVERY_S = 15
RULES = Path(__file__).with_name("rules")
OLDEST = "awesome_prometheus_alerts"
_METRIC = re.compile(r"flink_\w+")


class Rule(msgspec.Struct, frozen=True):
    """One published rule; `causes` in its annotations are the kinds of incidents that it names."""

    alert: str
    expr: str
    hold: str = msgspec.field(name="for")
    annotations: dict[str, str]
    labels: dict[str, str] = {}

    def metrics(self) -> set[str]:
        """The metrics in its expression."""
        return set(_METRIC.findall(self.expr))


class Alert(NamedTuple):
    """One rule begins to fire for one series; epoch ms. `since` is when its condition began to hold.

    `lasting` is False when the recording ended before `for` had passed: it would fire at that time, were the condition
    to hold on. `until` is when the condition last held, `ended` whether that was before the end of the recording.
    """

    name: str
    since: int
    at: int
    lasting: bool
    until: int
    ended: bool
    causes: frozenset[str]


def entrants() -> dict[str, list[Rule]]:
    """The rules of each file, by its name."""
    return {file.stem: _rules(file) for file in sorted(RULES.glob("*.yaml"))}


def alerts(recordings: Iterable[Recording], folder: Path, rules: list[Rule]) -> dict[str, list[Alert]]:
    """The alerts on each recording that has metrics, in order; works in `folder`."""
    names = {n for r in rules for n in r.metrics()}
    by_interval: dict[int, list[tuple[Recording, set[str]]]] = {}
    for recording in recordings:
        every_s, known = _import(recording, names, folder)
        if every_s:
            by_interval.setdefault(every_s, []).append((recording, known))
    said = {}
    for every_s, own in by_interval.items():
        with Prometheus(folder, lookback=f"{2500 * every_s}ms") as server:
            for recording, known in own:
                found = [a for rule in rules if rule.metrics() & known for a in _fired(rule, recording, server)]
                said[recording.name] = sorted(found, key=lambda a: a.at)
    return said


def _rules(file: Path) -> list[Rule]:
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    return [msgspec.convert(rule, Rule) for group in groups for rule in group["rules"]]


def _import(recording: Recording, names: set[str], folder: Path) -> tuple[int, set[str]]:
    """Write the database's blocks; seconds between two scrapes of a process (0: no metrics), and the known metrics."""
    text = folder / "metrics.txt"
    times: dict[tuple[str, int], list[int]] = {}
    known: set[str] = set()
    with text.open("w", encoding="utf-8") as out:
        for entry in recording.entries:
            if entry.kind != "scrape" or not entry.body:
                continue
            times.setdefault((entry.host, entry.port), []).append(entry.t)
            target = f'recording="{recording.name}",job="flink",instance="{entry.host}:{entry.port}"'
            for name, labels, value in samples(entry.body):
                if name in names:
                    known.add(name)
                    all_labels = f"{target},{labels}" if labels else target
                    out.write(f"{name}{{{all_labels}}} {value} {entry.t / 1000:.3f}\n")
        out.write("# EOF\n")
    # Telegraf may send each sample of a scrape as a record of its own.
    gaps = [b - a for own in times.values() for a, b in pairwise(own) if b - a >= 1_000]
    if not gaps:
        return 0, known
    if known:
        import_samples(text, folder)
    return max(1, round(statistics.median(gaps) / 1000)), known


def _fired(rule: Rule, recording: Recording, server: Prometheus) -> list[Alert]:
    begin, end = recording.entries[0].t // 1000, recording.entries[-1].t // 1000
    end = begin + (end - begin) // EVERY_S * EVERY_S
    hold = parse_duration(rule.hold) // 1000
    causes = frozenset(rule.annotations["causes"].split())
    fired: list[tuple[int, int, bool, int]] = []
    for series in server.over(rule.expr.replace("RECORDING", recording.name), begin, end, EVERY_S):
        if series["metric"].get("recording") == recording.name:
            fired += _held([int(t) for t, _ in series["values"]], hold, end)
    return [
        Alert(rule.alert, 1000 * since, 1000 * t, lasting, 1000 * until, until < end, causes)
        for since, t, lasting, until in sorted(set(fired))
    ]


def _held(times: list[int], hold: int, end: int) -> list[tuple[int, int, bool, int]]:
    """(since, firing at, whether it came to that, until) of each stretch in which a series was true for long enough."""
    found: list[tuple[int, int, bool, int]] = []
    starts = [i for i, t in enumerate(times) if i == 0 or t - times[i - 1] > EVERY_S]
    for first, last in pairwise([*starts, len(times)]):
        since, until = times[first], times[last - 1]
        if until - since >= hold:
            found.append((since, since + hold, True, until))
        elif until == end:
            found.append((since, since + hold, False, until))
    return found
