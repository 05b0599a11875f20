"""Helpers that keep state small: maps with a limit, and numbers that need few bytes."""

from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
_MOST = 1e15


def put_bounded(entries: dict[K, V], key: K, value: V, limit: int) -> tuple[K, V] | None:
    """Set an entry, and drop the oldest one if there would be more than `limit`; returns the dropped entry."""
    oldest = None
    if key not in entries and len(entries) >= limit:
        first = next(iter(entries))
        oldest = first, entries.pop(first)
    entries[key] = value
    return oldest


def setdefault_bounded(entries: dict[K, V], key: K, default: V, limit: int) -> V:
    """The entry of a key. If there is none, `default` is added as in `put_bounded`."""
    if key not in entries:
        put_bounded(entries, key, default, limit)
    return entries[key]


def append_new(items: list[T], item: T, limit: int) -> bool:
    """Append an item if the list does not have it yet and has fewer than `limit`; returns whether it was appended."""
    if len(items) >= limit or item in items:
        return False
    items.append(item)
    return True


def to_int(value: float) -> int:
    """A sample as an integer that state can hold. Small integers are encoded in one byte, any float in nine.

    >>> to_int(3.0), to_int(-9e300)
    (3, -1000000000000000)
    """
    return int(max(-_MOST, min(value, _MOST)))


def intern_index(names: list[str], name: str, limit: int) -> int:
    """The index of a name in a list, to which a new name is appended; -1 if it already has `limit` names."""
    if name not in names:
        if len(names) >= limit:
            return -1
        names.append(name)
    return names.index(name)
