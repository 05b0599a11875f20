"""OTLP as the OpenTelemetry Collector's Kafka exporter writes it: many log records, metrics or spans per record.

Its JSON (numbers of 64 bits may be strings) and its protobuf (`otlp_protobuf.py`) are decoded into the same types, so
that both give the same events. Attributes of a whole resource (pod, host, cluster) are given once, before its parts.
A sum holds current values (cumulative) or what was added in an interval (delta), as Flink's own reporter sends it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from detectors.events.envelopes import kubernetes_events
from detectors.events.envelopes.kubernetes_events import EventLine
from detectors.events.layouts.json_layout import LoggedLine
from detectors.events.vocabulary import flink_events

Attributes = dict[str, str]

Ignored = Counter[str]
"""How many entries of a record were passed over on purpose, by reason."""

_MAX_MS = 10**14
_MAX_DEPTH = 5


class AnyValue(msgspec.Struct, rename="camel", frozen=True):
    string_value: str | None = None
    int_value: str | int | None = None
    double_value: float | None = None
    kvlist_value: "KeyValues | None" = None


class Attribute(msgspec.Struct, frozen=True):
    key: str = ""
    value: AnyValue = AnyValue()


class KeyValues(msgspec.Struct, frozen=True):
    values: Sequence[Attribute] = ()


class Resource(msgspec.Struct, frozen=True):
    attributes: Sequence[Attribute] = ()


class Scope(msgspec.Struct, frozen=True):
    name: str = ""


class LogRecord(msgspec.Struct, rename="camel", frozen=True):
    time_unix_nano: str | int = 0
    observed_time_unix_nano: str | int = 0
    severity_number: Any = None
    severity_text: str = ""
    body: AnyValue = AnyValue()
    attributes: Sequence[Attribute] = ()


class ScopeLogs(msgspec.Struct, rename="camel", frozen=True):
    scope: Scope = Scope()
    log_records: Sequence[LogRecord] = ()


class ResourceLogs(msgspec.Struct, rename="camel", frozen=True):
    resource: Resource = Resource()
    scope_logs: Sequence[ScopeLogs] = ()


class Span(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: Sequence[Attribute] = ()


class ScopeSpans(msgspec.Struct, frozen=True):
    scope: Scope = Scope()
    spans: Sequence[Span] = ()


class ResourceSpans(msgspec.Struct, rename="camel", frozen=True):
    resource: Resource = Resource()
    scope_spans: Sequence[ScopeSpans] = ()


class DataPoint(msgspec.Struct, rename="camel", frozen=True):
    as_double: float | None = None
    as_int: str | int | None = None
    time_unix_nano: str | int = 0
    attributes: Sequence[Attribute] = ()


class DataPoints(msgspec.Struct, rename="camel", frozen=True):
    data_points: Sequence[DataPoint] = ()
    aggregation_temporality: Any = None


class UnreadPoints(msgspec.Struct, rename="camel", frozen=True):
    """Points that are not read: a histogram or a summary."""

    data_points: Sequence[msgspec.Raw] = ()


class Metric(msgspec.Struct, rename="camel", frozen=True):
    name: str = ""
    gauge: DataPoints | None = None
    sum: DataPoints | None = None
    histogram: UnreadPoints | None = None
    exponential_histogram: UnreadPoints | None = None
    summary: UnreadPoints | None = None


class ScopeMetrics(msgspec.Struct, frozen=True):
    metrics: Sequence[Metric] = ()


class ResourceMetrics(msgspec.Struct, rename="camel", frozen=True):
    resource: Resource = Resource()
    scope_metrics: Sequence[ScopeMetrics] = ()


class _Metrics(msgspec.Struct, rename="camel", frozen=True):
    resource_metrics: list[ResourceMetrics]


read_metrics = msgspec.json.Decoder(_Metrics).decode


class OtlpLine(NamedTuple):
    """One log record. `logged` is set if time and level are given as fields, not only in the text.

    `event` is set if it is a Kubernetes event, from the receiver `k8sobjects` or `k8s_events`.
    """

    text: str
    attributes: Attributes
    logged: LoggedLine | None
    event: EventLine | None = None


def log_lines(resource_logs: Sequence[ResourceLogs], ignored: Ignored) -> list[OtlpLine]:
    """The lines of log records, of Flink's events, which have attributes and no line, and of Kubernetes events."""
    found: list[OtlpLine] = []
    for resource in resource_logs:
        shared = attributes(resource.resource.attributes)
        for scope in resource.scope_logs:
            of_flink = scope.scope.name.startswith(flink_events.SCOPE)
            for record in scope.log_records:
                line = _line(record, shared, of_flink, ignored)
                if line is not None:
                    found.append(line)
    return found


