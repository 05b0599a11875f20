"""The time zone of the times in log lines, learned per source.

Flink's default layouts print no time zone. Lines that have one, as JSON layouts do, do not need this module. A line
"Triggering checkpoint N @ <epoch ms>" gives the offset of its source exactly. Without such a line, the Kafka timestamp
gives it, rounded to a quarter of an hour, because all time zones are multiples of that.

A line without a time is assumed to have arrived with the smallest delay seen from its source.
"""

import msgspec

from detectors.events.event import LogEvent
from detectors.values.bounded import put_bounded

_QUARTER_MS = 15 * 60_000
MAX_ZONE_MS = 15 * 3_600_000
_MAX_SOURCES = 500


class TimeZoneOffsets(msgspec.Struct, array_like=True):
    """Offset of each source's clock from UTC in ms: `learned` from an epoch in a line, `guessed` from Kafka timestamps.

    `delays` has the smallest delay in ms from a line's own time to its Kafka timestamp, by source.
    """

    learned: dict[str, int] = {}
    guessed: dict[str, int] = {}
    delays: dict[str, int] = {}

    def event_time(self, event: LogEvent) -> int:
        """Epoch ms at which the line was written, as far as known from the line or its source."""
        if event.local_time < 0:
            return event.timestamp - max(self.delays.get(event.source, 0), 0)
        time = event.local_time if event.zoned else self._unzoned(event)
        delay = event.timestamp - time
        if delay < self.delays.get(event.source, delay + 1):
            put_bounded(self.delays, event.source, delay, _MAX_SOURCES)
        return time

    def guess_as_others(self, source: str) -> None:
        """Assume the zone of the other sources for one whose lines came late: the Kafka timestamps do not show it."""
        others = {*self.learned.values()}
        if source not in self.learned and len(others) == 1:
            put_bounded(self.guessed, source, max(*others, self.guessed.get(source, -MAX_ZONE_MS)), _MAX_SOURCES)

    def knows(self, event: LogEvent) -> bool:
        """Whether the zone of a line is known, and not only guessed from when lines arrive."""
        return event.zoned or event.source in self.learned

    def _unzoned(self, event: LogEvent) -> int:
        epoch = event.fields.get("epoch")
        if event.event_type == "checkpoint_triggered" and epoch is not None:
            self._learn(event.source, _rounded(event.local_time - int(epoch)))
        offset = self.learned.get(event.source)
        if offset is None:
            offset = self._guess(event)
        return event.local_time - offset

    def _learn(self, source: str, offset: int) -> None:
        if abs(offset) > MAX_ZONE_MS:
            return
        if self.learned.get(source) != offset:
            if len(self.learned) >= _MAX_SOURCES:
                self.learned.pop(next(iter(self.learned)))
            self.learned[source] = offset

    def _guess(self, event: LogEvent) -> int:
        """Guess the offset from the Kafka timestamp; prefer a learned offset near it, since shippers may lag by
        hours.
        """
        offset = _rounded(event.local_time - event.timestamp)
        for known in self.learned.values():
            if abs(known - offset) <= _QUARTER_MS:
                return known
        if event.source not in self.guessed and len(self.guessed) >= _MAX_SOURCES:
            self.guessed.pop(next(iter(self.guessed)))
        # The smallest delay seen is the most accurate: a line can be shipped late, never early.
        best = max(self.guessed.get(event.source, offset), offset)
        self.guessed[event.source] = best
        return best


def _rounded(ms: int) -> int:
    return round(ms / _QUARTER_MS) * _QUARTER_MS
