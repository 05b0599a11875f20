"""Decides whether a record is understood: a log line in a known layout, or a metric with a known name.

Most well-formed records contain nothing of interest. Records with an unknown layout or unknown names never do, and
without this check no one would notice. A sample of all records is therefore checked.
"""

import re
from typing import Any, NamedTuple

import msgspec

from detectors.events.envelopes.logs import Entry
from detectors.events.layouts import stack_line
from detectors.events.layouts.wrappers import head
from detectors.values.decoding import UndecodableError, decoded

_MAX_LINES = 20
_MAX_TEXT = 16 * 1024
_OF_FLINK = re.compile(rb"(?i)flink|taskmanager|jobmanager|checkpoint")


class _Tagged(msgspec.Struct):
    tags: dict[str, Any] | None = None


_decode_tagged = msgspec.json.Decoder(_Tagged).decode


class RecognisedRecord(NamedTuple):
    """A checked record: its cluster and host, whether it is understood, and whether it seems to come from Flink."""

    cluster: str
    host: str
    understood: bool
    flink: bool


def of_flink(value: bytes) -> bool:
    """Whether a record that is not understood seems to come from Flink; a topic may contain other records too."""
    return _OF_FLINK.search(value) is not None


def has_layout(entry: Entry) -> bool | None:
    """Whether a line of the text has a known layout; None for parts of a stack, which have no layout."""
    text, _, logged = entry
    if logged is not None:
        return True
    lines = [line for line in text[:_MAX_TEXT].splitlines()[:_MAX_LINES] if line.strip()]
    if any(head(line) is not None for line in lines):
        return True
    return None if all(_continues(line) for line in lines) else False


def _continues(line: str) -> bool:
    return line[:1].isspace() or line.startswith(("Caused by: ", "...")) or stack_line.read(line) is not None


def tags_of(value: bytes) -> dict[str, str]:
    """The tags of a JSON record with one metric of unknown name; empty for other records."""
    if value.lstrip()[:1] != b"{" or b'"tags"' not in value:
        return {}
    try:
        found = decoded(_decode_tagged, value)
    except UndecodableError:
        return {}
    return {name: tag for name, tag in (found.tags or {}).items() if isinstance(tag, str)}