def _line(record: LogRecord, shared: Attributes, of_flink: bool, ignored: Ignored) -> OtlpLine | None:
    own = {**shared, **attributes(record.attributes)} if record.attributes else shared
    if of_flink and (name := own.get("name", "")) in flink_events.EVENTS:
        # The time of such a record is that of its report, the observed one that of the event.
        time = nanos(record.observed_time_unix_nano) or nanos(record.time_unix_nano)
        return _stated(flink_events.line(name, own), time, own)
    body, time = record.body, nanos(record.time_unix_nano)
    text, logged = body.string_value, None
    if text is not None:
        if record.severity_text or record.severity_number:
            logged = LoggedLine(text, time or -1, bool(time), own.get("exception.stacktrace", ""), "", "")
        event = kubernetes_events.of_attributes(own, text, record.severity_text, time or -1)
    else:
        event = kubernetes_events.read(_document(body.kvlist_value)) if body.kvlist_value else None
    if event is not None:
        return OtlpLine(event.logged.message, own, event.logged, event)
    if text is None:
        ignored["no_text"] += 1
        return None
    return OtlpLine(text, own, logged)


def _document(given: KeyValues, depth: int = 0) -> dict[str, Any]:
    """A body that is an object, without lists, as JSON would have it."""
    return {a.key: _value(a.value, depth) for a in given.values}


def _value(given: AnyValue, depth: int) -> Any:
    if given.kvlist_value is not None:
        return _document(given.kvlist_value, depth + 1) if depth < _MAX_DEPTH else None
    if given.int_value is not None:
        number = _integer(given.int_value)
        return None if number is None else int(number)
    return given.string_value


def span_lines(resource_spans: Sequence[ResourceSpans], ignored: Ignored) -> list[OtlpLine]:
    """The lines of the spans that Flink reports of its checkpoints."""
    found: list[OtlpLine] = []
    for resource in resource_spans:
        shared = attributes(resource.resource.attributes)
        for scope in resource.scope_spans:
            of_flink = scope.scope.name.startswith(flink_events.SCOPE)
            for span in scope.spans:
                own = {**shared, **attributes(span.attributes)}
                text = flink_events.line(span.name, own, _duration(span)) if of_flink else ""
                if text:
                    found.append(_stated(text, nanos(span.end_time_unix_nano), own))
                else:
                    ignored["span"] += 1
    return found


def _duration(span: Span) -> int:
    """The duration in ms, -1 if it is unknown."""
    start, end = nanos(span.start_time_unix_nano), nanos(span.end_time_unix_nano)
    return end - start if 0 < start <= end else -1


def _stated(text: str, time: int, own: Attributes) -> OtlpLine:
    return OtlpLine(text, own, LoggedLine(text, time or -1, bool(time), "", "", ""))


def attributes(given: Sequence[Attribute]) -> Attributes:
    """The attributes as text by key, without lists and objects."""
    return {a.key: v for a in given if (v := _text(a.value)) is not None}


def _text(value: AnyValue) -> str | None:
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


_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")


class OtlpPoint(NamedTuple):
    """One number: `time` is in epoch ms or 0. If `delta` is set, the value was added in the interval that ends then."""

    name: str
    value: float
    time: int
    attributes: Attributes
    delta: bool


def metric_points(
    resource_metrics: Sequence[ResourceMetrics], known: Callable[[str], bool], ignored: Ignored
) -> list[tuple[Attributes, list[OtlpPoint]]]:
    """The points of gauges and sums whose name is known, by resource."""
    return [
        (
            attributes(r.resource.attributes),
            [p for s in r.scope_metrics for m in s.metrics for p in _points(m, known, ignored)],
        )
        for r in resource_metrics
    ]


def _points(metric: Metric, known: Callable[[str], bool], ignored: Ignored) -> Iterator[OtlpPoint]:
    found = metric.gauge or metric.sum
    if found is None:
        other = metric.histogram or metric.exponential_histogram or metric.summary
        ignored["histogram"] += len(other.data_points) if other is not None else 0
        return
    if not known(metric.name):
        ignored["unknown_metric"] += len(found.data_points)
        return
    delta = metric.gauge is None and found.aggregation_temporality in _DELTA
    for point in found.data_points:
        number = point.as_double if point.as_double is not None else _integer(point.as_int)
        time = nanos(point.time_unix_nano)
        if number is None:
            ignored["no_value"] += 1
        elif delta and not time:
            # An increase without a time cannot be recognised if it is sent again.
            ignored["no_time"] += 1
        else:
            yield OtlpPoint(metric.name, number, time, attributes(point.attributes), delta)


def _integer(value: str | int | None) -> float | None:
    try:
        return None if value is None else float(value)
    except (ValueError, OverflowError):
        return None
