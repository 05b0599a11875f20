"""Reads the log texts in a Kafka record and their origin.

Supported are raw lines (origin in headers and key), also in a JSON layout, the documents of Filebeat, Fluent Bit,
Fluentd, Vector, Logstash, journald and the OpenTelemetry Collector, Kubernetes events, and lines as container runtimes
and kubectl write them. Bytes that are none of these raise `UndecodableError` with a reason from `REASONS`.
"""

from typing import Any

import msgspec

from detectors.events.envelopes import kubernetes_events, otlp, otlp_protobuf
from detectors.events.envelopes.kubernetes_events import EventLine
from detectors.events.envelopes.otlp import Ignored
from detectors.events.event import Record
from detectors.events.identity import Identity, Origin
from detectors.events.layouts import json_layout, wrappers
from detectors.events.layouts.json_layout import LoggedLine
from detectors.events.vocabulary.metric_names import OTHER_REPORTER
from detectors.values.decoding import UndecodableError, decoded

REASONS = (
    "empty",
    "too_large",
    "invalid_utf8",
    "nul_byte",
    "not_json",
    "wrong_shape",
    "too_deep",
    "out_of_range",
    "not_prometheus",
    "not_otlp",
    OTHER_REPORTER,
)

MAX_LOG_BYTES = 512 * 1024
MAX_METRIC_BYTES = 16 * 1024 * 1024


class _File(msgspec.Struct, frozen=True):
    path: str = ""


class _LogMeta(msgspec.Struct, frozen=True):
    file: _File = _File()
    level: Any = None


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Kubernetes(msgspec.Struct, frozen=True):
    """Filebeat nests the names (`pod.name`, `namespace`); Fluent Bit, Fluentd and Vector use two flat forms."""

    pod: _Named = _Named()
    namespace: str = ""
    container: _Named = _Named()
    labels: dict[str, Any] = {}
    pod_name: str = ""
    namespace_name: str = ""
    container_name: str = ""
    host: str = ""
    pod_namespace: str = ""
    pod_labels: dict[str, Any] = {}
    pod_node_name: str = ""


class _Shipped(msgspec.Struct, frozen=True):
    """Filebeat has the text in `message` and an object in `log`; Fluent Bit and Fluentd have the text in `log`.

    Vector and Logstash have it in `message`, and the file in `file` or `path`. journald has it in `MESSAGE`, as numbers
    if it is not plain text. A Kubernetes event names the object that it is about, or is the `object` of a watch.
    """

    message: str | None = None
    log: str | _LogMeta | None = None
    fields: dict[str, Any] = {}
    host: str | _Named = ""
    kubernetes: _Kubernetes | None = None
    file: Any = None
    path: Any = None
    cluster: Any = None
    level: Any = None
    log_level: Any = msgspec.field(name="log.level", default=None)
    severity: Any = None
    resource_logs: list[otlp.ResourceLogs] | None = msgspec.field(name="resourceLogs", default=None)
    resource_spans: list[otlp.ResourceSpans] | None = msgspec.field(name="resourceSpans", default=None)
    involved_object: Any = msgspec.field(name="involvedObject", default=None)
    regarding: Any = None
    object: Any = None
    journal_message: str | list[int] | None = msgspec.field(name="MESSAGE", default=None)
    journal_host: str = msgspec.field(name="_HOSTNAME", default="")
    journal_container: str | list[str] = msgspec.field(name="CONTAINER_NAME", default="")


Entry = tuple[str, Origin, LoggedLine | None]
"""One log text of a record: the text, its origin, and the parsed line if the record is a line in a JSON layout."""


_NOWHERE = Origin()
_BLANK, _BRACE, _BRACKET = b" {["
_OTLP_STARTS = (b'{"resourceLogs"', b'{"resourceSpans"')
_decode = msgspec.json.Decoder(_Shipped).decode
_decode_any = msgspec.json.Decoder(dict[str, Any]).decode
_APP_LABELS = (
    "app",
    "app.kubernetes.io/instance",
    "app_kubernetes_io/instance",
    "app.kubernetes.io/name",
    "app_kubernetes_io/name",
)


