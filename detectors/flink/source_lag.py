"""How far each source of a job is behind its input.

The lag is the event time of the last record that the source emitted, or Kinesis' time behind the end of a shard, in ms.
Where neither is known, it is the number of records that wait in Kafka. One point a scrape, over all subtasks:

- A source that waits for records has read all of them, whatever the event time of the last one. Flink says so with
  `sourceIdleTime`; without it, an event-time lag that is the same to the ms is that of a source that emits nothing.
- `pendingRecords` and `records_lag_max` are as old as the last fetch, so they fall between fetches and rise in steps.
  Only the larger one of a longer time counts.
"""

import msgspec

from detectors.events.event import Sample
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.values.bounded import put_bounded, setdefault_bounded

LAG_METRICS = ("event_time_lag", "behind_latest", "source_idle_time", "pending_records", "records_lag_max")
COUNTERS = ("operator_records_in", "operator_records_out")

_MAX_SOURCES = 32
_MAX_SUBTASKS = 512
_SAME_SCRAPE_MS = 500
_FRESH_MS = 180_000
_FROZEN_MS = 1_000
# Records that wait for less than this are a normal part of a fetch.
_FETCH_S = 15


class SubtaskLag(msgspec.Struct, array_like=True):
    """The last scrape of one subtask: lag in ms now and before, records waiting in two measures (-1: unknown).

    `reads` are its counters of records with their times, by name; `rate` is the rate of the faster one in 1/s.
    """

    time: int
    late: float = -1.0
    before: float = -1.0
    idle: bool = False
    pending: float = -1.0
    lag_max: float = -1.0
    reads: dict[str, tuple[float, int]] = {}
    rate: float = -1.0

    def begin(self, time: int) -> None:
        """A new scrape begins."""
        self.time, self.before = time, self.late
        self.late = self.pending = self.lag_max = self.rate = -1.0
        self.idle = False

    def take(self, name: str, value: float) -> None:
        if name == "source_idle_time":
            self.idle = value > 0
        elif name == "pending_records":
            self.pending = max(self.pending, value)
        elif name == "records_lag_max":
            self.lag_max = max(self.lag_max, value)
        elif value != -1:
            # A producer whose clock is ahead is not late.
            self.late = max(self.late, value, 0.0)

    def count(self, name: str, value: float, time: int) -> None:
        last, at = self.reads.get(name, (value, time))
        if value >= last and time - at >= _SAME_SCRAPE_MS:
            self.rate = max(self.rate, (value - last) * 1_000 / (time - at))
        if value < last or time >= at:
            self.reads[name] = (value, time)

    @property
    def emits(self) -> bool:
        """Whether its lag is that of records which it emits now."""
        return self.late >= 0 and not self.idle and (self.late != self.before or self.late < _FROZEN_MS)


class SourceLag(msgspec.Struct, array_like=True):
    """The lag of one source. `round` is the event time at which the scrape of its subtasks began.

    Each point of `history` has the lag, the records that wait (plus one, because 0 means unknown), and the records read
    in 1/s. `timed`: the lag is in ms.
    """

    name: str
    subtasks: dict[str, SubtaskLag] = {}
    round: int = 0
    timed: bool = False
    history: MultiscaleSeries = msgspec.field(default_factory=MultiscaleSeries)

    def take(self, sample: Sample, time: int) -> bool:
        """Take in a sample. Returns whether it completes a point: it is the first of the next scrape."""
        key = sample.labels.get("subtask_index", "")
        own = self.subtasks.get(key)
        if own is None:
            own = SubtaskLag(time)
            put_bounded(self.subtasks, key, own, _MAX_SUBTASKS)
        completed = False
        if time - own.time >= _SAME_SCRAPE_MS:
            if own.time >= self.round:
                completed, self.round = self._complete(), time
            own.begin(time)
        elif time < own.time:
            return False
        if sample.name in COUNTERS:
            own.count(sample.name, sample.value, time)
        else:
            own.take(sample.name, sample.value)
        return completed

    def restart(self) -> None:
        """The job restarts. What was before says nothing about the next run."""
        self.subtasks.clear()
        self.history.clear()

    def last(self) -> Point | None:
        """The newest point."""
        return next(iter(self.history.points(0, 1)), None)

    def _complete(self) -> bool:
        """Add the point of a scrape. Returns False if it says nothing about the lag."""
        at = max(s.time for s in self.subtasks.values())
        if at <= self.history.last:
            return False
        if at - self.history.last > _FRESH_MS:
            self.history.clear()
        self.subtasks = {k: s for k, s in self.subtasks.items() if at - s.time <= _FRESH_MS}
        fresh = self.subtasks.values()
        timed = [s for s in fresh if s.late >= 0]
        if timed and not self.timed:
            self.timed = True
            self.history.clear()
        waiting = max(sum(max(s.pending, 0) for s in fresh), *(s.lag_max for s in fresh))
        waiting = waiting if any(s.pending >= 0 or s.lag_max >= 0 for s in fresh) else -1.0
        read = sum(s.rate for s in fresh if s.rate >= 0)
        late = waiting
        if self.timed:
            late = max((s.late for s in timed if s.emits), default=-1.0)
            if timed and all(s.idle for s in timed) and waiting <= read * _FETCH_S:
                late = 0.0
        if late >= 0:
            self.history.add(Point(at, late, waiting + 1, read))
        return late >= 0


class JobSources(msgspec.Struct, array_like=True):
    """The sources of one job, by operator."""

    sources: dict[str, SourceLag] = {}

    def take(self, sample: Sample, time: int) -> str:
        """Take in a sample. Returns the source of which it completes a point, or an empty string."""
        labels = sample.labels
        key = labels.get("operator_id") or labels.get("operator_name") or labels.get("task_id", "")
        # All operators count records, but only sources have a lag.
        if sample.name in COUNTERS and key not in self.sources:
            return ""
        name = labels.get("operator_name") or labels.get("task_name") or key
        source = setdefault_bounded(self.sources, key, SourceLag(name), _MAX_SOURCES)
        return key if source.take(sample, time) else ""

    def restart(self) -> None:
        """The job restarts."""
        for source in self.sources.values():
            source.restart()
