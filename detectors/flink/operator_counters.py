"""Counters of an operator's subtasks, added up over short pieces of time."""

import msgspec

from detectors.values.bounded import put_bounded

_MAX_SUBTASKS = 512
_MAX_PIECES = 64


class Piece(msgspec.Struct, array_like=True):
    """A piece of time from `start` (event time, ms), and by how much each counter has grown in it."""

    start: int
    grown: dict[str, float] = {}


class OperatorCounters(msgspec.Struct, array_like=True):
    """The counters of one operator: the last value of each subtask with its time, and the last pieces, in order.

    A counter begins at 0 in each attempt, so a smaller value is what was counted since. The first value that is seen
    says nothing about when it was counted. `dropped` has the values before the last sample, where that is smaller: if
    the next one is as large again, it was a wrong sample and no new attempt.
    """

    name: str
    last: dict[str, tuple[float, int]] = {}
    pieces: list[Piece] = []
    dropped: dict[str, float] = {}

    def take(self, counter: str, subtask: str, value: float, time: int, piece: int, window: int) -> None:
        """Take in a sample. Pieces last `piece` ms; the newest ones that began within `window` ms are kept."""
        key = f"{counter}|{subtask}"
        last, at = self.last.get(key, (value, time))
        if time < at or value < 0:
            return
        put_bounded(self.last, key, (value, time), 2 * _MAX_SUBTASKS)
        start = time - time % piece
        if not self.pieces or start > self.pieces[-1].start:
            recent = [p for p in self.pieces if start - p.start <= window]
            self.pieces = [*recent[1 - _MAX_PIECES :], Piece(start)]
        grown = self.pieces[-1].grown
        grown[counter] = grown.get(counter, 0.0) + self._more(key, last, value)

    def _more(self, key: str, last: float, value: float) -> float:
        """By how much a counter has grown from one sample to the next."""
        if value < last:
            put_bounded(self.dropped, key, last, 2 * _MAX_SUBTASKS)
            return value
        if value == last:
            return 0.0
        before = self.dropped.pop(key, value + 1)
        return max(0.0, value - before - last) if value >= before else value - last

    @property
    def newest(self) -> int:
        """Event time of the newest sample."""
        return max((at for _, at in self.last.values()), default=0)

    def sum(self, counter: str) -> float:
        """By how much a counter has grown in all pieces."""
        return sum(p.grown.get(counter, 0.0) for p in self.pieces)

    def restart(self) -> None:
        """The job restarts: its counters begin again."""
        self.last.clear()
        self.dropped.clear()
        self.pieces = []
