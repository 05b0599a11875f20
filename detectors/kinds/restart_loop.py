"""A job restarts again and again for the same reason.

Opens at the `count`-th restart within `window` with the same root cause, or when four restarts with the same root cause
come at a nearly constant period, however long. The root cause is the deepest cause of the failure that triggered the
restart. Two are the same when class and first user-code frame, or class and message without its variable parts, agree:
subtask, offset and order differ from one restart to the next. Resolved when the job has completed a checkpoint after
`quiet_periods` of its longest recent period without a restart, when it has been RUNNING for `running_for`, or when it
is finished or cancelled. A job that failed for good has to come back first.

Why it matters: the job looks RUNNING in between and makes no progress. Restarts that only follow from something else
are not a loop: a planned stop of a TaskManager (`FlinkExpectedException`), a lost TaskManager (`taskmanager_lost`),
missing slots (`slots_unavailable`). `job_failed` takes over once the restart attempts are used up.

Until Flink 1.9 a region is restarted without any line about the job's state, and the adaptive scheduler cancels instead
of restarting: both are known from `tasks should be restarted`, `Restarting job.` and what follows in the same log.

Reference: Flink, "Task Failure Recovery"; a recording of a poison record, whose restarts get closer (12.9, 9.7, 8.5 s).
"""

from collections.abc import Iterator
from itertools import pairwise

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.root_causes import CONSEQUENCES, RootCause, RootCauses, job_of, same
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_JOBS = 200
_MAX_SOURCES = 50
_MAX_RESTARTS = 12
_MAX_RECORDS = 4
_FAILOVER_MS = 1_000


class Restart(msgspec.Struct, array_like=True):
    """One restart: its event time and the key of its root cause."""

    time: int
    key: tuple[str, str, str]


class RestartHistory(msgspec.Struct, array_like=True):
    """The restarts of one job caused by its own faults. `last` is the event time of its last restart for any reason.

    `open` is the key of the root cause that the open finding is about, `count` its restarts since `since`. `running` is
    the clock since which the job is RUNNING, 0 after a restart. `failed` is its name once it has failed for good.
    """

    restarts: list[Restart] = []
    records: list[Evidence] = []
    last: int = LONG_AGO
    fault: str = ""
    open: tuple[str, str, str] | None = None
    since: int = 0
    count: int = 0
    running: int = 0
    failed: str = ""


class Failover(msgspec.Struct, array_like=True):
    """A line that tasks are to be restarted, which does not name their job."""

    time: int
    at: int
    record: Evidence
    fault: RootCause | None
    cancels: bool = False
    job: str = ""


