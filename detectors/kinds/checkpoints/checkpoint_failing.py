"""Several checkpoints of a job in a row have failed.

Opens at the `in_a_row`-th checkpoint in a row that expired, was declined or failed, and at once when Flink logs
`Exceeded checkpoint tolerable failure threshold`. Resolved by a completed checkpoint, or when the job ends.

These do not count: savepoints; triggers refused because not all tasks run; checkpoints aborted by a start, a restart or
the end of the job ("Checkpoint Coordinator is suspending", a task that is closing or has failed); checkpoints dropped
in favour of a newer one. An exception in the synchronous part of a snapshot is never declined, whatever the tolerance:
the task fails (`Could not perform checkpoint N`) and the job restarts, but the checkpoint has failed too. The reason is
in the stack trace after the line, so all failures except expiries wait for `confirmation_delay`. A task that could not
write its part (`asynchronous part of checkpoint N could not be completed`) shows why a checkpoint expired.

Why it matters: state is no longer saved. Each failure of the job now replays from an ever older checkpoint, and a sink
that commits on checkpoints shows nothing new. Before Flink 1.11 expiries did not count against the tolerance
(FLINK-17351), so such a job runs on like this for ever. `checkpoint_overdue` reports a single checkpoint that hangs or
expired, `late_barrier_acks` why checkpoints expire.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobStates, JobView, View, on, threshold
from detectors.flink import facts
from detectors.flink.checkpointing.failed_checkpoints import (
    EXPIRED,
    FailedCheckpoint,
    FailedCheckpoints,
    failed_snapshot,
    harmless,
    reason,
    upload_error,
)
from detectors.flink.facts import Fact, Failure
from detectors.incident import Finding, Reading
from detectors.values.durations import Duration

_MAX_RECORDS = 5
_THRESHOLD = "exceeded checkpoint tolerable failure threshold"
_RUNNING_AGAIN = frozenset({"RESTARTING", "FAILING", "SUSPENDED", "CANCELLING", "INITIALIZING"})

_Job: TypeAlias = "JobView[CheckpointFailing.Config, JobStates[JobFailures], JobFailures]"
_View: TypeAlias = "View[CheckpointFailing.Config, JobStates[JobFailures]]"


class JobFailures(FailedCheckpoints, array_like=True):
    """The failed checkpoints of a job, and the open finding. `triggered` is the number that was triggered last."""

    open: Finding | None = None
    triggered: int = -1


class CheckpointFailing(JobDetector):
    """Detects several failed checkpoints in a row."""

    kind = "checkpoint_failing"
    Job = JobFailures
    State = JobStates[JobFailures]

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_failing`."""

        in_a_row: int = threshold(
            3,
            "Number of failed checkpoints in a row, without a completed one between them, from which the finding "
            "opens.",
            ge=2,
            le=16,
        )
        confirmation_delay: Duration = threshold(
            2_000,
            "Time to wait for the reason and the root cause of a failure, which follow in the next records.",
        )
        restart_for: Duration = threshold(
            10_000, "Time after a restart in which a failure without a reason is attributed to that restart."
        )

    @on(facts.CheckpointTriggered, job="any")
    def triggered(self, job: _Job, fact: facts.CheckpointTriggered) -> None:
        job.own.triggered = fact.number
        if fact.savepoint:
            job.own.ignore(fact.number)

    @on(facts.CheckpointCompleted, job="any")
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        if job.own.complete(job.time):
            self._close(job, f"checkpoint {fact.number} completed")

    @on(facts.CheckpointFailed, job="any")
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        own = job.own
        if fact.number not in own.harmless and job.time > own.completed:
            why = EXPIRED if fact.expired else ""
            record = job.record()
            if harmless(record.text):
                own.ignore(fact.number)
            elif fact.number in own.failed:
                own.failed[fact.number].why = own.failed[fact.number].why or why
            else:
                doubtful = 0 <= job.time - own.restarted <= job.config.restart_for
                own.add(fact.number, FailedCheckpoint(job.time, job.clock, record, why, doubtful=doubtful))
        self._report(job)

    @on(Failure, job="none")
    def explained(self, view: _View, fact: Failure) -> None:
        """Take in a reason. A TaskManager's line about its task repeats the JobManager's line about the job."""
        thrown = failed_snapshot(fact) if view.event.source not in view.topology.tm_of_source else -1
        of_limit = _THRESHOLD in f"{fact.first} {fact.message}".lower()
        job = self._failed_job(view, fact, thrown, new=thrown >= 0 or _THRESHOLD in fact.message.lower())
        if job is None:
            return
        own, number = job.own, thrown if fact.number < 0 else fact.number
        if thrown >= 0 and fact.of == "task_state":
            # Each line of the stack trace adds to the reason.
            own.throw(number, FailedCheckpoint(job.time, job.clock, job.record(), reason(fact), thrown=True))
        elif fact.of == "checkpoint_async_failed":
            if number in own.failed:
                own.failed[number].upload = upload_error(fact)
        elif of_limit:
            if own.limit is None and job.time > own.completed and not fact.again:
                own.limit = job.record()
        # The restart after a snapshot that threw suspends the coordinator: that is no reason.
        elif fact.of.startswith("checkpoint_") and number in own.failed and not own.failed[number].thrown:
            if harmless(f"{fact.first} {fact.message}"):
                own.ignore(number)
            elif own.failed[number].why != EXPIRED:
                own.failed[number].why = reason(fact)
        self._report(job)

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        job.own.restarted = max(job.own.restarted, job.time)

    @on(facts.JobStateChanged)
    def job_changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in _RUNNING_AGAIN:
            job.own.restart(job.time, job.clock, job.config.confirmation_delay, forgive=job.own.open is None)
            self._report(job)
        elif fact.ended:
            self._close(job, f"the job is {fact.state}")
            job.forget()

    def due(self, job: _Job) -> None:
        """Report failures whose wait for a reason has ended."""
        if job.own.open is None:
            self._report(job)

    def deadline(self, job: _Job) -> int | None:
        """When the wait of the failure that completes `in_a_row` ends."""
        return job.own.enough(job.config.in_a_row, job.config.confirmation_delay) if job.own.open is None else None

    def job_readings(self, job: _Job) -> Iterator[Reading]:
        """Failures in a row."""
        yield job.reading("checkpoint_consecutive_failures", job.own.count(), job=job.label)

    def _failed_job(self, view: _View, fact: Failure, thrown: int, new: bool) -> "_Job | None":
        """The job of a failure. The line of a failing task names no job, so take the only one at this checkpoint."""
        number, jobs = max(thrown, fact.number), view.state.jobs.items()
        at_it = [j for j, known in jobs if number >= 0 and (known.triggered == number or number in known.failed)]
        job = at_it[0] if len(at_it) == 1 and not fact.job else view.job
        return self.new_job(view, job) if new else self.job(view, job)

    def _report(self, job: _Job) -> None:
        at = job.own.enough(job.config.in_a_row, job.config.confirmation_delay)
        if job.own.limit is None and (at is None or job.clock < at):
            return
        finding = self._finding(job)
        if job.own.open is None or job.own.open.summary != finding.summary:
            job.own.open = finding
            job.report(msgspec.structs.replace(finding))

    def _close(self, job: _Job, why: str) -> None:
        if job.own.open is not None:
            job.close(job.own.open, why)
            job.own.open = None

    def _finding(self, job: _Job) -> Finding:
        own, version = job.own, job.topology.version
        failed, count = sorted(own.counting().items()), own.count()
        why = own.why() or "Flink gives no reason"
        summary = f"{count} checkpoints in a row failed" if count != 1 else "a checkpoint failed"
        if failed:
            summary += f" (last: checkpoint {failed[-1][0]}): {why}"
        records = [f.record for _, f in failed]
        if own.limit is not None:
            summary = (
                "the job restarts because it exceeded the tolerable number of failed checkpoints; "
                f"{summary if failed else why}"
            )
            records.append(own.limit)
        elif why == EXPIRED and version.startswith(("1.4", "1.5", "1.6", "1.7", "1.8", "1.9", "1.10")):
            summary += f"; Flink {version} does not count expired checkpoints, so it will not restart the job"
        return job.finding(
            job.id,
            job.entity(checkpoint=str(failed[-1][0] if failed else "")),
            since=min((r.time for r in records), default=job.clock),
            severity="critical",
            summary=summary,
            confidence="sure" if own.limit or all(f.why for _, f in failed) else "fair",
            evidence=[*records[:1], *records[1:][-_MAX_RECORDS + 1 :]],
            advice="Open the last failed checkpoint in Flink's UI and see which subtasks have not acknowledged, or the "
            "exception. If it expired, look at backpressure and at the checkpoint storage. If it was declined or "
            "failed, read the exception. Do not restart or cancel the job by hand before that: everything since its "
            "last completed checkpoint is replayed, and by default Flink deletes the checkpoints of a job that is "
            "cancelled.",
        )
