"""What keeps state small: maps that cannot grow without end, and numbers that take few bytes."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
_MOST = 1e15


def put_bounded(entries: dict[K, V], key: K, value: V, limit: int) -> tuple[K, V] | None:
    """Set, and forget the oldest entry when there would be more than `limit`; that entry."""
    oldest = None
    if key not in entries and len(entries) >= limit:
        first = next(iter(entries))
        oldest = first, entries.pop(first)
    entries[key] = value
    return oldest


def to_int(value: float) -> int:
    """A sample as an integer that state can hold, whatever was sent: small ones take a byte, any float nine.

    >>> to_int(3.0), to_int(-9e300)
    (3, -1000000000000000)
    """
    return int(max(-_MOST, min(value, _MOST)))


def intern_index(names: list[str], name: str, limit: int) -> int:
    """The place of a name in a list, where it is put when it is new; -1 when there are `limit` others."""
    if name not in names:
        if len(names) >= limit:
            return -1
        names.append(name)
    return names.index(name)
