"""Selects the records that are decoded, by a search over the raw bytes of a whole Arrow batch with RE2.

Decoding needs Python code per record, the search about half a microsecond. Records that contain a literal of the
vocabulary are decoded, and so are records that do not look like a record at all, which are rejected with a reason.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from detectors.events.envelopes import otlp_protobuf
from detectors.events.envelopes.logs import MAX_LOG_BYTES, MAX_METRIC_BYTES
from detectors.events.reader import prefilter

# A log record is a line, or a JSON document that contains a line. Other records are decoded and rejected with a reason.
LOG_SHAPE = (
    r'(?s)^\s*(?:[^{\[\s]|\[pod/|\{.*"(?:message|log|short_message|MESSAGE)"\s*:\s*".*\}\s*$'
    r'|\{\s*"resource(?:Logs|Spans)"\s*:\s*\[.*\}\s*$)'
)
# NUL is one of the literals, so that such a record is decoded and rejected.
_LITERALS = {m: "|".join(re.escape(g).replace(r"\ ", " ") for g in prefilter(m)) for m in (False, True)}
# Flink's OpenTelemetry reporter writes dots where its others write underscores.
_LITERALS[True] = _LITERALS[True].replace("_", "[._]")
_PREFILTERS = {m: rf"\x00|{literals}" for m, literals in _LITERALS.items()}
# A metric record is a page whose first line is a comment, a sample or an influx line, or one of the JSON documents.
_METRIC_SHAPE = (
    r"(?s)^\s*(?:#|[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^\n]*\})? +[-+0-9.NI]|[a-zA-Z_][^\s{]*,[^\n]* [^\n]*=[-0-9.tTfF\"]"
    r'|\{.*"(?:(?:metrics|resourceMetrics)"\s*:\s*\[|(?:fields|gauge|counter)"\s*:\s*\{|value"\s*:\s*").*\}\s*$)'
)

# A record in a text's place that says nothing, for those that are no text.
_PLAIN = b"#"


def may_matter(values: pa.Array, metrics: bool) -> pa.Array:
    """Select the records to decode: those with a literal of the vocabulary, and those not shaped like a record."""
    protobuf = _protobuf(values)
    if protobuf is None:
        return _text_may_matter(values, metrics)
    long = pc.fill_null(pc.greater(pc.binary_length(values), MAX_METRIC_BYTES), False)
    found = pc.or_(matches(values, _LITERALS[metrics]), long)
    return pc.if_else(protobuf, found, _text_may_matter(pc.if_else(protobuf, _PLAIN, values), metrics))


def _protobuf(values: pa.Array) -> pa.Array | None:
    """Which values are OTLP's protobuf, by their outer form; None if none is."""
    maybe = pc.fill_null(pc.starts_with(values, pattern="\n"), False)
    if not pc.any(maybe).as_py():
        return None
    candidates = pc.if_else(maybe, values, None).to_pylist()
    framed = [value is not None and otlp_protobuf.framed(value) for value in candidates]
    return pa.array(framed, pa.bool_()) if any(framed) else None


def _text_may_matter(values: pa.Array, metrics: bool) -> pa.Array:
    limit = MAX_METRIC_BYTES if metrics else MAX_LOG_BYTES
    odd = pc.fill_null(pc.greater(pc.binary_length(values), limit), True)
    mask = pc.or_(matches(values, _PREFILTERS[metrics]), odd)
    mask = pc.or_(mask, pc.invert(matches(values, _METRIC_SHAPE) if metrics else log_shaped(values)))
    bad = _not_utf8(values)
    return mask if bad is None else pc.or_(mask, bad)


def has_literal(values: pa.Array, metrics: bool) -> pa.Array:
    """Whether each contains a literal of the vocabulary, as every record with an event does."""
    return matches(values, _LITERALS[metrics])


def log_shaped(values: pa.Array) -> pa.Array:
    """Whether each looks like a log record. The usual form is checked first, at a quarter of the cost."""
    usual = pc.and_(pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}"))
    usual = pc.fill_null(pc.and_(usual, matches(values, '"message":"')), False)
    if pc.all(usual).as_py():
        return usual
    return pc.or_(usual, matches(pc.if_else(usual, None, values), LOG_SHAPE))


def matches(values: pa.Array, pattern: str) -> pa.Array:
    """Whether each value matches the pattern; NULL does not match."""
    return pc.fill_null(pc.match_substring_regex(values, pattern=pattern), False)


def _not_utf8(values: pa.Array) -> pa.Array | None:
    """Which records are not UTF-8. Arrow checks a whole batch fast; only an invalid batch is checked by record."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([not _is_utf8(v) for v in values.to_pylist()], pa.bool_())
    return None


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
