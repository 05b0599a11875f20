"""Reads OTLP JSON as the OpenTelemetry Collector's Kafka exporter writes it: many log records or metrics per record.

Numbers of 64 bits may be strings. Attributes of a whole resource (pod, host, cluster) are given once, before its parts.
A sum holds current values (cumulative) or what was added in an interval (delta), as Flink's own reporter sends it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from detectors.events.envelopes import kubernetes_events
from detectors.events.envelopes.kubernetes_events import EventLine
from detectors.events.layouts.json_layout import LoggedLine

Attributes = dict[str, str]

_MAX_MS = 10**14
_MAX_DEPTH = 5


class _AnyValue(msgspec.Struct, rename="camel", frozen=True):
    string_value: str | None = None
    int_value: str | int | None = None
    double_value: float | None = None
    kvlist_value: "_Attributes | None" = None


class _Attribute(msgspec.Struct, frozen=True):
    key: str = ""
    value: _AnyValue = _AnyValue()


class _Attributes(msgspec.Struct, frozen=True):
    values: list[_Attribute] = []


class _Resource(msgspec.Struct, frozen=True):
    attributes: list[_Attribute] = []


class _LogRecord(msgspec.Struct, rename="camel", frozen=True):
    time_unix_nano: str | int = 0
    severity_number: Any = None
    severity_text: str = ""
    body: _AnyValue = _AnyValue()
    attributes: list[_Attribute] = []


class _ScopeLogs(msgspec.Struct, rename="camel", frozen=True):
    log_records: list[_LogRecord] = []


class ResourceLogs(msgspec.Struct, rename="camel", frozen=True):
    resource: _Resource = _Resource()
    scope_logs: list[_ScopeLogs] = []


class OtlpLine(NamedTuple):
    """One log record. `logged` is set if time and level are given as fields, not only in the text.

    `event` is set if it is a Kubernetes event, from the receiver `k8sobjects` or `k8s_events`.
    """

    text: str
    attributes: Attributes
    logged: LoggedLine | None
    event: EventLine | None = None


def log_lines(resource_logs: list[ResourceLogs]) -> list[OtlpLine]:
    return [
        line
        for resource in resource_logs
        for shared in (attributes(resource.resource.attributes),)
        for scope in resource.scope_logs
        for record in scope.log_records
        if (line := _line(record, shared)) is not None
    ]


def _line(record: _LogRecord, shared: Attributes) -> OtlpLine | None:
    own = {**shared, **attributes(record.attributes)} if record.attributes else shared
    text, logged = record.body.string_value, None
    if text is None:
        event = kubernetes_events.read(_document(record.body.kvlist_value)) if record.body.kvlist_value else None
        return None if event is None else OtlpLine(event.logged.message, own, event.logged, event)
    if record.severity_text or record.severity_number:
        time = nanos(record.time_unix_nano)
        logged = LoggedLine(text, time or -1, bool(time), own.get("exception.stacktrace", ""), "", "")
    event = kubernetes_events.of_attributes(own, text, record.severity_text, nanos(record.time_unix_nano) or -1)
    if event is not None:
        text, logged = event.logged.message, event.logged
    return OtlpLine(text, own, logged, event)


def _document(given: _Attributes, depth: int = 0) -> dict[str, Any]:
    """A body that is an object, without lists, as JSON would have it."""
    return {a.key: _value(a.value, depth) for a in given.values}


def _value(given: _AnyValue, depth: int) -> Any:
    if given.kvlist_value is not None:
        return _document(given.kvlist_value, depth + 1) if depth < _MAX_DEPTH else None
    if given.int_value is not None:
        number = _integer(given.int_value)
        return None if number is None else int(number)
    return given.string_value


def attributes(given: list[_Attribute]) -> Attributes:
    """The attributes as text by key, without lists and objects."""
    return {a.key: v for a in given if (v := _text(a.value)) is not None}


def _text(value: _AnyValue) -> str | None:
    if value.string_value is not None:
        return value.string_value
    number = value.int_value if value.int_value is not None else value.double_value
    return None if number is None else str(number)


def nanos(value: str | int) -> int:
    """Nanoseconds since the epoch in ms; 0 if the value is no plausible time."""
    try:
        ms = int(value) // 1_000_000
    except ValueError:
        return 0
    return ms if 0 < ms < _MAX_MS else 0


class _Point(msgspec.Struct, rename="camel", frozen=True):
    as_double: float | None = None
    as_int: str | int | None = None
    time_unix_nano: str | int = 0
    attributes: list[_Attribute] = []


class _Points(msgspec.Struct, rename="camel", frozen=True):
    data_points: list[_Point] = []
    aggregation_temporality: Any = None


class _Metric(msgspec.Struct, frozen=True):
    name: str = ""
    gauge: _Points | None = None
    sum: _Points | None = None


class _ScopeMetrics(msgspec.Struct, frozen=True):
    metrics: list[_Metric] = []


class _ResourceMetrics(msgspec.Struct, rename="camel", frozen=True):
    resource: _Resource = _Resource()
    scope_metrics: list[_ScopeMetrics] = []


class _Metrics(msgspec.Struct, rename="camel", frozen=True):
    resource_metrics: list[_ResourceMetrics]


_decode_metrics = msgspec.json.Decoder(_Metrics).decode
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")


class OtlpPoint(NamedTuple):
    """One number: `time` is in epoch ms or 0. If `delta` is set, the value was added in the interval that ends then."""

    name: str
    value: float
    time: int
    attributes: Attributes
    delta: bool


def metric_points(value: bytes) -> list[tuple[Attributes, list[OtlpPoint]]]:
    """The points of gauges and sums, by resource. Raises msgspec.MsgspecError."""
    return [
        (attributes(r.resource.attributes), [p for s in r.scope_metrics for m in s.metrics for p in _points(m)])
        for r in _decode_metrics(value).resource_metrics
    ]


def _points(metric: _Metric) -> Iterator[OtlpPoint]:
    found = metric.gauge or metric.sum
    if found is None:
        return
    delta = metric.gauge is None and found.aggregation_temporality in _DELTA
    for point in found.data_points:
        number, time = (
            point.as_double if point.as_double is not None else _integer(point.as_int),
            nanos(point.time_unix_nano),
        )
        # An increase without a time cannot be recognised if it is sent again.
        if number is not None and (time or not delta):
            yield OtlpPoint(metric.name, number, time, attributes(point.attributes), delta)


def _integer(value: str | int | None) -> float | None:
    try:
        return None if value is None else float(value)
    except (ValueError, OverflowError):
        return None
