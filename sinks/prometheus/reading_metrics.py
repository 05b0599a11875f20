"""Converts readings to metrics."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from sys import intern

from prometheus_client.core import Metric

from detectors.incident import Reading
from sinks.prometheus.catalogue import NAMESPACE, READINGS

_BUCKET = "bucket"
_UNKNOWN_HELP = "A reading from another version of flinkwatch."
# A bucket without readings for so long, while others have some, belongs to an earlier checkpoint.
_GONE_AFTER_MS = 600_000

Labels = tuple[tuple[str, str], ...]


def compact(reading: Reading) -> Reading:
    """The same reading with shared texts, because a dozen readings have the same job name."""
    labels = {intern(label): intern(value) for label, value in reading.labels.items()}
    return Reading(name=intern(reading.name), labels=labels, value=reading.value, at=reading.at, type=reading.type)


def reading_metrics(readings: Iterable[Reading]) -> Iterator[Metric]:
    """One metric family for each name. Values of the job's buckets are added up."""
    by_name: defaultdict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_name[reading.name].append(reading)
    for name, group in by_name.items():
        kind = group[0].type
        known = READINGS.get(name)
        family = NAMESPACE + (name.removesuffix("_total") if kind == "counter" else name)
        metric = Metric(family, known.help if known is not None else _UNKNOWN_HELP, kind)
        sample = f"{family}_total" if kind == "counter" else family
        if kind == "counter" or (known is not None and known.fold):
            for labels, value in _folded(group, kind == "gauge").items():
                metric.add_sample(sample, dict(labels), value)
        else:
            for reading in group:
                metric.add_sample(sample, reading.labels, reading.value)
        yield metric


def _folded(group: list[Reading], now_only: bool) -> dict[Labels, float]:
    newest = max(reading.at for reading in group)
    sums: defaultdict[Labels, float] = defaultdict(float)
    for reading in group:
        if not now_only or reading.at >= newest - _GONE_AFTER_MS:
            sums[tuple(sorted((k, v) for k, v in reading.labels.items() if k != _BUCKET))] += reading.value
    return sums
