"""Lines that a shipper has read late and in one go, in the order and at the pace in which they were written.

An agent that starts after Flink, or again after an outage, reads minutes of a log within a second. By their Kafka
timestamps a restart loop, a TaskManager that was lost and is back, a checkpoint that has expired all happen at once.
The times in the lines are right: they show what happened before what, and how long after it.

A line that is late by more than its source usually is therefore waits, with all later lines of its source, until no
late line has come for a while. The waiting lines of all sources are then taken in the order in which they were written.
The clock that detectors see goes back for this by as long as it took to write them: deadlines between two lines are met
between them, and the last line is taken at the present. So what has lasted is judged by the times in the lines, and
silence by the time since they arrived. While lines wait, no other deadline is met: they may be what it waits for.

How late the lines of a source usually are is learned, so that neither a host with a wrong clock nor a shipper that is
always late makes lines wait for long. A time that is far from that of Kafka is not believed.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from detectors.engine.time_zones import MAX_ZONE_MS, TimeZoneOffsets
from detectors.events.event import LogEvent
from detectors.incidents.late_arrivals import LateArrivals, LateStretch
from detectors.values.bounded import put_bounded

LATE_MS = 60_000
"""A line that is late by this much more than usual counts as on time."""
QUIET_MS = 10_000
"""A shipper sends the next batch of a backlog within this time."""
LONGEST_MS = 60_000
BELIEVED_MS = 24 * 3_600_000
_LEARN_EVERY_MS = 60_000
_MAX_SOURCES = 500
_MAX_LINES = 5_000
_MAX_PARTITIONS = 50


class UsualDelay(msgspec.Struct, array_like=True):
    """How late the lines of a source reach Kafka, in ms, and the Kafka timestamp at which this was learned."""

    delay: int
    at: int


class LateLine(NamedTuple):
    """A line that has waited: when it was written, and the clock at which it is taken."""

    event: LogEvent
    time: int
    clock: int


class LateLines(msgspec.Struct, array_like=True):
    """The usual delays by source, the waiting lines in order of arrival, and what came late before.

    `sources` are those whose lines wait, `since` the clock at the first of these lines, `newest` at the last late one.
    """

    delays: dict[str, UsualDelay] = {}
    waiting: list[LogEvent] = []
    sources: dict[str, bool] = {}
    since: int = 0
    newest: int = 0
    arrivals: LateArrivals = msgspec.field(default_factory=LateArrivals)

    def wait(self, event: LogEvent, time: int, clock: int, zones: TimeZoneOffsets) -> bool:
        """Take in a line that was written at `time`. Returns whether it waits."""
        delay, known = event.timestamp - time, self.delays.get(event.source)
        timed = _credible(event, time)
        # The zone of a new source is guessed so that its first line is on time to a quarter of an hour.
        limit = LATE_MS if known is not None or zones.knows(event) else QUIET_MS
        late = timed and abs(delay - (known.delay if known is not None else 0)) > limit
        if late or event.source in self.sources:
            if not self.waiting:
                self.since = clock
            self.waiting.append(event)
            self.sources[event.source] = True
            self.newest = max(self.newest, clock) if late else self.newest
            return True
        if timed and (known is None or event.timestamp - known.at >= _LEARN_EVERY_MS):
            self._learn(event.source, delay, event.timestamp)
        return False

    def due(self) -> int | None:
        """The clock time at which the waiting lines are taken; None if none waits."""
        return min(self.newest + QUIET_MS, self.since + LONGEST_MS) if self.waiting else None

    def full(self) -> bool:
        """Whether there is no room for another line."""
        return len(self.waiting) >= _MAX_LINES

    def go_back(self, clock: int) -> None:
        """The clock was wrong and goes back."""
        self.since, self.newest = min(self.since, clock), min(self.newest, clock)

    def take(self, zones: TimeZoneOffsets, now: int) -> list[LateLine]:
        """The waiting lines in the order in which they were written, the last one at the clock `now`."""
        if any(_at_once(own) for own in _by_source(self.waiting).values()):
            for source in [s for s in self.sources if s not in self.delays]:
                zones.guess_as_others(source)
        waiting, self.waiting, self.sources, self.newest = self.waiting, [], {}, 0
        lines = _written(waiting, zones)
        self._note(lines, zones)
        end = max(line.clock for line in lines)
        return [line._replace(clock=now - end + line.clock) for line in sorted(lines, key=lambda line: line.clock)]

    def _note(self, lines: list[LateLine], zones: TimeZoneOffsets) -> None:
        """Remember which lines came late, and how late their sources are now."""
        credible = [line for line in lines if _credible(line.event, line.time)]
        at_once = {source for source, own in _by_source(line.event for line in credible).items() if _at_once(own)}
        # Of a source that is always late by as much, or whose zone is guessed, it is unknown when lines were written.
        known = {
            e.source for e, _, _ in credible if e.source in self.delays or (e.source in at_once and zones.knows(e))
        }
        late = [line for line in credible if line.event.source in known and _delay(line) - self._usual(line) > LATE_MS]
        if late:
            self.arrivals.remember(_stretch(late))
        for line in credible:
            self._learn(line.event.source, _delay(line), line.event.timestamp)

    def _usual(self, line: LateLine) -> int:
        known = self.delays.get(line.event.source)
        return max(known.delay, 0) if known is not None else 0

    def _learn(self, source: str, delay: int, at: int) -> None:
        put_bounded(self.delays, source, UsualDelay(delay, at), _MAX_SOURCES)


def _by_source(events: Iterable[LogEvent]) -> dict[str, list[LogEvent]]:
    """The lines with a credible time, by source."""
    found: dict[str, list[LogEvent]] = {}
    for event in events:
        if _credible(event, event.timestamp):
            found.setdefault(event.source, []).append(event)
    return found


def _at_once(events: list[LogEvent]) -> bool:
    """Whether the lines of a source took longer to write than to arrive."""
    delays = [event.timestamp - event.local_time for event in events]
    return max(delays) - min(delays) > QUIET_MS


def _credible(event: LogEvent, time: int) -> bool:
    """Whether a line has a time that is not far from that of Kafka, in whatever zone it is printed."""
    if event.local_time < 0 or abs(event.timestamp - time) > BELIEVED_MS:
        return False
    return event.zoned or abs(event.timestamp - event.local_time) <= BELIEVED_MS + MAX_ZONE_MS


def _written(events: Iterable[LogEvent], zones: TimeZoneOffsets) -> list[LateLine]:
    """When each line was written, and as its clock the time by which it is put in order: the lines of a source stay in
    their order, and one without a credible time is as old as the one before it.
    """
    lines = [LateLine(event, zones.event_time(event), 0) for event in events]
    newest: dict[str, int] = {}
    for event, time, _ in lines:
        if _credible(event, time):
            newest.setdefault(event.source, time)
    found: list[LateLine] = []
    for event, time, _ in lines:
        last = newest.get(event.source, event.timestamp)
        clock = max(time, last) if _credible(event, time) else last
        newest[event.source] = clock
        found.append(LateLine(event, clock if event.local_time < 0 else time, clock))
    return found


def _stretch(late: list[LateLine]) -> LateStretch:
    offsets: dict[str, tuple[int, int]] = {}
    for event, _, _ in late:
        partition = f"{event.topic}/{event.partition}"
        low, high = offsets.get(partition, (event.offset, event.offset))
        put_bounded(offsets, partition, (min(low, event.offset), max(high, event.offset)), _MAX_PARTITIONS)
    times = [line.time for line in late]
    return LateStretch(min(times), max(times), max(line.event.timestamp for line in late), offsets)


def _delay(line: LateLine) -> int:
    return line.event.timestamp - line.time
