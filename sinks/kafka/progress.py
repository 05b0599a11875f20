"""How far a reader of whole topics is: behind now, and whether it has read what existed when it began."""

from collections.abc import Collection, Mapping

from kafka import TopicPartition

# A reader that has caught up stays so with up to this many unread records.
_FEW = 10_000


class Progress:
    """`needed` are the topics that must exist for `complete`. Once complete, it stays so."""

    def __init__(self, needed: Collection[str]) -> None:
        self._needed = frozenset(needed)
        self._ends_at_start: dict[TopicPartition, int] = {}
        self.complete = False

    def note(self, ends: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> int:
        """Note the present ends and positions of all assigned partitions. Returns the number of unread records.

        Complete means read up to the ends at the start, so that new records do not delay it.
        """
        for part, end in ends.items():
            # A topic that was recreated is shorter than before.
            self._ends_at_start[part] = min(self._ends_at_start.get(part, end), end)
        if {part.topic for part in ends} >= self._needed:
            self.complete = self.complete or all(positions[part] >= self._ends_at_start[part] for part in ends)
        return sum(max(0, end - positions[part]) for part, end in ends.items())


def caught_up(behind: int, before: bool) -> bool:
    """Whether a reader with so many unread records has caught up; `before`: it had. Then a few are no problem."""
    return behind == 0 or (before and behind < _FEW)
