"""The checkpoints of each job, folded once for all detectors: in progress, completed, failed, and how long they take.

Repeated and outdated lines end here, so detectors see the trigger and the end of each checkpoint once: a shipper may
send a line again, and after a restore numbers jump back while lines from before may still arrive. A number that comes
again with a newer time shows a restore of which no line has arrived.
"""

import msgspec

from detectors.flink.facts import CheckpointCompleted, CheckpointFailed, CheckpointTriggered
from detectors.incident import Evidence
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO

_MAX_IN_PROGRESS = 8
_MAX_EXPIRED = 16
_MAX_SIZES = 12
_MAX_LAG_MS = 300_000
_LAG_FADES = 64
_LOSSES_FADE = 64
DEFAULT_TIMEOUT_MS = 600_000
"""Flink's default of execution.checkpointing.timeout."""
GAUGE_LAG_MS = 5_000
"""How old a gauge may be when it is scraped."""


class InProgress(msgspec.Struct, array_like=True):
    """A checkpoint in progress: event time and clock of its trigger, and the record."""

    since: int
    at: int
    record: Evidence
    savepoint: bool = False


class JobCheckpoints(msgspec.Struct, array_like=True):
    """The checkpoints of one job. Durations and ages are in ms, times are event times.

    `completed`, `failed` and `lapsed` (expired) are the last numbers since `reset`, `latest` is the last one completed
    at all. `sizes` are those of the last ones in bytes, `usual` is their usual longest duration. `reset` is when the
    job last changed its state or was restored: older lines are outdated, and numbers may start again. `restored`: no
    checkpoint has completed since a restore. `timeout` is learned from an expiry; `expired` holds the last ones as
    (time, age). `newest` is the time of the newest line, `lag` how late lines reach Kafka. `reported` is the last
    number that was completed by an event of Flink's own reporter or by the line of a source; the log states the same
    at another time. `last` is the last number of any line since `reset`, `lossy` the number of further checkpoints for
    which a line may be missing, because one was missing before.
    """

    in_progress: dict[int, InProgress] = {}
    completed: int = -1
    latest: int = -1
    completed_at: int = 0
    failed: int = -1
    lapsed: int = -1
    reset: int = LONG_AGO
    restored: bool = False
    concurrent: bool = False
    triggered_at: int = 0
    interval: int = 0
    timeout: int = 0
    expired: list[tuple[int, int]] = []
    newest: int = LONG_AGO
    lag: int = 0
    sizes: list[int] = []
    usual: int = 0
    reported: int = -1
    last: int = -1
    lossy: int = 0

    def shipped(self, lag: int) -> None:
        """Note by how much a line of the job was late at Kafka. Single late lines fade."""
        self.lag = max(min(lag, _MAX_LAG_MS), self.lag - self.lag // _LAG_FADES)

    def measure(self, in_progress: float, time: int) -> None:
        """Take in the gauge of checkpoints in progress. If it is 0, the line of an end was lost or is on its way."""
        if in_progress == 0:
            taken = time - GAUGE_LAG_MS
            self.in_progress = {n: c for n, c in self.in_progress.items() if c.since > taken}

    def trigger(self, fact: CheckpointTriggered, clock: int, record: Evidence) -> CheckpointTriggered | None:
        """Take in a trigger. Returns None if it is repeated or outdated.

        By default a checkpoint is triggered only after the previous one has ended: older ones ended unseen.
        """
        number, time = fact.number, record.time
        skipped = 0 <= self.last < number - 1
        if (
            time < self.reset
            or number in self.in_progress
            or self._again(number, max(self.completed, self.failed), time)
        ):
            return None
        self.newest = max(self.newest, time)
        if not fact.savepoint:
            ended = number - _MAX_IN_PROGRESS if self.concurrent else number
            unseen = tuple(n for n, known in self.in_progress.items() if n <= ended and not known.savepoint)
            for older in unseen:
                del self.in_progress[older]
            if self.triggered_at and time > self.triggered_at and not skipped and not self.missed():
                self.interval = time - self.triggered_at
            self.triggered_at = max(self.triggered_at, time)
            fact = msgspec.structs.replace(fact, unseen=unseen)
        self.lossy = _LOSSES_FADE if skipped or fact.unseen else max(self.lossy - 1, 0)
        self.last = max(self.last, number)
        put_bounded(self.in_progress, number, InProgress(time, clock, record, fact.savepoint), 2 * _MAX_IN_PROGRESS)
        return fact

    def complete(self, fact: CheckpointCompleted, time: int, reported: bool = False) -> CheckpointCompleted | None:
        """Take in a completion, which an event may have `reported`. Returns None if it is repeated or outdated."""
        known = self.in_progress.get(fact.number)
        if fact.for_source and known is None:
            return None
        reported = reported or fact.for_source
        stated = known is None and fact.number == self.completed and (reported or self.reported == fact.number)
        if time < self.reset or stated or (known is None and self._again(fact.number, self.completed, time)):
            return None
        self.newest = max(self.newest, time)
        if self.triggered_at and 0 <= self.last < fact.number:
            self.lossy = _LOSSES_FADE
        self.last = max(self.last, fact.number)
        savepoint = known is not None and known.savepoint
        fact = msgspec.structs.replace(fact, seen=known is not None, savepoint=savepoint, restored=self.restored)
        if fact.duration < 0 and known is not None:
            fact = msgspec.structs.replace(fact, duration=max(0, time - known.since))
        self.reported = fact.number if reported else self.reported
        self.completed, self.latest = max(self.completed, fact.number), fact.number
        self.completed_at = time
        if fact.bytes >= 0:
            self.sizes = [*self.sizes, fact.bytes][-_MAX_SIZES:]
        if fact.duration >= 0:
            self.usual = max(fact.duration, self.usual // 2)
        if not savepoint:
            self.restored = False
        # A savepoint continues while later checkpoints complete; an older checkpoint does not.
        later = {n: c for n, c in self.in_progress.items() if n > fact.number}
        if any(not c.savepoint for c in later.values()):
            self.concurrent, self.lossy = True, 0
        self.in_progress = {
            n: c for n, c in self.in_progress.items() if n != fact.number and (n > fact.number or c.savepoint)
        }
        return fact

    def fail(self, fact: CheckpointFailed, time: int) -> CheckpointFailed | None:
        """Take in a failure, of which there may be several lines. Returns None if it is outdated."""
        if time < self.reset:
            return None
        known = self.in_progress.pop(fact.number, None)
        # A line that it has failed may come before the line that it has expired.
        again = known is None and fact.number <= max(self.completed, self.lapsed if fact.expired else self.failed)
        self.failed, self.last = max(self.failed, fact.number), max(self.last, fact.number)
        self.lapsed = max(self.lapsed, fact.number) if fact.expired else self.lapsed
        if known is None:
            return msgspec.structs.replace(fact, again=again)
        if fact.expired and time > known.since:
            self.timeout = time - known.since
            self.expired = [*self.expired, (time, self.timeout)][-_MAX_EXPIRED:]
        return msgspec.structs.replace(fact, triggered=known.record, since=known.since, savepoint=known.savepoint)

    def timeout_set(self, before: int, timeout: int) -> None:
        """The configuration has another timeout. A job whose own program sets its timeout keeps that."""
        before = before or DEFAULT_TIMEOUT_MS
        if timeout and abs(self.timeout - before) <= before // 10:
            self.timeout = timeout

    def _again(self, number: int, last: int, time: int) -> bool:
        """Whether a line about a number up to the `last` one was sent again. If not, the job has restarted unseen."""
        sent_again = number <= last and time <= self.newest
        if number <= last and not sent_again:
            self.restart(time, restored=True)
        return sent_again

    def restart(self, time: int, restored: bool) -> None:
        """The job has changed its state or is restored, which ends its checkpoints."""
        self.restored = self.restored or restored
        self.in_progress.clear()
        if time > self.reset:
            self.reset, self.completed, self.failed, self.lapsed, self.last = time, -1, -1, -1, -1

    def missed(self) -> bool:
        """Whether a line of one of the last two checkpoints is missing."""
        return self.lossy == _LOSSES_FADE

    def grown(self, factor: float) -> bool:
        """Whether the last checkpoint is larger than the smallest of the last ones by this factor."""
        return len(self.sizes) > 2 and self.sizes[-1] >= factor * min(self.sizes)

    def oldest(self) -> tuple[int, InProgress] | None:
        """Number and trigger of the oldest checkpoint in progress; savepoints take as long as they take."""
        checkpoints = [c for c in self.in_progress.items() if not c[1].savepoint]
        return min(checkpoints, key=lambda c: c[1].at, default=None)
