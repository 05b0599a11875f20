"""The durations of a job's checkpoints, from its log lines or, without them, from its gauges.

Only checkpoints count that show how long the next one will take: no savepoint, not the first one after a restore, no
full checkpoint among incremental ones. Expired checkpoints are kept for a chart of the durations: with completed
checkpoints alone it would look like a recovery.
"""

from statistics import median

import msgspec

from detectors.events.event import MetricEvent, Sample
from detectors.incident import Evidence
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.values.bounded import put_bounded, to_int
from detectors.values.durations import LONG_AGO

_MAX_TRIGGERS = 16
_MAX_GAPS = 16
_MAX_SIZES = 9
_MAX_EXPIRED = 16
_MIN_SIZES = 5
_FULL = 4
_MAX_RECORDS = 4
_RECORD_EVERY = 6
_IN_TIME = 0.7
_MARKED = 4


class CheckpointAttempts(msgspec.Struct, array_like=True):
    """Event times (ms) of checkpoints in progress by number, and the last expired ones as (time of expiry, age)."""

    triggers: dict[int, int] = {}
    expired: list[tuple[int, int]] = []

    def trigger(self, number: int, time: int) -> None:
        put_bounded(self.triggers, number, time, _MAX_TRIGGERS)

    def expire(self, number: int, time: int) -> None:
        """Take in an expiry. Without its trigger the age is unknown, and it is left out."""
        since = self.triggers.pop(number, None)
        if since is not None and time > since:
            self.expired = [*self.expired, (time, time - since)][-_MAX_EXPIRED:]

    def failed(self) -> list[tuple[int, float]]:
        """The expired ones for `Series.failed`, as (time in ms, age in s)."""
        return [(time, age / 1000) for time, age in self.expired]


class DurationGauge(msgspec.Struct, array_like=True):
    """The last values of the gauges (-1: none): duration, the count that belongs to it, the newest count and size.

    The interval is learned from the count `mark` at the time `marked`. `fresh`: the duration is newer than the count.
    """

    duration: int = -1
    counted: int = -1
    count: int = -1
    size: int = -1
    full: bool = False
    fresh: bool = False
    mark: int = -1
    marked: int = 0


