"""Reads metrics in formats other than Prometheus text and Telegraf's JSON.

Supported are the InfluxDB line protocol (from Telegraf and from Flink's InfluxDB reporter), prometheus-kafka-adapter,
Vector and OTLP. Flink's own reporters leave out `flink_`, write dots, and do not use Prometheus's form of labels.
This is corrected here, so that later stages see no difference.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from detectors.events.envelopes import otlp
from detectors.events.envelopes.otlp import Ignored
from detectors.events.event import Sample
from detectors.events.layouts import times
from detectors.events.names import filtered
from detectors.events.vocabulary.metric_names import Tags, detector_name, refuse_other_reporter, samples_of

Page = tuple[list[Sample], Tags, int]
"""The samples of one source that detectors use, the tags of the agent, and the time in epoch ms or 0."""

_ESCAPED = re.compile(r"\\(.)")
# measurement[,tag=value…] field=value[,…] [time]; blanks, commas and equals signs are escaped except in quoted text.
_LINE = re.compile(
    r"(?P<name>(?:[^\s,\\]|\\.)+)(?P<tags>(?:,(?:[^\s\\]|\\.)*)?) "
    r'(?P<fields>(?:[^\s"\\]|\\.|"(?:[^"\\]|\\.)*")+)(?: (?P<time>-?\d+))?\s*$'
)
_PAIR = re.compile(r"((?:[^,=\\]|\\.)+)=((?:[^,=\\]|\\.)*)")
_FIELD = re.compile(r'((?:[^,=\\]|\\.)+)=("(?:[^"\\]|\\.)*"|[^,]*)')
_VALUES = ("value", "gauge", "counter", "count")


class _MetricValue(msgspec.Struct, frozen=True):
    value: float


class _Single(msgspec.Struct, frozen=True):
    """A metric from Vector, or from prometheus-kafka-adapter, where the value is a string."""

    name: str
    namespace: str | None = None
    tags: dict[str, Any] | None = None
    labels: dict[str, str] = {}
    timestamp: str | int | float | None = None
    value: str | float | None = None
    gauge: _MetricValue | None = None
    counter: _MetricValue | None = None
    kind: str = ""


class _Native(msgspec.Struct, frozen=True):
    metric: _Single


_decode_single = msgspec.json.Decoder(_Single).decode
_decode_native = msgspec.json.Decoder(_Native).decode


def is_line_protocol(text: str) -> bool:
    """Whether the first line is line protocol: it has an equals sign outside braces, unlike Prometheus text."""
    line = text.lstrip().partition("\n")[0]
    return _LINE.match(line) is not None and "=" in line.partition("{")[0]


def read_lines(text: str) -> list[Page]:
    """The pages of lines in line protocol, one for each source. Raises ValueError with the first invalid line."""
    pages: dict[tuple[str, str], Page] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#":
            continue
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"line {number} is not InfluxDB line protocol: {line[:80]!r}")
        name = _plain(found["name"])
        own = name.startswith(("taskmanager_", "jobmanager_"))
        tags = {_plain(k): _plain(v) for k, v in _PAIR.findall(found["tags"])}
        time = times.of_number(int(found["time"])) if found["time"] else 0
        page = pages.setdefault((tags.get("cluster", ""), tags.get("host", "")), ([], tags, time))
        for metric, value in _numbers(f"flink_{name}" if own else name, found["fields"]):
            page[0].extend(_samples(metric, tags, value, own))
    return list(pages.values())


def _numbers(name: str, fields: str) -> Iterator[tuple[str, float]]:
    """(metric, value) pairs of a line. The metric is the measurement, or each field (Telegraf's metric_version 2)."""
    numbers = {_plain(k): n for k, v in _FIELD.findall(fields) if (n := _number(v.rstrip("iu"))) is not None}
    if detector_name(name)[0]:
        first = next((f for f in _VALUES if f in numbers), None)
        if first is not None:
            yield name, numbers[first]
        return
    yield from numbers.items()


def read_document(value: bytes, ignored: Ignored) -> list[Page]:
    """The pages of a JSON document. Raises msgspec.MsgspecError (a ValueError) if its format is unknown."""
    if b'"resourceMetrics"' in value[:200]:
        return otlp_pages(otlp.read_metrics(value).resource_metrics, ignored)
    metric = (
        _decode_native(value).metric if value.lstrip()[1:].lstrip().startswith(b'"metric"') else _decode_single(value)
    )
    tags = metric.labels or {k: v for k, v in (metric.tags or {}).items() if isinstance(v, str)}
    name = f"{metric.namespace}_{metric.name}" if metric.namespace else metric.name
    measured = metric.gauge or metric.counter
    refuse_other_reporter(name)
    number = measured.value if measured is not None else metric.value
    if number is None and not metric.kind:
        raise msgspec.ValidationError("Object contains no value")
    if isinstance(number, str):
        number = _number(number)
    time, increment = _time(metric.timestamp), metric.kind == "incremental"
    # Only a counter begins with 0. An increment without a time cannot be recognised if it is sent again.
    if number is None or (increment and (metric.counter is None or not time)):
        return []
    return [(list(_samples(name, tags, number, own=False, until=time if increment else 0)), tags, time)]


def otlp_pages(resource_metrics: Sequence[otlp.ResourceMetrics], ignored: Ignored) -> list[Page]:
    """One page for each resource and cluster. Flink's own reporter names the cluster in attributes of each point."""
    pages: list[Page] = []
    for shared, points in otlp.metric_points(resource_metrics, is_known, ignored):
        host = shared.get("host") or shared.get("host.name") or shared.get("k8s.pod.name", "")
        of_cluster: dict[str, list[otlp.OtlpPoint]] = {}
        for point in points:
            of_cluster.setdefault(shared.get("cluster") or point.attributes.get("cluster", ""), []).append(point)
        for cluster, own in of_cluster.items():
            samples = [sample for point in own for sample in _of_point(point, shared)]
            time = next((point.time for point in own if point.time), 0)
            pages.append((samples, {**shared, "host": host, "cluster": cluster}, time))
    return pages


def is_known(name: str) -> bool:
    """Whether detectors use a metric of that name, which Flink's own reporter writes with dots."""
    return detector_name(filtered(name))[0] != ""


def _of_point(point: otlp.OtlpPoint, shared: Tags) -> Iterator[Sample]:
    until = point.time if point.delta else 0
    return _samples(filtered(point.name), {**shared, **point.attributes}, point.value, "." in point.name, until)


def _samples(name: str, tags: Tags, value: float, own: bool, until: int = 0) -> Iterator[Sample]:
    """The sample of one metric. `own` is set if Flink's own reporter wrote it, without Prometheus's form of labels."""
    event_type, collector = detector_name(name)
    if not event_type:
        return
    if own:
        tags = {k: v if k == "host" else filtered(v) for k, v in tags.items()}
    yield from samples_of(event_type, {**tags, "collector": collector} if collector else tags, value, until)


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _time(timestamp: str | float | None) -> int:
    if isinstance(timestamp, str):
        return max(0, times.of_text(timestamp)[0])
    return times.of_number(timestamp) if timestamp is not None else 0
