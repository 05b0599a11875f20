"""Bytes of a Kafka record → the log text in it and its origin.

Read here: the raw line (origin in headers and key), Filebeat JSON and Fluent Bit's kubernetes JSON. Every envelope
raises `UnreadableError` with a reason from `REASONS` when the bytes are not one.
"""

from typing import Any

import msgspec

from detectors.events.event import Record
from detectors.events.identity import Origin

REASONS = ("empty", "too_large", "invalid_utf8", "nul_byte", "not_json", "wrong_shape", "too_deep", "not_prometheus")

MAX_LOG_BYTES = 512 * 1024
MAX_METRIC_BYTES = 16 * 1024 * 1024


class UnreadableError(Exception):
    """A record is no envelope that is read: `reason` is one of REASONS, the message says what is wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class _File(msgspec.Struct, frozen=True):
    path: str = ""


class _LogMeta(msgspec.Struct, frozen=True):
    file: _File = _File()


class _Named(msgspec.Struct, frozen=True):
    name: str = ""


class _Kubernetes(msgspec.Struct, frozen=True):
    """Filebeat nests (`pod.name`, `namespace`), Fluent Bit is flat (`pod_name`, `namespace_name`)."""

    pod: _Named = _Named()
    namespace: str = ""
    container: _Named = _Named()
    labels: dict[str, Any] = {}
    pod_name: str = ""
    namespace_name: str = ""
    container_name: str = ""
    host: str = ""


class _Shipped(msgspec.Struct, frozen=True):
    """Filebeat has the text in `message` and an object in `log`; Fluent Bit has the text in `log`."""

    message: str | None = None
    log: str | _LogMeta | None = None
    fields: dict[str, Any] = {}
    host: str | _Named = ""
    kubernetes: _Kubernetes | None = None


_NOWHERE = Origin()
_decode = msgspec.json.Decoder(_Shipped).decode
_APP_LABELS = (
    "app",
    "app.kubernetes.io/instance",
    "app_kubernetes_io/instance",
    "app.kubernetes.io/name",
    "app_kubernetes_io/name",
)


def check(value: bytes | None, limit: int) -> bytes:
    """The bytes, when they can be text at all; else raises UnreadableError."""
    if not value or value.isspace():
        raise UnreadableError("empty", "the record has no value")
    if len(value) > limit:
        raise UnreadableError("too_large", f"{len(value)} bytes; at most {limit} are read")
    if b"\x00" in value:
        raise UnreadableError("nul_byte", f"a NUL byte at {value.index(0)}")
    return value


def decode_text(value: bytes) -> str:
    """UTF-8 text; raises UnreadableError naming the first bad byte."""
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("invalid_utf8", f"byte {value[error.start]:#04x} at {error.start}") from None


def decode_json(decode: Any, value: bytes, what: str) -> Any:
    """`decode(value)`, with every way in which JSON can be wrong turned into UnreadableError."""
    try:
        return decode(value)
    except msgspec.ValidationError as error:
        raise UnreadableError("wrong_shape", f"not {what}: {error}") from None
    except msgspec.DecodeError as error:
        raise UnreadableError("not_json", str(error)) from None
    except RecursionError:
        raise UnreadableError("too_deep", "the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise UnreadableError("invalid_utf8", f"byte {value[error.start]:#04x} at {error.start}") from None


def origin_of(record: Record, header: str) -> Origin:
    """The origin as headers and key tell it; a bad byte in them is replaced, never fatal."""
    origin = Origin(key=record.key.decode(errors="replace")) if record.key else _NOWHERE
    for name, raw in record.headers:
        if name == header:
            origin = origin._replace(header=raw.decode(errors="replace"))
        elif name == "host":
            origin = origin._replace(host=raw.decode(errors="replace"))
        elif name == "file":
            origin = origin._replace(file=raw.decode(errors="replace"))
    return origin


def open_log(record: Record, header: str) -> tuple[str, Origin]:
    """(text of one or more physical lines, origin) of a log record; raises UnreadableError."""
    value = check(record.value, MAX_LOG_BYTES)
    origin = origin_of(record, header)
    if value.lstrip()[:1] not in (b"{", b"["):
        return decode_text(value), origin
    shipped: _Shipped = decode_json(_decode, value, "a Filebeat or Fluent Bit document")
    text = shipped.message if shipped.message is not None else shipped.log
    if not isinstance(text, str):
        raise UnreadableError("wrong_shape", 'neither "message" (Filebeat) nor "log" (Fluent Bit) holds a line')
    return text, _shipped_from(origin, shipped)


def _shipped_from(known: Origin, shipped: _Shipped) -> Origin:
    """The origin as the document tells it, over what headers and key say."""
    log, host, pod, cluster = shipped.log, shipped.host, shipped.kubernetes, shipped.fields.get("cluster")
    host = host if isinstance(host, str) else host.name
    file = log.file.path if isinstance(log, _LogMeta) else known.file
    field = cluster if isinstance(cluster, str) else ""
    if pod is None:
        return Origin(known.header, known.key, field, file=file, host=host or known.host)
    return Origin(
        header=known.header,
        key=known.key,
        field=field,
        namespace=pod.namespace_name or pod.namespace,
        app=next((v for k in _APP_LABELS if isinstance(v := pod.labels.get(k), str)), ""),
        pod=pod.pod_name or pod.pod.name,
        container=pod.container_name or pod.container.name,
        file=file,
        host=host or pod.host or known.host,
    )
