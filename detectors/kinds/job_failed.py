"""A job has failed for good.

Opens when a job reaches the state FAILED (`switched from state FAILING to FAILED`, `reached terminal state FAILED`),
with the root cause, however deep in the stack trace: from the lines before, or from lines that follow within
`stack_wait`. Flink logs all of it at INFO. FINISHED and CANCELED are not failures, and SUSPENDED is the end of a
JobManager. Resolved when a job with that id or name completes a checkpoint or finishes, or has been RUNNING for
`running_for`.

Why it matters: nothing restarts the job. If `restart_loop`, `slots_unavailable` or another finding was open for the job
before, that is the cause. A job that fails because its TaskManagers stop in an orderly way is reported only if the
cluster does not end within `planned_wait`, because scripts stop TaskManagers first.

Reference: Flink, "Task Failure Recovery"; a recording whose root cause is five exceptions deep.
"""

import re
from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.root_causes import RootCause, RootCauses
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_JOBS = 100
_MAX_RECORDS = 4
_MAX_ATTEMPTS = re.compile(r"maxNumberRestartAttempts=(\d+)")


class FailedJob(msgspec.Struct, array_like=True):
    """A failed job: event times at which it began to fail and ended, clock of the end, root cause and records.

    `back` is the clock since which a job of its id or name runs again, `changed` the event time of the last change of
    such a job.
    """

    name: str
    since: int
    ended: int = 0
    at: int = 0
    fault: RootCause | None = None
    records: list[Evidence] = []
    reported: bool = False
    back: int = 0
    changed: int = 0


