"""A job cannot be started from its checkpoint or savepoint, or starts empty although it had checkpoints.

Opens on a failure whose causes are about restoring: no such checkpoint or savepoint, state of an operator that is not
in the program any more, an incompatible serializer, a broken state handle, state files that cannot be loaded. Also
opens on `No checkpoint found during restore.` of a job whose checkpoints had completed: it starts with empty state, and
no other line shows it. Resolved when the job completes a checkpoint again.

Why it matters: each further attempt fails too, and a job that starts empty loses its state without an error. A failed
restore has no line about the job's state, only `reached terminal state FAILED` (Flink ≥ 1.13). `job_failed` and
`restart_loop` are its effects.

A newly submitted job has never completed a checkpoint under its id, and one that was cancelled or has failed starts
empty as it should: neither is a loss. Without high availability all application clusters use the job id 000…0.

Reference: Flink, "Savepoints" (allowNonRestoredState), "State schema evolution"; a recording of a missing path.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobView, View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Failure
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_SOURCES = 50
_MAX_RECORDS = 4
_NO_HA = "0" * 32

_Job: TypeAlias = "JobView[RestoreFailed.Config, RestoreFailed.State, RestoredJob]"
_View: TypeAlias = "View[RestoreFailed.Config, RestoreFailed.State]"


class RestoredJob(msgspec.Struct, array_like=True):
    """One job: the number of its completed checkpoints, and the open finding.

    `lost` is the number of checkpoints that it started without. `restored`: it started from a checkpoint or savepoint,
    or tried to. `proven` is the event time of the last completed checkpoint.
    """

    completed: int = 0
    since: int = 0
    last: int = 0
    text: str = ""
    lost: int = 0
    records: list[Evidence] = []
    restored: bool = False
    proven: int = 0


class LastJobState(msgspec.Struct, array_like=True):
    """The last line about a job's state in a source, and the event time of `No checkpoint found` (`nothing`)."""

    job: str = ""
    before: str = ""
    time: int = LONG_AGO
    nothing: int = LONG_AGO
    record: Evidence | None = None


