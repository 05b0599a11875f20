"""Names for the formats of records, for a person: who shipped them, and how their times are written.

They describe what `Reader` has read, and decide nothing: a record is read in the same way whatever it is called here.
"""

from typing import Any

import msgspec

from detectors.events.envelopes import otlp_protobuf
from detectors.events.envelopes.logs import Entry
from detectors.events.envelopes.metrics import is_line_protocol
from detectors.events.layouts import text_layout

_MAX_LINES = 20
_MAX_HEAD = 64 * 1024
_decode = msgspec.json.Decoder(dict[str, Any]).decode

_DOCUMENTS: tuple[tuple[frozenset[str], str], ...] = tuple(
    (frozenset(keys.split()), name)
    for keys, name in (
        ("resourceLogs", "OpenTelemetry JSON"),
        ("resourceSpans", "OpenTelemetry JSON"),
        ("resourceMetrics", "OpenTelemetry JSON"),
        ("MESSAGE", "journald JSON"),
        ("involvedObject", "Kubernetes event"),
        ("regarding", "Kubernetes event"),
        ("@version message", "Logstash JSON"),
        ("@metadata message", "Filebeat JSON"),
        ("agent message", "Filebeat JSON"),
        ("source_type message", "Vector JSON"),
        ("kubernetes log", "Fluent Bit JSON"),
        ("kubernetes message", "a shipper's JSON with Kubernetes names"),
        ("log stream", "Docker's json-file"),
        ("metrics", "Telegraf JSON"),
        ("fields name", "Telegraf JSON"),
        ("labels name value", "prometheus-kafka-adapter JSON"),
        ("gauge name", "Vector JSON"),
        ("counter name", "Vector JSON"),
    )
)
"""Fields by which a document is known, the most specific first."""


def envelope_of(value: bytes, metrics: bool) -> str:
    """What a log shipper or metrics agent has made of a line or a scrape, in a few words.

    >>> envelope_of(b'{"kubernetes": {}, "log": "x"}', metrics=False), envelope_of(b"a line", metrics=False)
    ('Fluent Bit JSON', 'raw lines')
    """
    if otlp_protobuf.holds(value):
        return "OpenTelemetry protobuf"
    if value.lstrip()[:1] == b"{":
        return _document(value)
    if not metrics:
        return "raw lines"
    return "influx lines" if is_line_protocol(value[:_MAX_HEAD].decode(errors="replace")) else "Prometheus text"


def layout_of(entry: Entry) -> str:
    """How the first line of a log text that has a time writes it; empty if no line has one."""
    text, _, logged = entry
    if logged is not None:
        return "JSON layout"
    for line in text.splitlines()[:_MAX_LINES]:
        if (head := text_layout.split(line)) is not None:
            _, _, zoned = head
            return "text layout with a zone" if zoned else "text layout in local time"
    return ""


def _document(value: bytes) -> str:
    try:
        keys = _decode(value).keys()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return "raw lines"
    return next((name for needed, name in _DOCUMENTS if needed <= keys), "JSON documents")
