"""A job that restarts again and again for the same reason.

Fires at the `count`-th restart within `window` with the same first fault, or when four restarts with the same fault
come at a nearly constant period, however long. The first fault is the deepest cause of the failure that set the restart
off; two are the same when class and own frame, or class and blurred message agree: subtask, offset and order differ
from one restart to the next. Ends when the job has completed a checkpoint after `quiet_periods` of its longest recent
period without a restart, or been RUNNING for `running_for`, or when it is finished or cancelled; a job that failed for
good must come back.

Why an operator cares: the job looks RUNNING in between and makes no progress. Restarts that are only consequences are
no loop: a planned stop of a TaskManager (`FlinkExpectedException`), a lost one (`taskmanager_lost`), missing slots
(`slots_unavailable`). `job_failed` is the better choice once the restarts are used up.

Until 1.9 a region is restarted without any line of the job's state, the adaptive scheduler cancels instead of
restarting: both are known by `tasks should be restarted`, `Restarting job.` and what follows in the same log.

Reference: Flink, "Task Failure Recovery"; a recording of a poison record, whose loop tightens (12.9, 9.7, 8.5 s).
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
from detectors.values.durations import Duration, humanize

_MAX_JOBS = 200
_MAX_SOURCES = 50
_MAX_RESTARTS = 12
_MAX_RECORDS = 4
_FAILOVER_MS = 1_000
_NEVER = -(1 << 62)


class Restart(msgspec.Struct, array_like=True):
    """One restart: its event time and the key of its first fault."""

    time: int
    key: tuple[str, str, str]


class RestartHistory(msgspec.Struct, array_like=True):
    """Restarts of one job that are faults of its own; `last` is the event time of its last restart of any kind.

    `open` is the key of the fault the open finding is about; `count` its restarts since `since`. `running` is the clock
    at which the job was last RUNNING, 0 since a restart; `failed` its name once it has failed for good.
    """

    restarts: list[Restart] = []
    records: list[Evidence] = []
    last: int = _NEVER
    fault: str = ""
    open: tuple[str, str, str] | None = None
    since: int = 0
    count: int = 0
    running: int = 0
    failed: str = ""


class Failover(msgspec.Struct, array_like=True):
    """Tasks of some job are to be restarted: a line of a source that does not name the job."""

    time: int
    at: int
    record: Evidence
    fault: RootCause | None
    cancels: bool = False
    job: str = ""


class RestartLoop(Detector):
    """See the module."""

    kind = "restart_loop"
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
        """Thresholds of restart_loop."""

        count: int = Field(
            3,
            ge=2,
            le=_MAX_RESTARTS,
            description="Restarts with the same first fault: two may chance.",
        )
        window: Duration = Field(
            600_000,
            description="In which they count together: one restart takes seconds.",
        )
        period_tolerance: float = Field(
            1.25,
            ge=1.0,
            description="Four restarts whose longest gap is at most this multiple of the shortest are a period, "
            "whatever its length: a leak's signature.",
        )
        quiet_periods: float = Field(3.0, ge=1.0, description="Periods without a restart after which the loop is over.")
        min_quiet: Duration = Field(60_000, description="Never over sooner than this.")
        running_for: Duration = Field(600_000, description="RUNNING this long is proof for a job without checkpoints.")
        unnamed_restart_wait: Duration = Field(
            30_000,
            description="Flink 1.9 names the job only when it restores it, after the restart delay: wait this long.",
        )

    class State(msgspec.Struct, array_like=True):
        """Loops by job, failures and failovers by source; `tellers` are sources that log a job's RESTARTING."""

        jobs: dict[str, RestartHistory] = {}
        faults: RootCauses = msgspec.field(default_factory=RootCauses)
        failovers: dict[str, Failover] = {}
        tellers: dict[str, bool] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold one line about a failure, a restart, a job's state or a checkpoint."""
        match event.event_type:
            case "failure":
                self._failed(state, event, now)
            case "tasks_restarting" | "job_restarting":
                yield from self._failover(state, event, now, topology)
            case "job_restored":
                failover = state.failovers.get(event.source)
                unclaimed = failover is not None and not failover.cancels and event.source not in state.tellers
                if failover is not None and unclaimed and now.time > failover.time:
                    del state.failovers[event.source]
                    yield from self._restarted(state, job_of(event, topology), failover, now, topology)
            case "job_state":
                yield from self._job_state(state, event, now, topology)
            case "job_ended":
                yield from self._over(state, event.fields["job"], event.fields["state"], now, topology)
            case _:
                yield from self._completed(state, topology.job_of(event), now, topology)

    def expire(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Failovers no job has claimed: the one that was last named, or the only one. Jobs that run again."""
        for source, failover in list(state.failovers.items()):
            if now >= failover.at + self.config_of(failover.job).unnamed_restart_wait:
                del state.failovers[source]
                if not failover.cancels and source not in state.tellers:
                    yield from self._restarted(state, failover.job, failover, Now(now, failover.time), topology)
        for job, loop in state.jobs.items():
            if loop.open and loop.running and now >= self._calm(loop, job):
                why = f"it has been RUNNING for {humanize(now - loop.running)}"
                yield self._closing(state, job, loop, now, topology, why)

    def due(self, state: State) -> int | None:
        """When the first failover is given to a job all the same, or a job has been RUNNING long enough."""
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
        # `Restarting job.` comes before its own stack.
        if fault is not None and failover is not None and event.fields["of"] == "job_restarting":
            failover.fault = fault

    def _failover(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        cancels = event.event_type == "job_restarting"
        known = state.failovers.get(event.source)
        # Every failing task is told so, though the job restarts once.
        tells = event.source in state.tellers
        if known is not None and not tells and now.time - known.time < _FAILOVER_MS:
            return
        if known is not None and not known.cancels and not tells:
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
                put_bounded(state.tellers, event.source, True, _MAX_SOURCES)
            fault = failover.fault if failover is not None else state.faults.before(event.source, now.time)
            state.failovers.pop(event.source, None)
            restart = Failover(now.time, now.clock, evidence(event, now.time), fault)
            yield from self._restarted(state, job, restart, now, topology)
        elif new in ("FINISHED", "FAILED"):
            yield from self._over(state, job, new, now, topology)
        elif new == "RUNNING":
            for _, loop in self._loops(state, job, now, topology):
                loop.running = now.clock

    def _restarted(self, state: State, job: str, failover: Failover, now: Now, topology: Topology) -> Iterator[Finding]:
        loop = state.jobs.get(job)
        if loop is None:
            loop = RestartHistory()
            put_bounded(state.jobs, job, loop, _MAX_JOBS)
        if failover.time <= loop.last:
            return  # told again
        loop.last, loop.running = failover.time, 0
        fault = failover.fault
        if not job or fault is None or fault.role in CONSEQUENCES:
            return
        key = fault.key()
        loop.restarts = [*loop.restarts, Restart(failover.time, key)][-_MAX_RESTARTS:]
        if loop.open is not None and not same(key, loop.open):
            return
        loop.fault = fault.spoken()
        loop.records = [*loop.records, failover.record][-_MAX_RECORDS:]
        if loop.open is not None:
            loop.count += 1
            yield self._finding(loop, job, now.clock, topology)
        elif times := self._looping(loop, job, key, failover.time):
            loop.open, loop.since, loop.count = key, times[0], len(times)
            yield self._finding(loop, job, now.clock, topology)

    def _looping(self, loop: RestartHistory, job: str, key: tuple[str, str, str], time: int) -> list[int]:
        """Times of the restarts that make a loop, or none."""
        config = self.config_of(job)
        times = [r.time for r in loop.restarts if same(r.key, key)]
        recent = [t for t in times if time - t <= config.window]
        if len(recent) >= config.count:
            return recent
        gaps = _gaps(times[-4:])
        return times[-4:] if len(gaps) == 3 and max(gaps) <= config.period_tolerance * min(gaps) else []

    def _loops(self, state: State, job: str, now: Now, topology: Topology) -> list[tuple[str, RestartHistory]]:
        """Loops of this job, or of a failed one of its name that it is the return of."""
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
                why = f"checkpoints complete and it has not restarted for {humanize(calm)}"
                yield self._closing(state, looping, loop, now.clock, topology, why)

    def _over(self, state: State, job: str, ended: str, now: Now, topology: Topology) -> Iterator[Finding]:
        loop = state.jobs.get(job)
        if ended == "FAILED":
            # What was wrong still is.
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
        took = times[-1] - loop.since
        first, last = (gaps[0], gaps[-1]) if gaps else (0, 0)
        tightens = f", first {humanize(first)} and now {humanize(last)} apart" if first > 1.2 * last else ""
        pace = tightens or (f", about every {humanize(sum(gaps) / len(gaps))}" if gaps else "")
        name = topology.job_name(job)
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name},
            since=loop.since,
            at=now,
            severity="critical" if not gaps or max(gaps[-2:]) <= self.config_of(job).window else "warning",
            summary=f"job {name or job} has restarted {loop.count} times in {humanize(took)}{pace}, "
            f"each time after the same fault: {loop.fault}",
            confidence="sure",
            evidence=list(loop.records),
            advice=keep_state(job)
            + "The job makes no progress while it restarts. Read the root exception and the frame named: a record that "
            "cannot be read has to be skipped or sent aside, an external system has to answer. A savepoint hardly "
            "succeeds while the job restarts, so cancel it only once its checkpoint is safe, and start the fixed job "
            "from there.",
        )


def _gaps(times: list[int]) -> list[int]:
    return [b - a for a, b in pairwise(times)]
