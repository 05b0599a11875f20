"""Readings as metrics. One reading is the canary, which is not shown as it is, but as the time that it took.

The canary is a record that passes through the whole pipeline and carries the time at which it was sent: the job writes
it to the heartbeat topic, its state stage turns it into a reading, and the reading arrives here. If it does not arrive,
something between the brokers and this process is stuck, whatever other checks say.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from sys import intern

from prometheus_client.core import Metric

from detectors.incident import Reading
from sinks.prometheus.catalogue import NAMESPACE, READINGS, TABLE, scraped

CANARY = "canary_timestamp_seconds"
"""The reading that is the canary, and the metric with the time at which the last one was sent."""

_CANARIES_MISSED = 3
_BUCKET = "bucket"
_UNKNOWN_HELP = "A reading from another version of flinkwatch."
# Values of the job's buckets are added up: of all counters, and of this.
_SUMMED_GAUGE = "state_rows"
# A bucket without readings for so long, while others have some, belongs to an earlier checkpoint.
_GONE_AFTER_MS = 600_000
_METRIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SUFFIX = re.compile(r"_(total|info|bucket|sum|count|created)$")
_RESERVED = frozenset(
    _SUFFIX.sub("", one.name) for origin, group in TABLE.items() if origin != "readings" for one in group
)
_SUFFIX_OF = {"counter": "_total", "info": "_info"}

Labels = tuple[tuple[str, str], ...]


def naming_problem(reading: Reading) -> str:
    """Why the reading's name or a label would make the whole page invalid; empty if they do not."""
    if not _METRIC_NAME.fullmatch(reading.name):
        return "invalid metric name"
    if _SUFFIX.sub("", reading.name) in _RESERVED:
        return "metric name reserved for delivery"
    if any(not _METRIC_NAME.fullmatch(label) or label.startswith("__") for label in reading.labels):
        return "invalid label name"
    return ""


def compact(reading: Reading) -> Reading:
    """The same reading with shared texts, because a dozen readings have the same job name."""
    labels = {intern(label): intern(value) for label, value in reading.labels.items()}
    return Reading(name=intern(reading.name), labels=labels, value=reading.value, at=reading.at, type=reading.type)


def reading_metrics(readings: Iterable[Reading]) -> Iterator[Metric]:
    by_name: defaultdict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_name[reading.name].append(reading)
    for name, group in by_name.items():
        known = READINGS.get(name)
        kind = "info" if known is not None and known.type == "info" else group[0].type
        suffix = _SUFFIX_OF.get(kind, "")
        family = NAMESPACE + name.removesuffix(suffix)
        metric = Metric(family, known.help if known is not None else _UNKNOWN_HELP, kind)
        sample = family + suffix
        if kind == "counter" or name == _SUMMED_GAUGE:
            for labels, value in _summed(group, kind == "gauge").items():
                metric.add_sample(sample, dict(labels), value)
        else:
            for reading in group:
                metric.add_sample(sample, reading.labels, reading.value)
        yield metric


def _summed(group: list[Reading], now_only: bool) -> dict[Labels, float]:
    newest = max(reading.at for reading in group)
    sums: defaultdict[Labels, float] = defaultdict(float)
    for reading in group:
        if not now_only or reading.at >= newest - _GONE_AFTER_MS:
            sums[tuple(sorted((k, v) for k, v in reading.labels.items() if k != _BUCKET))] += reading.value
    return sums


class Canary:
    """The last canary that arrived; `wall` gives epoch seconds. One thread notes, others read."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._began = wall()
        # When it was sent and how long it took, None while not known. One assignment changes both.
        self._last: tuple[float, float | None] = 0.0, None

    def arrived(self, sent: float) -> None:
        """A canary sent at `sent` (epoch s) has arrived."""
        last, took = self._last
        if sent > last:
            # The topic still has a canary from before this process began, whose round trip is unknown.
            self._last = sent, max(0.0, self._wall() - sent) if sent >= self._began else took

    def problem(self, every_ms: int) -> str | None:
        """Why the canary is late, if none has arrived for three intervals of `every_ms`; else None."""
        sent, _ = self._last
        if not sent:
            return "no canary has arrived yet"
        age = self._wall() - sent
        if age <= _CANARIES_MISSED * every_ms / 1000:
            return None
        return f"the last canary that arrived was sent {age:.0f} s ago"

    def collect(self) -> Iterator[Metric]:
        """Round trip and send time of the last canary, if known."""
        sent, took = self._last
        for name, value in (("canary_round_trip_seconds", took), (CANARY, sent or None)):
            if value is not None:
                yield scraped(name, [((), value)])
