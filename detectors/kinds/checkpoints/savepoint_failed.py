"""A savepoint has failed, or a job that was to stop with a savepoint has not ended.

Opens `confirmation_delay` after a savepoint whose trigger was seen expired, was declined or failed; after a request for
a savepoint that failed before it had a number, such as one whose directory cannot be made; and after a
stop-with-savepoint that left tasks behind. The reason is in the stack trace after the line. Resolved when a later
savepoint completes, when the job ends, or `forget_after` the last attempt.

Not reported: checkpoints (`checkpoint_failing`); savepoints aborted by a restart, the start or the end of the job; the
`UNKNOWN_CHECKPOINT_ID` that a healthy stop-with-savepoint logs with a stack trace, because the savepoint has its number
by then; a request without a reason.

Why it matters: the job continues, so a failed savepoint is easily overlooked, and upgrades, migrations and backups rely
on it. Many pipelines cancel the job next. Reference: Flink, "Savepoints", `CheckpointFailureReason`.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobStates, JobView, View, on, threshold
from detectors.flink import facts
from detectors.flink.checkpointing.failed_checkpoints import EXPIRED, harmless, reason
from detectors.flink.facts import Fact, Failure
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_RUNNING = 16
_MAX_RECORDS = 4
_NO_NUMBER = -1
_STOPPING = "the job did not end after the savepoint"
_ABORTS = frozenset({"RESTARTING", "FAILING", "SUSPENDED", "CANCELLING", "INITIALIZING"})

_Job: TypeAlias = "JobView[SavepointFailed.Config, JobStates[Savepoints], Savepoints]"
_View: TypeAlias = "View[SavepointFailed.Config, JobStates[Savepoints]]"


class FailedSavepoint(msgspec.Struct, array_like=True):
    """A failed savepoint by number (-1: it had none yet): event time and clock of its first line, record and reason."""

    number: int
    time: int
    at: int
    record: Evidence
    why: str = ""


class Savepoints(msgspec.Struct, array_like=True):
    """The savepoints of a job: event times of the triggers of those in progress, and of a request without a trigger.

    `failed` waits for its reason. `count` savepoints have failed since the last completed one, the last of them at the
    clock `last`. `done` is the event time of the last completed one.
    """

    running: dict[int, int] = {}
    requested: int = LONG_AGO
    failed: FailedSavepoint | None = None
    count: int = 0
    last: int = 0
    done: int = LONG_AGO
    open: Finding | None = None


class SavepointFailed(JobDetector):
    """Detects savepoints that fail."""

    kind = "savepoint_failed"
    belongs_to = "job"
    Job = Savepoints
    State = JobStates[Savepoints]

    class Config(DetectorConfig):
        """Settings of the detector `savepoint_failed`."""

        confirmation_delay: Duration = threshold(
            2_000, "Time to wait for the reason of a failed savepoint, which follows in the next records."
        )
        triggered_within: Duration = threshold(
            60_000, "Time after a request in which a failure without a number is attributed to that savepoint."
        )
        forget_after: Duration = threshold(
            21_600_000, "Time after the last failed savepoint, without another attempt, after which it is resolved."
        )

    @on(facts.SavepointRequested, job="any")
    def requested(self, job: _Job, _: Fact) -> None:
        job.own.requested = max(job.own.requested, job.time)

    @on(facts.CheckpointTriggered, job="none")
    def triggered(self, view: _View, fact: facts.CheckpointTriggered) -> None:
        if fact.savepoint:
            job = self.new_job(view, view.job)
            put_bounded(job.own.running, fact.number, job.time, _MAX_RUNNING)
            job.own.requested = LONG_AGO

    @on(facts.CheckpointCompleted)
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        own = job.own
        if own.running.pop(fact.number, None) is not None or fact.savepoint:
            own.done = max(own.done, job.time)
            if own.failed is None or own.failed.time < job.time:
                self._close(job, f"savepoint {fact.number} completed")

    @on(facts.CheckpointFailed)
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        if job.own.running.pop(fact.number, None) is not None or fact.savepoint:
            self._failed(job, fact.number, EXPIRED if fact.expired else "")

    @on(facts.CheckpointNotTriggered)
    def not_triggered(self, job: _Job, _: Fact) -> None:
        if 0 <= job.time - job.own.requested <= job.config.triggered_within:
            job.own.requested = LONG_AGO
            self._failed(job, _NO_NUMBER, "")

    @on(facts.StopWithSavepointFailed, job="any")
    def not_stopped(self, job: _Job, _: Fact) -> None:
        if job.own.failed is None or job.own.failed.why != _STOPPING:
            self._failed(job, _NO_NUMBER, _STOPPING)

    @on(Failure)
    def explained(self, job: _Job, fact: Failure) -> None:
        failed = job.own.failed
        if failed is None or fact.number != failed.number or not fact.of.startswith("checkpoint_"):
            return
        if harmless(f"{fact.first} {fact.message}"):
            job.own.failed = None
        elif failed.why not in (EXPIRED, _STOPPING):
            failed.why = reason(fact)

    @on(facts.JobStateChanged)
    def changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        """A savepoint that a restart or the end of the job aborts may be logged before it, with its reason lost."""
        if fact.ended or fact.state in _ABORTS:
            job.own.running.clear()
            if job.own.failed is not None and not job.own.failed.why:
                job.own.failed = None
        if fact.ended:
            self._close(job, f"the job is {fact.state}")
            job.forget()

    def deadline(self, job: _Job) -> int | None:
        """When the wait for a reason ends, or a failure is forgotten."""
        own = job.own
        if own.failed is not None:
            return own.failed.at + job.config.confirmation_delay
        return own.last + job.config.forget_after if own.open is not None else None

    def due(self, job: _Job) -> None:
        """Report a failure whose wait for a reason has ended, or forget one."""
        own, at = job.own, self.deadline(job)
        if at is None or job.clock < at:
            return
        if own.failed is None:
            self._close(job, f"no other savepoint was tried for {humanize(job.config.forget_after)}")
            return
        failed, own.failed = own.failed, None
        if failed.why or failed.number != _NO_NUMBER:
            own.count, own.last = own.count + 1, job.clock
            own.open = self._finding(job, failed)
            job.report(msgspec.structs.replace(own.open))

    def _failed(self, job: _Job, number: int, why: str) -> None:
        record = job.record()
        if job.time > job.own.done and not harmless(record.text):
            job.own.failed = FailedSavepoint(number, job.time, job.clock, record, why)

    def _close(self, job: _Job, why: str) -> None:
        own = job.own
        if own.open is not None:
            job.close(own.open, why)
        own.open, own.failed, own.count = None, None, 0

    def _finding(self, job: _Job, failed: FailedSavepoint) -> Finding:
        before, number = job.own.open, "" if failed.number == _NO_NUMBER else str(failed.number)
        again = f" ({job.own.count} in a row)" if job.own.count > 1 else ""
        name = f"savepoint {number}".rstrip()
        return job.finding(
            job.id,
            job.entity(checkpoint=number),
            since=before.since if before is not None else failed.time,
            severity="warning",
            summary=f"{name} of job {job.label} failed{again}: {failed.why or 'Flink gives no reason'}",
            confidence="sure" if failed.why else "fair",
            evidence=[*(before.evidence if before is not None else ()), failed.record][-_MAX_RECORDS:],
            advice="The job keeps its checkpoints. Do not cancel, upgrade or move it as if the savepoint existed. "
            "If the savepoint expired, look at backpressure, raise execution.checkpointing.timeout, or take it in the "
            "native format (Flink 1.15 and later), which is faster. If not, read the exception: the path, permissions, "
            "space and credentials of the savepoint storage. Then trigger it again and wait until it has completed.",
        )
