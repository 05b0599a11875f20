"""What is remembered of lines that came late, so that an incident that they prove says so."""

from collections.abc import Iterable

import msgspec

from detectors.incident import Evidence, LateArrival

_MAX_STRETCHES = 20


class LateStretch(msgspec.Struct, array_like=True):
    """Lines that came late together: when the first and the last one were written, when all had arrived, and their
    first and last offset by topic and partition.
    """

    first: int
    last: int
    arrived: int
    offsets: dict[str, tuple[int, int]]

    def has(self, record: Evidence) -> bool:
        """Whether a record is one of these lines."""
        low, high = self.offsets.get(f"{record.topic}/{record.partition}", (1, 0))
        return low <= record.offset <= high and self.first <= record.time <= self.last


class LateArrivals(msgspec.Struct, array_like=True):
    """The last stretches of lines that came late."""

    stretches: list[LateStretch] = []

    def remember(self, stretch: LateStretch) -> None:
        self.stretches = [*self.stretches, stretch][-_MAX_STRETCHES:]

    def arrival(self, records: Iterable[Evidence]) -> LateArrival | None:
        """When those of the records that came late were written and read; None if none came late."""
        if not self.stretches:
            return None
        found = [(r.time, s.arrived) for r in records for s in self.stretches if s.has(r)]
        if not found:
            return None
        times = [time for time, _ in found]
        return LateArrival(min(times), max(times), max(arrived for _, arrived in found))
