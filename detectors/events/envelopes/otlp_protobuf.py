"""Reads OTLP's protobuf, the default encoding of the OpenTelemetry Collector's Kafka exporter.

Such a record is a sequence of fields of number 1, so it begins with a line feed, as a text may too. A text is not of
that form: the lengths of its fields would have to add up to its own length.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec
from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import AnyValue as AnyValueMessage
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as LogRecordMessage
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, MetricsData, NumberDataPoint, Sum
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as MetricMessage
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from detectors.events.envelopes.otlp import (
    AnyValue,
    Attribute,
    DataPoint,
    DataPoints,
    KeyValues,
    LogRecord,
    Metric,
    Resource,
    ResourceLogs,
    ResourceMetrics,
    ResourceSpans,
    Scope,
    ScopeLogs,
    ScopeMetrics,
    ScopeSpans,
    Span,
    UnreadPoints,
)
from detectors.values.decoding import UndecodableError

T = TypeVar("T")

_FIRST = 0x0A
# The fields of a resource's part: the resource, its scopes, the URL of its schema.
_PARTS = frozenset({0x0A, 0x12, 0x1A})
_MAX_PARTS = 10_000
_TRACE_ID, _SPAN_ID = b"\n\x10", b"\x12\x08"
_BYTES = 2
_NOTHING = msgspec.Raw(b"null")


def holds(value: bytes) -> bool:
    """Whether the bytes are OTLP or meant to be: in its form, or beginning like it and no text."""
    return value[:1] == b"\n" and (framed(value) or not _is_text(value))


def framed(value: bytes) -> bool:
    """Whether the bytes have the outer form of OTLP. This looks at a few bytes for each resource."""
    at, end = 0, len(value)
    for _ in range(_MAX_PARTS):
        if at == end:
            return end > 0
        length, begin = _varint(value, at + 1)
        if value[at] != _FIRST or length < 0 or begin + length > end or (length and value[begin] not in _PARTS):
            return False
        at = begin + length
    return False


def read_logs(value: bytes) -> list[ResourceLogs] | None:
    """The log records; None if the bytes are a text. Raises UndecodableError."""
    found = _parsed(LogsData.FromString, value)
    if found is None:
        return None
    return [
        ResourceLogs(
            Resource(_attributes(r.resource.attributes)),
            [ScopeLogs(Scope(s.scope.name), [_record(record) for record in s.log_records]) for s in r.scope_logs],
        )
        for r in found.resource_logs
    ]


def read_spans(value: bytes) -> list[ResourceSpans] | None:
    """The spans; None if the bytes are a text. Raises UndecodableError."""
    found = _parsed(TracesData.FromString, value)
    if found is None:
        return None
    return [
        ResourceSpans(
            Resource(_attributes(r.resource.attributes)),
            [
                ScopeSpans(
                    Scope(s.scope.name),
                    [
                        Span(x.name, x.start_time_unix_nano, x.end_time_unix_nano, _attributes(x.attributes))
                        for x in s.spans
                    ],
                )
                for s in r.scope_spans
            ],
        )
        for r in found.resource_spans
    ]


def read_metrics(value: bytes, known: Callable[[str], bool]) -> list[ResourceMetrics] | None:
    """The metrics, with the points of those that are known; None if the bytes are a text. Raises UndecodableError."""
    found = _parsed(MetricsData.FromString, value)
    if found is None:
        return None
    return [
        ResourceMetrics(
            Resource(_attributes(r.resource.attributes)),
            [ScopeMetrics([_metric(metric, known) for metric in s.metrics]) for s in r.scope_metrics],
        )
        for r in found.resource_metrics
    ]


def has_spans(value: bytes) -> bool:
    """Whether the first entry is a span: no log record begins with an ID of 16 bytes and one of 8."""
    first: bytes | None = value
    for number in (1, 2, 2):
        first = None if first is None else _field(first, number)
    return first is not None and first[:2] == _TRACE_ID and first[18:20] == _SPAN_ID


def _parsed(parse: Callable[[bytes], T], value: bytes) -> T | None:
    if value[:1] != b"\n":
        return None
    detail = "the lengths of its parts do not add up to its length"
    if framed(value):
        try:
            return parse(value)
        except DecodeError as error:
            detail = str(error)
    if _is_text(value):
        return None
    raise UndecodableError("not_otlp", f"begins like OTLP's protobuf, but {detail}")


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _varint(value: bytes, at: int) -> tuple[int, int]:
    """A number of up to 64 bits and the place after it; -1 if there is none."""
    number = 0
    for shift, byte in enumerate(value[at : at + 10]):
        number |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return number, at + shift + 1
    return -1, at


def _field(message: bytes, number: int) -> bytes | None:
    """The first field of that number that holds bytes; None without one, and if the message is damaged."""
    at = 0
    for _ in range(_MAX_PARTS):
        tag, at = _varint(message, at)
        match tag & 7 if tag > 0 else -1:
            case 0:
                size, at = _varint(message, at)
                size = min(size, 0)
            case 1:
                size = 8
            case 2:
                size, at = _varint(message, at)
            case 5:
                size = 4
            case _:
                return None
        if size < 0 or at + size > len(message):
            return None
        if tag == number << 3 | _BYTES:
            return message[at : at + size]
        at += size
    return None


def _attributes(given: Iterable[KeyValue]) -> list[Attribute]:
    return [Attribute(a.key, _value(a.value)) for a in given]


def _value(value: AnyValueMessage) -> AnyValue:
    match value.WhichOneof("value"):
        case "string_value":
            return AnyValue(value.string_value)
        case "int_value":
            return AnyValue(int_value=value.int_value)
        case "double_value":
            return AnyValue(double_value=value.double_value)
        case "kvlist_value":
            return AnyValue(kvlist_value=KeyValues(_attributes(value.kvlist_value.values)))
    return AnyValue()


def _record(record: LogRecordMessage) -> LogRecord:
    return LogRecord(
        record.time_unix_nano,
        record.observed_time_unix_nano,
        int(record.severity_number),
        record.severity_text,
        _value(record.body),
        _attributes(record.attributes),
    )


def _metric(metric: MetricMessage, known: Callable[[str], bool]) -> Metric:
    read = _points if known(metric.name) else _unread_points
    match metric.WhichOneof("data"):
        case "gauge":
            return Metric(metric.name, gauge=read(metric.gauge))
        case "sum":
            return Metric(metric.name, sum=read(metric.sum, int(metric.sum.aggregation_temporality)))
        case "histogram":
            count = len(metric.histogram.data_points)
        case "exponential_histogram":
            count = len(metric.exponential_histogram.data_points)
        case "summary":
            count = len(metric.summary.data_points)
        case _:
            count = 0
    return Metric(metric.name, histogram=UnreadPoints([_NOTHING] * count))


def _points(given: Gauge | Sum, temporality: int | None = None) -> DataPoints:
    return DataPoints([_point(point) for point in given.data_points], temporality)


def _unread_points(given: Gauge | Sum, temporality: int | None = None) -> DataPoints:
    """As many points without what they say."""
    return DataPoints([DataPoint()] * len(given.data_points), temporality)


def _point(point: NumberDataPoint) -> DataPoint:
    number, own = point.WhichOneof("value"), _attributes(point.attributes)
    if number == "as_double":
        return DataPoint(point.as_double, None, point.time_unix_nano, own)
    return DataPoint(None, point.as_int if number else None, point.time_unix_nano, own)