class RestartLoop(Detector):
    """Detects jobs that restart repeatedly for the same reason."""

    kind = "restart_loop"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            FAILURE,
            "tasks_restarting",
            "job_restarting",
            "job_state",
            "job_restored",
            "job_ended",
            "checkpoint_completed",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `restart_loop`."""

        count: int = Field(
            3,
            ge=2,
            le=_MAX_RESTARTS,
            description="Number of restarts with the same root cause within `window` from which the finding opens.",
        )
        window: Duration = Field(
            600_000,
            description="Time window in which restarts are counted. A single restart takes seconds.",
        )
        period_tolerance: float = Field(
            1.25,
            ge=1.0,
            description="Largest ratio of the longest to the shortest gap at which four restarts count as periodic, "
            "however long the period. Periodic restarts are typical of a leak.",
        )
        quiet_periods: float = Field(
            3.0,
            ge=1.0,
            description="Number of restart periods without a restart after which the finding can be resolved.",
        )
        min_quiet: Duration = Field(
            60_000, description="Minimum time without a restart before the finding can be resolved."
        )
        running_for: Duration = Field(
            600_000, description="Time for which a job without checkpoints must be RUNNING to resolve the finding."
        )
        unnamed_restart_wait: Duration = Field(
            30_000,
            description="Time to wait for the name of the restarted job. Flink 1.9 logs it only after the restart "
            "delay.",
        )

    class State(msgspec.Struct, array_like=True):
        """Restarts by job, failures and failovers by source. `names_job` are sources that log a job's RESTARTING."""

        jobs: dict[str, RestartHistory] = {}
        faults: RootCauses = msgspec.field(default_factory=RootCauses)
        failovers: dict[str, Failover] = {}
        names_job: dict[str, bool] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.event_type:
            case "failure":
                self._failed(state, event, now)
            case "tasks_restarting" | "job_restarting":
                yield from self._failover(state, event, now, topology)
            case "job_restored":
                failover = state.failovers.get(event.source)
                unclaimed = failover is not None and not failover.cancels and event.source not in state.names_job
                if failover is not None and unclaimed and now.time > failover.time:
                    del state.failovers[event.source]
                    yield from self._restarted(state, job_of(event, topology), failover, now, topology)
            case "job_state":
                yield from self._job_state(state, event, now, topology)
            case "job_ended":
                yield from self._job_ended(state, event.fields["job"], event.fields["state"], now, topology)
            case _:
                yield from self._completed(state, topology.job_of(event), now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Count failovers whose job was never named, for the likeliest job, and close loops of jobs that run again."""
        for source, failover in list(state.failovers.items()):
            if now >= failover.at + self.config_of(failover.job).unnamed_restart_wait:
                del state.failovers[source]
                if not failover.cancels and source not in state.names_job:
                    yield from self._restarted(state, failover.job, failover, Now(now, failover.time), topology)
        for job, loop in state.jobs.items():
            if loop.open and loop.running and now >= self._calm(loop, job):
                why = f"it has been RUNNING for {humanize(now - loop.running)}"
                yield self._closing(state, job, loop, now, topology, why)

    def next_deadline(self, state: State) -> int | None:
        """When the wait for the name of a job ends, or a job has been RUNNING for long enough."""
        times = [f.at + self.config_of(f.job).unnamed_restart_wait for f in state.failovers.values()]
        times += [self._calm(loop, job) for job, loop in state.jobs.items() if loop.open and loop.running]
        return min(times, default=None)

    def _calm(self, loop: RestartHistory, job: str) -> int:
        config: RestartLoop.Config = self.config_of(job)
        longest = max(_gaps([r.time for r in loop.restarts][-4:]), default=0)
        return loop.running + max(config.running_for, round(config.quiet_periods * longest))

    def _failed(self, state: State, event: LogEvent, now: Now) -> None:
        fault = state.faults.take(event, now.time)
        failover = state.failovers.get(event.source)
        # `Restarting job.` comes before its own stack trace.
        if fault is not None and failover is not None and event.fields["of"] == "job_restarting":
            failover.fault = fault

    def _failover(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        cancels = event.event_type == "job_restarting"
        known = state.failovers.get(event.source)
        # The line comes once for each failing task, but the job restarts once.
        names_job = event.source in state.names_job
        if known is not None and not names_job and now.time - known.time < _FAILOVER_MS:
            return
        if known is not None and not known.cancels and not names_job:
            yield from self._restarted(state, known.job, known, Now(now.clock, known.time), topology)
        fault = state.faults.before(event.source, now.time, event.fields.get("failed", ""))
        job = "" if cancels else job_of(event, topology)
        failover = Failover(now.time, now.clock, evidence(event, now.time), fault, cancels, job)
        put_bounded(state.failovers, event.source, failover, _MAX_SOURCES)

    def _job_state(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job, new = event.fields["job"], event.fields["state"]
        failover = state.failovers.get(event.source)
        cancelled = failover is not None and failover.cancels and new in ("CANCELLING", "CANCELED", "RESTARTING")
        if new == "RESTARTING" or (cancelled and new == "CANCELLING"):
            if not cancelled:
                put_bounded(state.names_job, event.source, True, _MAX_SOURCES)
            fault = failover.fault if failover is not None else state.faults.before(event.source, now.time)
            state.failovers.pop(event.source, None)
            restart = Failover(now.time, now.clock, evidence(event, now.time), fault)
            yield from self._restarted(state, job, restart, now, topology)
        elif new in ("FINISHED", "FAILED"):
            yield from self._job_ended(state, job, new, now, topology)
        elif new == "RUNNING":
            for _, loop in self._loops(state, job, now, topology):
                loop.running = now.clock

    def _restarted(self, state: State, job: str, failover: Failover, now: Now, topology: Topology) -> Iterator[Finding]:
        loop = state.jobs.get(job)
        if loop is None:
            loop = RestartHistory()
            put_bounded(state.jobs, job, loop, _MAX_JOBS)
        if failover.time <= loop.last:
            return  # The same line again.
        loop.last, loop.running = failover.time, 0
        fault = failover.fault
        if not job or fault is None or fault.role in CONSEQUENCES:
            return
        key = fault.key()
        loop.restarts = [*loop.restarts, Restart(failover.time, key)][-_MAX_RESTARTS:]
        if loop.open is not None and not same(key, loop.open):
            return
        loop.fault = fault.description()
        loop.records = [*loop.records, failover.record][-_MAX_RECORDS:]
        if loop.open is not None:
            loop.count += 1
            yield self._finding(loop, job, now.clock, topology)
        elif times := self._looping(loop, job, key, failover.time):
            loop.open, loop.since, loop.count = key, times[0], len(times)
            yield self._finding(loop, job, now.clock, topology)

    def _looping(self, loop: RestartHistory, job: str, key: tuple[str, str, str], time: int) -> list[int]:
        """Event times of the restarts that make a loop, empty without a loop."""
        config = self.config_of(job)
        times = [r.time for r in loop.restarts if same(r.key, key)]
        recent = [t for t in times if time - t <= config.window]
        if len(recent) >= config.count:
            return recent
        gaps = _gaps(times[-4:])
        return times[-4:] if len(gaps) == 3 and max(gaps) <= config.period_tolerance * min(gaps) else []

    def _loops(self, state: State, job: str, now: Now, topology: Topology) -> list[tuple[str, RestartHistory]]:
        """Loops of this job, or of a failed earlier run with the same name."""
        name = topology.job_name(job)
        return [
            (j, loop)
            for j, loop in state.jobs.items()
            if loop.open and now.time > loop.last and (j == job or (name and loop.failed == name))
        ]

    def _completed(self, state: State, job: str, now: Now, topology: Topology) -> Iterator[Finding]:
        for looping, loop in self._loops(state, job, now, topology):
            calm = now.time - loop.last
            longest = max(_gaps([r.time for r in loop.restarts][-4:]), default=0)
            config = self.config_of(looping)
            enough = max(config.min_quiet, config.quiet_periods * longest)
            if looping != job or loop.failed or calm >= enough:
                why = f"checkpoints complete and the job has not restarted for {humanize(calm)}"
                yield self._closing(state, looping, loop, now.clock, topology, why)

    def _job_ended(self, state: State, job: str, ended: str, now: Now, topology: Topology) -> Iterator[Finding]:
        loop = state.jobs.get(job)
        if ended == "FAILED":
            # The cause of the loop is still there.
            if loop is not None and now.time >= loop.last:
                loop.failed, loop.running = topology.job_name(job) or job, 0
        elif ended in ("FINISHED", "CANCELED"):
            for looping, known in self._loops(state, job, now, topology):
                yield self._closing(state, looping, known, now.clock, topology, f"the job is {ended}")

    def _closing(self, state: State, job: str, loop: RestartHistory, now: int, topology: Topology, why: str) -> Finding:
        finding = self._finding(loop, job, now, topology)
        finding.closed_at, finding.closed_because = now, why
        state.jobs[job] = RestartHistory(last=loop.last)
        return finding

    def _finding(self, loop: RestartHistory, job: str, now: int, topology: Topology) -> Finding:
        times = [r.time for r in loop.restarts if loop.open and same(r.key, loop.open)] or [loop.since]
        gaps = _gaps(times)
        span = times[-1] - loop.since
        first, last = (gaps[0], gaps[-1]) if gaps else (0, 0)
        accelerates = f" (first {humanize(first)} apart, now {humanize(last)})" if first > 1.2 * last else ""
        pace = accelerates or (f" (about every {humanize(sum(gaps) / len(gaps))})" if gaps else "")
        name = topology.job_name(job)
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name},
            since=loop.since,
            at=now,
            severity="critical" if not gaps or max(gaps[-2:]) <= self.config_of(job).window else "warning",
            summary=f"job {name or job} has restarted {loop.count} times in {humanize(span)}{pace}, "
            f"each time with the same root cause: {loop.fault}",
            confidence="sure",
            evidence=list(loop.records),
            advice=keep_state(job)
            + "The job makes no progress while it restarts. Read the root cause and the frame named: a record that "
            "cannot be parsed has to be skipped or sent to a dead-letter topic, an external system has to answer. A "
            "savepoint rarely succeeds while the job restarts, so cancel the job only once its checkpoint is safe, and "
            "start the fixed job from that checkpoint.",
        )


def _gaps(times: list[int]) -> list[int]:
    return [b - a for a, b in pairwise(times)]