class JobFailed(Detector):
    """Detects jobs that reach the state FAILED."""

    kind = "job_failed"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [FAILURE, "job_state", "job_ended", "checkpoint_completed", "cluster_ending", "process_signalled"]
    )

    class Config(DetectorConfig):
        """Settings of the detector `job_failed`."""

        stack_wait: Duration = Field(
            2_000, description="Time to wait for the stack trace if no earlier line gives the root cause."
        )
        planned_wait: Duration = Field(
            30_000,
            description="Time to wait for the end of the cluster if its TaskManagers were stopped in an orderly way.",
        )
        running_for: Duration = Field(
            600_000,
            description="Time for which a job without checkpoints must be RUNNING again to resolve the finding.",
        )

    class State(msgspec.Struct, array_like=True):
        """Failed jobs by id, and the latest failures in each source. `over` are event times of the last failures of
        jobs whose failures are over, by id.
        """

        jobs: dict[str, FailedJob] = {}
        faults: RootCauses = msgspec.field(default_factory=RootCauses)
        over: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.event_type:
            case "failure":
                yield from self._explained(state, event, now, topology)
            case "job_state" | "job_ended":
                yield from self._job_changed(state, event, now, topology)
            case "checkpoint_completed":
                job = topology.job_of(event)
                yield from self._ran_again(
                    state, job, topology.job_name(job), now, topology, "completes checkpoints again"
                )
            case _:
                # A signal to one TaskManager does not end the cluster.
                if event.event_type == "cluster_ending" or event.source not in topology.tm_of_source:
                    self._drop_planned(state)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report failures whose wait for a root cause has ended, and close jobs that run again without checkpoints."""
        for job, failed in list(state.jobs.items()):
            if not failed.reported and failed.ended and now >= self._due(failed, job):
                failed.reported = True
                yield self._finding(failed, job, now, topology)
            elif failed.back and now >= failed.back + self.config_of(job).running_for:
                why = f"it has been RUNNING for {humanize(now - failed.back)}"
                yield self._closing(state, job, failed, now, topology, why)

    def next_deadline(self, state: State) -> int | None:
        """When the first wait ends."""
        jobs = state.jobs.items()
        times = [self._due(f, job) for job, f in jobs if not f.reported and f.ended]
        times += [f.back + self.config_of(job).running_for for job, f in jobs if f.reported and f.back]
        return min(times, default=None)

    def _due(self, failed: FailedJob, job: str) -> int:
        config: JobFailed.Config = self.config_of(job)
        if _is_planned(failed):
            return failed.at + config.planned_wait
        return failed.at + (0 if failed.fault is not None else config.stack_wait)

    def _job_changed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job, new = event.fields["job"], event.fields["state"]
        name = event.fields.get("name", "") or topology.job_name(job)
        if new == "FAILED":
            yield from self._failed(state, job, name, event, now, topology)
        if new == "FINISHED":
            yield from self._ran_again(state, job, name, now, topology, "has finished")
        elif event.event_type == "job_state":
            for failed in self._earlier_runs(state, job, name, now).values():
                if now.time > failed.changed:
                    failed.back, failed.changed = now.clock if new == "RUNNING" else 0, now.time

    def _failed(
        self, state: State, job: str, name: str, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        failed = state.jobs.get(job)
        if failed is not None:
            self._failed_again(failed, event, now)
            return
        if now.time <= state.over.get(job, now.time - 1):
            return  # The line was sent again.
        fault = state.faults.of_job(event.source, job, now.time)
        since = fault.time if fault is not None else now.time
        failed = FailedJob(name, since, now.time, now.clock, fault, [evidence(event, now.time)])
        out = put_bounded(state.jobs, job, failed, _MAX_JOBS)
        if out is not None and not out[1].reported and not _is_planned(out[1]):
            # So many jobs fail at once that this one cannot wait for its root cause.
            yield self._finding(out[1], out[0], now.clock, topology)
        if now.clock >= self._due(failed, job):
            failed.reported = True
            yield self._finding(failed, job, now.clock, topology)

    def _failed_again(self, failed: FailedJob, event: LogEvent, now: Now) -> None:
        """Flink logs the failure twice, a shipper may send both lines again, and the next run may have the same id."""
        record = evidence(event, now.time)
        if now.time < failed.ended or any((r.time, r.text) == (record.time, record.text) for r in failed.records):
            return
        failed.ended, failed.back = now.time, 0
        if len(failed.records) < _MAX_RECORDS:
            failed.records.append(record)

    def _explained(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        fault = state.faults.take(event, now.time)
        failed = state.jobs.get(fault.job) if fault is not None else None
        if fault is None or failed is None or event.fields.get("state") != "FAILED":
            return
        before = failed.fault.description() if failed.fault is not None else ""
        # The stack trace is printed up to three times, each time from its outermost throwable.
        if failed.fault is None or failed.fault.id == fault.id:
            failed.fault = fault
        if failed.reported and failed.fault.description() != before:
            yield self._finding(failed, fault.job, now.clock, topology)

    def _drop_planned(self, state: State) -> None:
        for job, failed in list(state.jobs.items()):
            if not failed.reported and _is_planned(failed):
                self._forget(state, job)

    def _forget(self, state: State, job: str) -> None:
        put_bounded(state.over, job, state.jobs.pop(job).ended, _MAX_JOBS)

    def _earlier_runs(self, state: State, job: str, name: str, now: Now) -> dict[str, FailedJob]:
        """Failed jobs of which this later job is a new run."""
        return {j: f for j, f in state.jobs.items() if (j == job or (name and f.name == name)) and now.time > f.ended}

    def _ran_again(
        self, state: State, job: str, name: str, now: Now, topology: Topology, why: str
    ) -> Iterator[Finding]:
        for failed_job, failed in self._earlier_runs(state, job, name, now).items():
            yield self._closing(state, failed_job, failed, now.clock, topology, f"job {name or job} {why}")

    def _closing(self, state: State, job: str, failed: FailedJob, now: int, topology: Topology, why: str) -> Finding:
        self._forget(state, job)
        finding = self._finding(failed, job, now, topology)
        finding.closed_at, finding.closed_because = now, why
        return finding

    def _finding(self, failed: FailedJob, job: str, now: int, topology: Topology) -> Finding:
        fault = failed.fault
        attempts = _MAX_ATTEMPTS.search(fault.first) if fault is not None else None
        restarts = ""
        if attempts is not None:
            restarts = f" after {attempts[1]} restarts"
        elif fault is not None and "NoRestart" in fault.first:
            restarts = " (no restart strategy)"
        why = fault.description() if fault is not None else "the log gives no root cause"
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": failed.name or topology.job_name(job)},
            since=failed.since,
            at=now,
            severity="critical",
            summary=f"job {failed.name or job} has failed for good{restarts}: {why}",
            confidence="sure" if fault is not None else "fair",
            evidence=list(failed.records),
            advice=keep_state(job)
            + "Nothing restarts this job, and if it is started without a path it starts with empty state. Remove the "
            "root cause named, then resubmit it from the last completed checkpoint or savepoint (flink run -s PATH). "
            "For good: retained checkpoints, and a restart strategy that outlasts the usual outages, such as "
            "exponential-delay.",
        )


def _is_planned(failed: FailedJob) -> bool:
    return failed.fault is not None and failed.fault.role == "planned"
