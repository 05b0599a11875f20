"""Which records are decoded: a search over the raw bytes of a whole Arrow batch, with RE2.

Decoding costs Python per record, the search about half a microsecond. It lets through each record that holds a literal
of the vocabulary, and each that does not look like a record at all, so that it is rejected with its reason.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from detectors.events.envelopes.logs import MAX_LOG_BYTES, MAX_METRIC_BYTES
from detectors.events.reader import prefilter

# A log record is a line, or a JSON document with a line in it; anything else is decoded, and rejected with its reason.
LOG_SHAPE = (
    r'(?s)^\s*(?:[^{\[\s]|\{.*"(?:message|log|short_message)"\s*:\s*".*\}\s*$'
    r'|\{\s*"resourceLogs"\s*:\s*\[.*\}\s*$)'
)
# NUL stands among the literals: such a record is decoded, and rejected.
_PREFILTERS = {m: "|".join([r"\x00", *(re.escape(g).replace(r"\ ", " ") for g in prefilter(m))]) for m in (False, True)}
# Flink's OpenTelemetry reporter writes dots where its others write underscores.
_PREFILTERS[True] = _PREFILTERS[True].replace("_", "[._]")
# A metric record is a page whose first line is a comment, a sample or an influx line, or one of the JSON documents.
_METRIC_SHAPE = (
    r"(?s)^\s*(?:#|[a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^\n]*\})? +[-+0-9.NI]|[a-zA-Z_][^\s{]*,[^\n]* [^\n]*=[-0-9.tTfF\"]"
    r'|\{.*"(?:(?:metrics|resourceMetrics)"\s*:\s*\[|(?:fields|gauge|counter)"\s*:\s*\{|value"\s*:\s*").*\}\s*$)'
)


def may_matter(values: pa.Array, metrics: bool) -> pa.Array:
    """Which records are decoded: those with a literal of the vocabulary, and those that do not look like a record."""
    limit = MAX_METRIC_BYTES if metrics else MAX_LOG_BYTES
    odd = pc.fill_null(pc.greater(pc.binary_length(values), limit), True)
    mask = pc.or_(matches(values, _PREFILTERS[metrics]), odd)
    mask = pc.or_(mask, pc.invert(matches(values, _METRIC_SHAPE) if metrics else log_shaped(values)))
    bad = _not_utf8(values)
    return mask if bad is None else pc.or_(mask, bad)


def log_shaped(values: pa.Array) -> pa.Array:
    """Whether each looks like a log record; the usual way to look like one costs a quarter of the whole pattern."""
    usual = pc.and_(pc.starts_with(values, pattern="{"), pc.ends_with(values, pattern="}"))
    usual = pc.fill_null(pc.and_(usual, matches(values, '"message":"')), False)
    if pc.all(usual).as_py():
        return usual
    return pc.or_(usual, matches(pc.if_else(usual, None, values), LOG_SHAPE))


def matches(values: pa.Array, pattern: str) -> pa.Array:
    """Whether the pattern is found in each; NULL holds nothing."""
    return pc.fill_null(pc.match_substring_regex(values, pattern=pattern), False)


def _not_utf8(values: pa.Array) -> pa.Array | None:
    """Arrow checks a whole batch at memory speed; only a batch with a bad byte is looked at record by record."""
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
