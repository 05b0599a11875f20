"""A job has failed for good.

Opens when a job reaches the state FAILED (`switched from state FAILING to FAILED`, `reached terminal state FAILED`),
with the root cause, however deep in the stack trace: from the lines before, or from lines that follow within
`stack_wait`. Flink logs all of it at INFO; its event of the failure has only the labels of failure enrichers. FINISHED
and CANCELED are not failures, and SUSPENDED is the end of a JobManager. Resolved when a job with that id or name
completes a checkpoint or finishes, or has been RUNNING for `running_for`.

Why it matters: nothing restarts the job. If `restart_loop`, `slots_unavailable` or another finding was open for the job
before, that is the cause. A job that fails because its TaskManagers stop in an orderly way is reported only if the
cluster does not end within `planned_wait`, because scripts stop TaskManagers first.

Reference: Flink, "Task Failure Recovery"; a recording whose root cause is five exceptions deep.
"""

import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Fact, Failure
from detectors.flink.root_causes import RootCause
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import Duration, humanize

_MAX_JOBS = 100
_MAX_RECORDS = 4
_MAX_ATTEMPTS = re.compile(r"maxNumberRestartAttempts=(\d+)")

_View: TypeAlias = "View[JobFailed.Config, JobFailed.State]"


class FailedJob(msgspec.Struct, array_like=True):
    """A failed job: event times at which it began to fail and ended, clock of the end, root cause and records.

    `back` is the clock since which a job of its id or name runs.
    """

    job: str
    name: str
    since: int
    ended: int
    at: int
    fault: RootCause | None
    records: list[Evidence]
    reported: bool = False
    back: int = 0

    @property
    def planned(self) -> bool:
        """Whether its TaskManagers were stopped in an orderly way."""
        return self.fault is not None and self.fault.role == "planned"


