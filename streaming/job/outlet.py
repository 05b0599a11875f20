"""Keeps every output row within the size limit of its topic.

A row that is too large would fail the query, again after every restart. So each row is measured as it will be sent: a
row that is too large is cut, one that cannot be cut is replaced by a dead letter, and both are counted.
"""

from typing import Any, NamedTuple

import msgspec

from detectors.incident import Reading, Transition
from streaming.job.rows import DeadLetter, cut_letter

MAX_ROW_BYTES = 1024 * 1024 - 1024
"""Maximum size of key and value together: Kafka's default limit of 1 MiB, less room for the record's headers."""

REASON = "output_too_large"

# Limits on characters of each text and entries of each list, from step to step. No important name is longer than 300.
_STEPS = ((500, 20), (300, 8), (300, 3), (100, 3))
_MAX_SHOWN = 200
_encode = msgspec.json.Encoder().encode


class OutputRow(NamedTuple):
    key: bytes
    value: bytes | None


class Outlet:
    def __init__(self, limit: int = MAX_ROW_BYTES) -> None:
        self._limit = limit
        self._cut: dict[str, int] = {}
        self._letters: list[DeadLetter] = []

    def taken(self) -> tuple[list[DeadLetter], dict[str, int]]:
        """Dead letters of dropped rows, and the number of cut or dropped rows by kind, since the last call."""
        taken = self._letters, self._cut
        self._letters, self._cut = [], {}
        return taken

    def transition(self, transition: Transition) -> OutputRow | None:
        """The row of a transition, with less evidence if all of it is too large."""
        key = transition.incident.encode()
        value = _encode(transition)
        if self._fits(key, value):
            return OutputRow(key, value)
        self._count("incidents")
        whole = msgspec.to_builtins(transition)
        for texts, items in _STEPS:
            value = _encode(_shortened(whole, texts, items))
            if self._fits(key, value):
                return OutputRow(key, value)
        self._leave_out("incidents", f"{transition.incident}/{transition.seq}", len(value))
        return None

    def reading(self, reading: Reading) -> OutputRow | None:
        """The row of a reading; None if its labels are too large."""
        key, value = reading.key().encode(), _encode(reading)
        if self._fits(key, value):
            return OutputRow(key, value)
        self._count("readings")
        self._leave_out("readings", key.decode(errors="replace"), len(key) + len(value))
        return None

    def gone(self, key: str) -> OutputRow | None:
        """The tombstone of a reading; None for a key that is too large to have been written."""
        sent = OutputRow(key.encode(), None)
        return sent if self._fits(*sent) else None

    def letter(self, letter: DeadLetter) -> OutputRow | None:
        """The row of a dead letter, with less of its record if all of it is too large."""
        if self._fits(letter.key, letter.value):
            return OutputRow(letter.key, letter.value)
        self._count("rejected")
        shorter = cut_letter(letter, self._limit)
        return OutputRow(shorter.key, shorter.value) if self._fits(shorter.key, shorter.value) else None

    def _fits(self, key: bytes, value: bytes | None) -> bool:
        return len(key) + len(value or b"") <= self._limit

    def _count(self, kind: str) -> None:
        self._cut[kind] = self._cut.get(kind, 0) + 1

    def _leave_out(self, kind: str, name: str, size: int) -> None:
        shown = f"{kind}/{name[:_MAX_SHOWN]}"
        detail = f"the row for the topic of {kind} has {size} bytes, more than the limit of {self._limit}"
        value = _encode({"reason": REASON, "detail": detail, "row": shown, "size": size, "truncated": True})
        self._letters.append(DeadLetter(REASON, shown.encode(), value))


def _shortened(transition: dict[str, Any], texts: int, items: int) -> dict[str, Any]:
    cut: dict[str, Any] = _cut(transition, texts, items)
    cut["more"] += len(transition["findings"]) - len(cut["findings"])
    return cut


def _cut(value: Any, texts: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= texts else value[: texts - 1] + "…"
    if isinstance(value, dict):
        return {key: _cut(inner, texts, items) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(inner, texts, items) for inner in value[:items]]
    return value