def check(value: bytes | None, limit: int) -> bytes:
    """The bytes, if they can be text. Raises UndecodableError."""
    if not value or value.isspace():
        raise UndecodableError("empty", "the record has no value")
    if len(value) > limit:
        raise UndecodableError("too_large", f"the record has {len(value)} bytes, more than the limit of {limit}")
    if b"\x00" in value:
        raise UndecodableError("nul_byte", f"NUL byte at offset {value.index(0)}")
    return value


def decode_json(decode: Any, value: bytes, what: str) -> Any:
    """`decode(value)`, with every error in the JSON raised as UndecodableError."""
    try:
        return decoded(decode, value)
    except UndecodableError as error:
        if error.reason != "wrong_shape":
            raise
        raise UndecodableError("wrong_shape", f"not {what}: {error}") from None


def origin_of(record: Record, header: str) -> Origin:
    """The origin given by headers and key. Invalid bytes in them are replaced."""
    origin = Origin(key=record.key.decode(errors="replace")) if record.key else _NOWHERE
    parts = {"host": "host", "file": "file", header: "header"}
    for name, raw in record.headers:
        if name in parts:
            origin = origin._replace(**{parts[name]: raw.decode(errors="replace")})
    return origin


def open_log(record: Record, identity: Identity, ignored: Ignored) -> list[Entry]:
    """The log texts of a record, of one or more lines each. Counts entries without one. Raises UndecodableError."""
    known = origin_of(record, identity.header)
    lines = None
    if record.value is not None and otlp_protobuf.holds(record.value):
        lines = _otlp_lines(record.value, ignored)
    if lines is None:
        entries = _entries(record, known, identity, ignored)
    else:
        origin = known.guarded(identity.envelope)
        entries = [_collected(origin, known, line, identity) for line in lines]
    return [entry for wrapped in entries for entry in _unwrapped(wrapped)]


def _unwrapped(entry: Entry) -> list[Entry]:
    """The entry without what kubectl or a container runtime writes in front of each line, which names the pod."""
    text, origin, logged = entry
    unwrapped = wrappers.unwrap_text(text) if logged is None else None
    if unwrapped is None:
        return [entry]
    return [
        (inner, origin._replace(pod=origin.pod or pod, container=origin.container or container), None)
        for inner, pod, container in unwrapped
    ]


def _entries(record: Record, known: Origin, identity: Identity, ignored: Ignored) -> list[Entry]:
    if record.value and record.value.isspace():
        # Logs contain blank lines, and a shipper may send each as a record.
        return []
    origin = known.guarded(identity.envelope)
    # A collector's document holds many lines.
    many = record.value is not None and record.value[:64].lstrip().startswith(_OTLP_STARTS)
    value = check(record.value, MAX_METRIC_BYTES if many else MAX_LOG_BYTES)
    start = value[0] if value[0] > _BLANK else value.lstrip()[0]
    if start != _BRACE and (start != _BRACKET or not _is_array(value)):
        return [(decoded(bytes.decode, value), origin.of_raw_text(identity.envelope), None)]
    try:
        shipped: _Shipped = decode_json(_decode, value, "a document that holds a log line")
    except UndecodableError as error:
        # A line in a JSON layout may be followed by the raw lines of its stack, or be invalid JSON (EMR).
        if error.reason == "not_json" and json_layout.read(value.lstrip().partition(b"\n")[0]) is not None:
            return [(decoded(bytes.decode, value), origin.of_raw_text(identity.envelope), None)]
        raise
    if shipped.resource_logs is not None or shipped.resource_spans is not None:
        lines = otlp.log_lines(shipped.resource_logs or [], ignored)
        lines += otlp.span_lines(shipped.resource_spans or [], ignored)
        return [_collected(origin, known, line, identity) for line in lines]
    return [_of_document(value, shipped, _shipped_from(origin, shipped), known, identity)]


def _of_document(value: bytes, shipped: _Shipped, origin: Origin, known: Origin, identity: Identity) -> Entry:
    """The text of a shipper's document, or of a line in a JSON layout."""
    if any(isinstance(part, dict) for part in (shipped.involved_object, shipped.regarding, shipped.object)) and (
        event := kubernetes_events.read(_decode_any(value))
    ):
        return _of_event(event, origin, known, identity)
    text = shipped.message if shipped.message is not None else shipped.log
    if text is None:
        text = _journal_text(shipped.journal_message)
    log = shipped.log
    if (
        shipped.level is not None
        or shipped.log_level is not None
        or shipped.severity is not None
        or (isinstance(log, _LogMeta) and log.level is not None)
    ) and (logged := json_layout.read(value)) is not None:
        origin = within(origin, logged).of_document(known, identity.envelope)
        return text if isinstance(text, str) else logged.message, origin, logged
    if not isinstance(text, str):
        raise UndecodableError("wrong_shape", 'none of "message", "log" and "MESSAGE" contains a line')
    return text, origin.of_document(known, identity.envelope), None