class JobFailed(Detector):
    """Detects jobs that reach the state FAILED."""

    kind = "job_failed"
    belongs_to = "job"
    per_job = True

    class Config(DetectorConfig):
        """Settings of the detector `job_failed`."""

        stack_wait: Duration = threshold(
            2_000, "Time to wait for the stack trace if no earlier line gives the root cause."
        )
        planned_wait: Duration = threshold(
            30_000, "Time to wait for the end of the cluster if its TaskManagers were stopped in an orderly way."
        )
        running_for: Duration = threshold(
            600_000, "Time for which a job without checkpoints must be RUNNING again to resolve the finding."
        )

    class State(msgspec.Struct, array_like=True):
        """Failed jobs by id."""

        jobs: dict[str, FailedJob] = {}

    config: Config

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        name = fact.name or view.topology.job_name(fact.job)
        if fact.state == "FAILED":
            self._failed(view, fact.job, name)
        elif fact.state == "FINISHED":
            self._run_again(view, fact.job, name, "has finished")
        else:
            for failed in self._earlier_runs(view, fact.job, name):
                failed.back = view.clock if fact.state == "RUNNING" else 0

    @on(facts.SubtasksStatusChanged, needs="jobs")
    def subtasks_changed(self, view: _View, fact: facts.SubtasksStatusChanged) -> None:
        for failed in self._earlier_runs(view, fact.job, view.topology.job_name(fact.job)):
            failed.back = view.clock if fact.all_run else 0

    @on(facts.CheckpointCompleted, needs="jobs")
    def completed(self, view: _View, _: Fact) -> None:
        self._run_again(view, view.job, view.topology.job_name(view.job), "completes checkpoints again")

    @on(Failure)
    def explained(self, view: _View, fact: Failure) -> None:
        """Take in a line of a stack trace, which may be printed up to three times from its outermost throwable."""
        failed = view.state.jobs.get(fact.job)
        if failed is None or fact.state != "FAILED":
            return
        fault = view.topology.faults.of(view.event.source, fact)
        before = failed.fault.description() if failed.fault is not None else ""
        if fault.ends_job and (failed.fault is None or failed.fault.labelled or failed.fault.id == fault.id):
            failed.fault = msgspec.structs.replace(fault)
        if failed.reported and failed.fault is not None and failed.fault.description() != before:
            view.report(self._finding(view, failed))

    @on(facts.ClusterEnding, facts.ProcessSignalled)
    def planned(self, view: _View, end: facts.ClusterEnding | facts.ProcessSignalled) -> None:
        """Failures that belong to the end of the cluster are none. A signal to one TaskManager does not end it."""
        whole = isinstance(end, facts.ClusterEnding) or view.event.source not in view.topology.tm_of_source
        if whole and end.how == "orderly":
            view.state.jobs = {j: f for j, f in view.state.jobs.items() if f.reported or not f.planned}

    def on_deadline(self, view: _View) -> None:
        """Report failures whose wait for a root cause has ended, and close jobs that run again without checkpoints."""
        for failed in list(view.state.jobs.values()):
            if not failed.reported and view.clock >= self._due(failed):
                failed.reported = True
                view.report(self._finding(view, failed))
            elif failed.back and view.clock >= failed.back + self.config_of(failed.job).running_for:
                self._close(view, failed, f"it has been RUNNING for {humanize(view.clock - failed.back)}")

    def next_deadline(self, view: _View) -> int | None:
        """When the first wait ends."""
        jobs = view.state.jobs.values()
        times = [self._due(f) for f in jobs if not f.reported]
        times += [f.back + self.config_of(f.job).running_for for f in jobs if f.reported and f.back]
        return min(times, default=None)

    def _due(self, failed: FailedJob) -> int:
        config: JobFailed.Config = self.config_of(failed.job)
        if failed.planned:
            return failed.at + config.planned_wait
        known = failed.fault is not None and not failed.fault.labelled
        return failed.at + (0 if known else config.stack_wait)

    def _failed(self, view: _View, job: str, name: str) -> None:
        failed, record = view.state.jobs.get(job), view.record()
        if failed is not None:
            # Flink logs the failure twice, and the next run may have the same id.
            if view.time >= failed.ended:
                failed.ended, failed.back = view.time, 0
                append_new(failed.records, record, _MAX_RECORDS)
            return
        fault = view.topology.faults.of_job(view.event.source, job, view.time)
        since = fault.time if fault is not None else view.time
        failed = FailedJob(
            job, name, since, view.time, view.clock, msgspec.structs.replace(fault) if fault else None, [record]
        )
        out = put_bounded(view.state.jobs, job, failed, _MAX_JOBS)
        if out is not None and not out[1].reported and not out[1].planned:
            # So many jobs fail at once that this one cannot wait for its root cause.
            view.report(self._finding(view, out[1]))
        if view.clock >= self._due(failed):
            failed.reported = True
            view.report(self._finding(view, failed))

    def _earlier_runs(self, view: _View, job: str, name: str) -> Iterator[FailedJob]:
        """Failed jobs of which this later job is a new run."""
        for failed in list(view.state.jobs.values()):
            if (failed.job == job or (name and failed.name == name)) and view.time > failed.ended:
                yield failed

    def _run_again(self, view: _View, job: str, name: str, why: str) -> None:
        for failed in self._earlier_runs(view, job, name):
            self._close(view, failed, f"job {name or job} {why}")

    def _close(self, view: _View, failed: FailedJob, why: str) -> None:
        del view.state.jobs[failed.job]
        view.close(self._finding(view, failed), why)

    def _finding(self, view: _View, failed: FailedJob) -> Finding:
        fault, job = failed.fault, failed.job
        attempts = _MAX_ATTEMPTS.search(fault.first) if fault is not None else None
        restarts = ""
        if attempts is not None:
            restarts = f" after {attempts[1]} restarts"
        elif fault is not None and "NoRestart" in fault.first:
            restarts = " (no restart strategy)"
        why = fault.description() if fault is not None else "the log gives no root cause"
        return view.finding(
            job,
            {"job_id": job, "job_name": failed.name or view.topology.job_name(job)},
            since=failed.since,
            severity="critical",
            summary=f"job {failed.name or job} has failed for good{restarts}: {why}",
            confidence="sure" if fault is not None else "fair",
            evidence=failed.records,
            advice=keep_state(job)
            + "Nothing restarts this job, and if it is started without a path it starts with empty state. Remove the "
            "root cause named, then resubmit it from the last completed checkpoint or savepoint (flink run -s PATH). "
            "To prevent it: a restart strategy that outlasts the usual outages, such as exponential-delay, and "
            "retained checkpoints for the case that one is longer.",
        )
