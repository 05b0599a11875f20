"""Reads the log texts in a Kafka record and their origin.

Supported are raw lines (origin in headers and key), also in a JSON layout, the documents of Filebeat, Fluent Bit,
Fluentd, Vector, Logstash and the OpenTelemetry Collector, and Kubernetes events. Bytes that are none of these raise
`UndecodableError` with a reason from `REASONS`.
"""

from typing import Any

import msgspec

from detectors.events.envelopes import kubernetes_events, otlp
from detectors.events.envelopes.kubernetes_events import EventLine
from detectors.events.event import Record
from detectors.events.identity import Identity, Origin
from detectors.events.layouts import json_layout
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

    Vector and Logstash have it in `message`, and the file in `file` or `path`. A Kubernetes event names the object that
    it is about, or is the `object` of a watch.
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
    involved_object: Any = msgspec.field(name="involvedObject", default=None)
    regarding: Any = None
    object: Any = None


Entry = tuple[str, Origin, LoggedLine | None]
"""One log text of a record: the text, its origin, and the parsed line if the record is a line in a JSON layout."""


_NOWHERE = Origin()
_BLANK, _BRACE, _BRACKET = b" {["
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


def open_log(record: Record, identity: Identity) -> list[Entry]:
    """The log texts of a record, of one or more lines each. Raises UndecodableError."""
    if record.value and record.value.isspace():
        # Logs contain blank lines, and a shipper may send each as a record.
        return []
    value = check(record.value, MAX_LOG_BYTES)
    known = origin_of(record, identity.header)
    origin = known.guarded(identity.envelope)
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
    if shipped.resource_logs is not None:
        return [_collected(origin, known, line, identity) for line in otlp.log_lines(shipped.resource_logs)]
    return [_of_document(value, shipped, _shipped_from(origin, shipped), known, identity)]


def _of_document(value: bytes, shipped: _Shipped, origin: Origin, known: Origin, identity: Identity) -> Entry:
    """The text of a shipper's document, or of a line in a JSON layout."""
    if any(isinstance(part, dict) for part in (shipped.involved_object, shipped.regarding, shipped.object)) and (
        event := kubernetes_events.read(_decode_any(value))
    ):
        return _of_event(event, origin, known, identity)
    text = shipped.message if shipped.message is not None else shipped.log
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
        raise UndecodableError("wrong_shape", 'neither "message" nor "log" contains a line')
    return text, origin.of_document(known, identity.envelope), None


def within(origin: Origin, logged: LoggedLine) -> Origin:
    """The origin, completed with container and host from a line in a JSON layout."""
    if not (logged.container or logged.host):
        return origin
    return origin._replace(container=origin.container or logged.container, host=origin.host or logged.host)


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
        host=given.get("host.name") or given.get("k8s.node.name") or known.host,
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
    host = host if isinstance(host, str) else host.name
    file = log.file.path if isinstance(log, _LogMeta) else _path(shipped) or known.file
    field = cluster if isinstance(cluster, str) else ""
    if pod is None:
        return known._replace(field=field, file=file, host=host or known.host)
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