class RestoreFailed(JobDetector):
    """Detects jobs that cannot be restored, or that start with empty state instead."""

    kind = "restore_failed"
    Job = RestoredJob

    class Config(DetectorConfig):
        """Settings of the detector `restore_failed`."""

        adjacent: Duration = threshold(
            5_000,
            "Longest time between `No checkpoint found`, which names no job, and a job's change of state at which the "
            "line is attributed to that job.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id, lines about job states by source."""

        jobs: dict[str, RestoredJob] = {}
        entered: dict[str, LastJobState] = {}

    @on(Failure, job="none")
    def failed(self, view: _View, fact: Failure) -> None:
        job_id, source = view.topology.job_of_failure(view.line), view.event.source
        fault = view.topology.faults.of(source, fact)
        known = self.job(view, job_id)
        over = known is not None and view.time < known.own.last
        # A line that was sent again names no job, and the job that failed may have been replaced since.
        if not job_id or fault.role != "restore" or over or fact.again:
            return
        if self._began_empty(view.state.entered.get(source), known):
            return
        job = self.new_job(view, job_id)
        own = job.own
        if own.text and own.since and fault.time != own.last:
            own.last = fault.time  # The same failure again: `restart_loop` reports the restarts.
            return
        before = own.text
        own.since, own.last, own.text = own.since or view.time, fault.time, fault.description()
        if not before:
            own.records = [*own.records, view.record()][-_MAX_RECORDS:]
        if before != own.text:
            job.report(self._finding(job))

    @on(facts.NothingRestored, job="none")
    def nothing_restored(self, view: _View, _: facts.NothingRestored) -> None:
        entered = self._entered(view)
        entered.nothing, entered.record = view.time, view.record()
        # A restart in place: the change from RESTARTING to RUNNING comes first.
        if entered.before == "RESTARTING":
            self._start_empty(view, entered.job, entered.time, entered.record)

    @on(facts.JobStateChanged, job="none")
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        if fact.state == "RUNNING":
            entered = self._entered(view)
            entered.job, entered.before, entered.time = fact.job, fact.before, view.time
            # A new JobManager takes over the job: it logs what it found before the job runs.
            if fact.before == "CREATED" and fact.job != _NO_HA and entered.record:
                self._start_empty(view, fact.job, entered.nothing, entered.record)
        elif fact.ended and (job := self.job(view, fact.job)) is not None and view.time >= job.own.last:
            if job.own.since and fact.state == "FAILED":
                job.own.completed = 0
                return
            if job.own.since:
                self._close(job, f"the job is {fact.state}")
            job.forget()

    @on(facts.JobRestored, job="none")
    def restored(self, view: _View, fact: facts.JobRestored) -> None:
        """A checkpoint was found, so nothing was lost."""
        view.state.entered.pop(view.event.source, None)
        if fact.job:
            self.new_job(view, fact.job).own.restored = True

    @on(facts.CheckpointCompleted, job="any")
    def completed(self, job: _Job, _: facts.CheckpointCompleted) -> None:
        own = job.own
        if job.time <= own.last:
            return
        own.completed, own.proven = own.completed + 1, max(own.proven, job.time)
        if not any(known.since for known in job.state.jobs.values()):
            return
        # The same job under another id: it was submitted again with the problem fixed.
        for failed in [j for j in self.jobs(job) if j.own.since]:
            if failed.id == job.id or (job.name and failed.name == job.name):
                self._close(failed, "checkpoints of the job complete again")
                if failed.id != job.id:
                    failed.forget()

    def _entered(self, view: _View) -> LastJobState:
        entered = view.state.entered.get(view.event.source)
        if entered is None:
            entered = LastJobState()
            put_bounded(view.state.entered, view.event.source, entered, _MAX_SOURCES)
        return entered

    def _began_empty(self, entered: LastJobState | None, job: "_Job | None") -> bool:
        """Whether Flink had nothing to restore. A state backend that cannot be created throws the same exception."""
        had = job is not None and (job.own.restored or job.own.completed > 0 or job.own.lost > 0)
        return entered is not None and entered.record is not None and not had

    def _start_empty(self, view: _View, job_id: str, time: int, record: Evidence) -> None:
        """A job whose checkpoints had completed starts without any, if both lines are near each other."""
        job = self.job(view, job_id)
        if job is None or not 0 <= view.time - time <= job.config.adjacent:
            return
        own = job.own
        if own.completed and view.time > max(own.last, own.proven):
            own.lost, own.completed = own.completed, 0
            own.since, own.last = own.since or view.time, view.time
            own.records = [*own.records, record][-_MAX_RECORDS:]
            job.report(self._finding(job))

    def _close(self, job: _Job, why: str) -> None:
        job.close(self._finding(job), why)
        own = job.own
        own.since, own.last, own.text, own.lost, own.records = 0, job.time, "", 0, []

    def _finding(self, job: _Job) -> Finding:
        if job.own.lost:
            summary = (
                f"job {job.label} started with empty state: no checkpoint was found, although {job.own.lost} had "
                "completed"
            )
            advice = keep_state(job.id) + (
                "The checkpoint to save is the last one from before this start. Then stop the job before it overwrites "
                "results, and resubmit it from that path. To prevent it: find out why the high-availability store or "
                "the pointer to the checkpoint is gone."
            )
        else:
            summary = f"job {job.label} cannot be restored: {job.own.text}"
            advice = (
                "Check that the path exists and can be read. Compare the program with the one that wrote the state: "
                "operator uids, types, parallelism, Flink version. Start from an older checkpoint or savepoint, or use "
                "allowNonRestoredState if the operator was removed on purpose."
            )
        return job.finding(
            job.id,
            job.entity(),
            since=job.own.since,
            severity="critical",
            summary=summary,
            evidence=job.own.records,
            advice=advice,
        )
