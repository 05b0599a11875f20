"""The durations of a job's checkpoints, from its log lines or, without them, from its gauges.

Only checkpoints count that show how long the next one will take: no savepoint, not the first one after a restore, no
full checkpoint among incremental ones. Expired checkpoints are kept for a chart of the durations: with completed
checkpoints alone it would look like a recovery.
"""

from statistics import median

import msgspec

from detectors.events.event import Sample
from detectors.flink.facts import CheckpointCompleted
from detectors.incident import Evidence, Series
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.rise import Rise
from detectors.numerics.shift import Shift
from detectors.numerics.trend import thin
from detectors.values.bounded import to_int
from detectors.values.durations import LONG_AGO

_MAX_GAPS = 16
_MAX_SIZES = 9
_MIN_SIZES = 5
_FULL = 4
_MAX_RECORDS = 4
_RECORD_EVERY = 6
_IN_TIME = 0.7
_MARKED = 4


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

    `trigger` is number and event time of the last one triggered, a checkpoint and no savepoint; `gaps` the times
    between triggers of checkpoints that ended in time. `fresh` is the event time of the last start from a savepoint.
    `records` holds the record of every sixth checkpoint.
    """

    history: MultiscaleSeries = msgspec.field(default_factory=MultiscaleSeries)
    seen: int = 0
    last: int = -1
    trigger: tuple[int, int] = (-1, 0)
    gaps: list[int] = []
    sizes: list[int] = []
    fresh: int = LONG_AGO
    logged: bool = False
    gauge: DurationGauge = msgspec.field(default_factory=DurationGauge)
    records: list[tuple[str, int, int, int, str]] = []

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

    def evidence(self, since: int, last: Evidence) -> list[Evidence]:
        """At most three records from `since` on: the first that is kept, one of the middle, and the `last`."""
        own = [r for r in (Evidence(*r) for r in self.records) if r.time >= since and r != last]
        return [*own[:1], *own[len(own) // 2 : len(own) // 2 + 1][len(own) < 2 :], last]

    def triggered(self, number: int, completed: int, time: int) -> None:
        """Take in a trigger after the checkpoint `completed`. The first gap after a pause says nothing."""
        before, since = self.trigger
        if before == completed == number - 1 and self.last > 0:
            self._gap(time - since, self.last)
        self.trigger = number, time

    def complete(self, fact: CheckpointCompleted, record: Evidence, load: float) -> bool:
        """Take in a completed checkpoint. Returns whether it counts."""
        self.log()
        if fact.savepoint or fact.restored or fact.duration < 0:
            return False
        self.last = fact.duration
        return self._take(Point(record.time, max(fact.duration, 1), fact.bytes, load), record)

    def restart(self) -> None:
        """The job restarts: the next trigger does not follow from the last one."""
        self.last, self.trigger = -1, (-1, 0)

    def start_fresh(self, time: int) -> bool:
        """The job starts from a savepoint. Returns False if that was known already."""
        if time <= self.fresh:
            return False
        self.fresh = time
        self.restart()
        self.forget()
        return True

    def measure(self, scraped: Evidence, sample: Sample, load: float) -> bool:
        """Take in a gauge of a job without log lines. Returns whether it shows another checkpoint."""
        gauge = self.gauge
        if sample.name == "completed_checkpoints":
            self._counted(gauge, to_int(sample.value), scraped.time)
        elif sample.name == "last_checkpoint_full_size":
            gauge.size, gauge.full = max(to_int(sample.value), -1), True
        elif sample.name == "last_checkpoint_size":
            # For an incremental checkpoint this is only the part that was written, so the full size is preferred.
            gauge.size = gauge.size if gauge.full else max(to_int(sample.value), -1)
        elif sample.value > 0 and not self.logged:
            newest = self.history.last
            duration = to_int(sample.value)
            if (duration == gauge.duration and gauge.count == gauge.counted) or scraped.time <= newest:
                return False
            gauge.fresh = True
            gauge.duration, gauge.counted = duration, gauge.count
            record = msgspec.structs.replace(scraped, text=f"lastCheckpointDuration {sample.value:.0f}")
            return self._take(Point(scraped.time, sample.value, gauge.size, load), record)
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


def chart(rise: Rise, limit: float | None, expired: list[tuple[int, int]]) -> Series:
    """A rise of durations (ms) as a chart in seconds, with the fit, a limit, and the ages of expired checkpoints."""
    since = rise.since(0)
    fit = [(p.time, rise.fit.at(p.time) / 1000) for p in rise.points if p.time >= since]
    return Series(
        name="checkpoint duration",
        unit="s",
        points=thin([(p.time, p.value / 1000) for p in rise.points]),
        threshold=limit / 1000 if limit else None,
        fit=thin(fit, 16 if rise.fit.exponential else 3),
        failed=[(time, age / 1000) for time, age in expired],
    )


def chart_of_shift(shift: Shift, limit: float, expired: list[tuple[int, int]]) -> Series:
    """A shift of durations (ms) as a chart in seconds, with the levels before and after it."""
    first, last = shift.points[0].time, shift.points[-1].time
    levels = [(first, shift.before), (shift.since, shift.before), (shift.since, shift.after), (last, shift.after)]
    return Series(
        name="checkpoint duration",
        unit="s",
        points=thin([(p.time, p.value / 1000) for p in shift.points]),
        threshold=limit / 1000,
        fit=[(time, value / 1000) for time, value in levels],
        failed=[(time, age / 1000) for time, age in expired],
    )
