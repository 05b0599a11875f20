"""Whether a record is written in a form that is understood: a log line of a known layout, a metric of a known name.

A record may be well formed and say nothing of interest, as most do. One whose layout or names are not known says
nothing ever, which nobody would notice; so a few records are looked at for this alone.
"""

import re
from typing import Any, NamedTuple

import msgspec

from detectors.events.envelopes.logs import Entry
from detectors.events.layouts import json_layout, stack_line, text_layout
from detectors.values.decoding import UndecodableError, decoded

_MAX_LINES = 20
_MAX_TEXT = 16 * 1024
_OF_FLINK = re.compile(rb"(?i)flink|taskmanager|jobmanager|checkpoint")


class _Tagged(msgspec.Struct):
    tags: dict[str, Any] | None = None


_decode_tagged = msgspec.json.Decoder(_Tagged).decode


class RecognisedRecord(NamedTuple):
    """What was seen of one record: where it belongs, whether it is understood, whether it seems to be Flink's."""

    cluster: str
    host: str
    understood: bool
    flink: bool


def of_flink(value: bytes) -> bool:
    """Whether a record that is not understood seems to be Flink's; a topic may hold those of others as well."""
    return _OF_FLINK.search(value) is not None


def has_layout(entry: Entry) -> bool | None:
    """Whether a line of the text has a known layout; None for a part of a stack, which has none by itself."""
    text, _, logged = entry
    if logged is not None:
        return True
    lines = [line for line in text[:_MAX_TEXT].splitlines()[:_MAX_LINES] if line.strip()]
    if any(_is_head(line) for line in lines):
        return True
    return None if all(_continues(line) for line in lines) else False


def _is_head(line: str) -> bool:
    if text_layout.split(line) is not None or text_layout.split(text_layout.unnumbered(line)) is not None:
        return True
    return line[:1] == "{" and json_layout.read(line) is not None


def _continues(line: str) -> bool:
    return line[:1].isspace() or line.startswith(("Caused by: ", "...")) or stack_line.read(line) is not None


def tags_of(value: bytes) -> dict[str, str]:
    """The tags of a single metric as JSON, whose name is not known; none of another record."""
    if value.lstrip()[:1] != b"{" or b'"tags"' not in value:
        return {}
    try:
        found = decoded(_decode_tagged, value)
    except UndecodableError:
        return {}
    return {name: tag for name, tag in (found.tags or {}).items() if isinstance(tag, str)}