def within(origin: Origin, logged: LoggedLine) -> Origin:
    """The origin, completed with container and host from a line in a JSON layout."""
    if not (logged.container or logged.host):
        return origin
    return origin._replace(container=origin.container or logged.container, host=origin.host or logged.host)


def _otlp_lines(value: bytes, ignored: Ignored) -> list[otlp.OtlpLine] | None:
    """The lines of OTLP's protobuf; None if the bytes are a text."""
    if len(value) > MAX_METRIC_BYTES:
        return None
    if otlp_protobuf.has_spans(value):
        spans = otlp_protobuf.read_spans(value)
        return None if spans is None else otlp.span_lines(spans, ignored)
    records = otlp_protobuf.read_logs(value)
    return None if records is None else otlp.log_lines(records, ignored)


def _journal_text(message: str | list[int] | None) -> str | None:
    if not isinstance(message, list):
        return message
    try:
        return bytes(message).decode(errors="replace")
    except ValueError:
        raise UndecodableError("wrong_shape", '"MESSAGE" has a number that is no byte') from None


def _is_array(value: bytes) -> bool:
    """Whether the value is JSON. A line of text may begin with a bracket too, as YARN's diagnostics do."""
    try:
        msgspec.json.decode(value)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _collected(guarded: Origin, known: Origin, line: otlp.OtlpLine, identity: Identity) -> Entry:
    """The origin given by the attributes of an OpenTelemetry log record."""
    given = line.attributes
    origin = guarded._replace(
        field=given.get("cluster", ""),
        namespace=given.get("k8s.namespace.name", ""),
        app=next(
            (v for k in _APP_LABELS if (v := given.get(f"k8s.pod.labels.{k}", given.get(f"k8s.pod.label.{k}")))), ""
        ),
        pod=given.get("k8s.pod.name", ""),
        container=given.get("k8s.container.name", ""),
        file=given.get("log.file.path") or given.get("log.file.name") or known.file,
        host=given.get("host.name") or given.get("k8s.node.name") or given.get("host") or known.host,
    )
    if line.event is not None:
        return _of_event(line.event, origin, known, identity)
    return line.text, origin.of_document(known, identity.envelope), line.logged


def _of_event(event: EventLine, origin: Origin, known: Origin, identity: Identity) -> Entry:
    """The line of a Kubernetes event, and the cluster of its object."""
    own = event.origin(origin).of_document(event.origin(known), identity.envelope)
    return event.logged.message, own, event.logged


def _shipped_from(known: Origin, shipped: _Shipped) -> Origin:
    """The origin given by the document, which overrides headers and key."""
    log, host, pod, cluster = shipped.log, shipped.host, shipped.kubernetes, shipped.fields.get("cluster")
    cluster = cluster or shipped.cluster
    host = (host if isinstance(host, str) else host.name) or shipped.journal_host
    file = log.file.path if isinstance(log, _LogMeta) else _path(shipped) or known.file
    field = cluster if isinstance(cluster, str) else ""
    if pod is None:
        container = shipped.journal_container if isinstance(shipped.journal_container, str) else ""
        return known._replace(field=field, file=file, host=host or known.host, container=container or known.container)
    labels = pod.labels or pod.pod_labels
    return known._replace(
        field=field,
        namespace=pod.namespace_name or pod.namespace or pod.pod_namespace,
        app=next((v for k in _APP_LABELS if isinstance(v := labels.get(k), str)), ""),
        pod=pod.pod_name or pod.pod.name,
        container=pod.container_name or pod.container.name,
        file=file,
        host=host or pod.host or pod.pod_node_name or known.host,
    )


def _path(shipped: _Shipped) -> str:
    """The path of the log file. A layout may put the name of a Java file there, which has no slash."""
    return next((f for f in (shipped.path, shipped.file) if isinstance(f, str) and "/" in f), "")