class CheckpointDurations(msgspec.Struct, array_like=True):
    """The checkpoint durations of one job. Durations and gaps are in ms.

    `completed` and `triggered` are the last numbers, `triggers` the event times of checkpoints in progress (-1: a
    savepoint), `gaps` the times between triggers of checkpoints that ended in time. `timeout` is learned from an expiry
    (0: none seen). Lines from before `reset` are ignored. `records` holds the record of every sixth checkpoint,
    `expired` the last expiries as (event time, age).
    """

    history: MultiscaleSeries = msgspec.field(default_factory=MultiscaleSeries)
    seen: int = 0
    completed: int = -1
    triggered: int = -1
    last: int = -1
    triggers: dict[int, int] = {}
    gaps: list[int] = []
    sizes: list[int] = []
    timeout: int = 0
    restored: bool = False
    reset: int = LONG_AGO
    logged: bool = False
    gauge: DurationGauge = msgspec.field(default_factory=DurationGauge)
    records: list[tuple[str, int, int, int, str]] = []
    expired: list[tuple[int, int]] = []

    def interval(self) -> int:
        """The usual time between two triggers in ms, or 0 if it is not known yet."""
        return round(median(self.gaps)) if len(self.gaps) >= 3 else 0

    def log(self) -> None:
        """Note that this job has log lines, so that its gauges are not needed."""
        if not self.logged:
            self.logged = True
            self.forget()

    def forget(self) -> None:
        """Drop the history: the job has started from other state."""
        self.history.clear()
        self.seen = 0
        self.sizes, self.records = [], []

    def trigger(self, number: int, time: int, savepoint: bool) -> None:
        if number <= self.triggered or time < self.reset:
            return
        before = self.triggers.get(number - 1, -1)
        put_bounded(self.triggers, number, -1 if savepoint else time, _MAX_TRIGGERS)
        if before >= 0 and self.completed == number - 1 and self.last > 0 and not savepoint:
            self._gap(time - before, self.last)
        self.triggered = number

    def complete(self, number: int, duration: int, size: int, record: Evidence, load: float) -> bool:
        """Take in a line about a completed checkpoint. Returns whether it counts."""
        time = record.time
        if number <= self.completed or time < self.reset:
            return False
        self.completed = number
        savepoint = self.triggers.get(number) == -1
        self.triggers = {n: t for n, t in self.triggers.items() if n >= number}
        if savepoint or self.restored:
            self.restored = self.restored and savepoint
            return False
        self.last = duration
        return self._take(Point(time, max(duration, 1), size, load), record)

    def expire(self, number: int, time: int) -> None:
        """Take in an expiry, from which the timeout is learned."""
        since = self.triggers.get(number, -1)
        if since >= self.reset and time > since >= 0:
            self.timeout = time - since
            self.expired = [*self.expired, (time, time - since)][-_MAX_EXPIRED:]

    def restore(self, time: int, fresh: bool) -> bool:
        """Numbers may jump back now, and the next checkpoint does not count. False if that was known already."""
        if time <= self.reset:
            return False
        self.reset, self.restored = time, True
        self.completed = self.triggered = self.last = -1
        self.triggers = {}
        if fresh:
            self.forget()
        return True

    def measure(self, event: MetricEvent, sample: Sample, load: float) -> bool:
        """Take in a gauge of a job without log lines. Returns whether it shows another checkpoint."""
        gauge = self.gauge
        if sample.name == "completed_checkpoints":
            self._counted(gauge, to_int(sample.value), event.time)
        elif sample.name == "last_checkpoint_full_size":
            gauge.size, gauge.full = max(to_int(sample.value), -1), True
        elif sample.name == "last_checkpoint_size":
            # For an incremental checkpoint this is only the part that was written, so the full size is preferred.
            gauge.size = gauge.size if gauge.full else max(to_int(sample.value), -1)
        elif sample.value > 0 and not self.logged:
            newest = self.history.last
            duration = to_int(sample.value)
            if (duration == gauge.duration and gauge.count == gauge.counted) or event.time <= newest:
                return False
            gauge.fresh, gauge.duration, gauge.counted = True, duration, gauge.count
            text = f"lastCheckpointDuration {sample.value:.0f}"
            record = Evidence(event.topic, event.partition, event.offset, event.time, text)
            return self._take(Point(event.time, sample.value, gauge.size, load), record)
        return False

    def _counted(self, gauge: DurationGauge, count: int, time: int) -> None:
        gauge.count = count
        if gauge.fresh:
            gauge.counted, gauge.fresh = count, False
        passed = count - gauge.mark
        if gauge.mark >= 0 and passed >= _MARKED:
            self._gap(round((time - gauge.marked) / passed), gauge.duration)
        if gauge.mark < 0 or passed < 0 or passed >= _MARKED:
            gauge.mark, gauge.marked = count, time

    def _gap(self, gap: int, duration: float) -> None:
        """Learn the interval, but not from a checkpoint that takes longer than it and so delays the next one."""
        if duration <= _IN_TIME * gap:
            self.gaps = [*self.gaps, gap][-_MAX_GAPS:]

    def _take(self, point: Point, record: Evidence) -> bool:
        self.seen += 1
        if self.seen % _RECORD_EVERY == 1:
            self.records = [*self.records, msgspec.structs.astuple(record)][-_MAX_RECORDS:]
        known = median(self.sizes) if len(self.sizes) >= _MIN_SIZES else 0
        self.sizes = [*self.sizes, round(point.size)][-_MAX_SIZES:]
        if 0 < known < point.size / _FULL:
            return False
        self.history.add(point._replace(time=max(point.time, self.history.last)))
        return True
