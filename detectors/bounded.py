"""Maps in state that cannot grow without end."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put(entries: dict[K, V], key: K, value: V, limit: int) -> None:
    """Set, and forget the oldest entry when there would be more than `limit`."""
    if key not in entries and len(entries) >= limit:
        del entries[next(iter(entries))]
    entries[key] = value
