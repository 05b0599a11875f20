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

Reference: Flink, "Task Failure Recovery"; a recording of a poison record, whose restarts get closer (12.9, 9.7, 8.5 s).
"""

from itertools import pairwise
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobView, View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Fact, Failure
from detectors.flink.restarts import Failover, Failovers
from detectors.flink.root_causes import CONSEQUENCES, same
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_RESTARTS = 12
_MAX_RECORDS = 4

_Job: TypeAlias = "JobView[RestartLoop.Config, RestartLoop.State, RestartHistory]"
_View: TypeAlias = "View[RestartLoop.Config, RestartLoop.State]"


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

    def longest(self) -> int:
        """The longest of the last gaps between restarts in ms."""
        return max(_gaps([r.time for r in self.restarts][-4:]), default=0)


class RestartLoop(JobDetector):
    """Detects jobs that restart repeatedly for the same reason."""

    kind = "restart_loop"
    Job = RestartHistory

    class Config(DetectorConfig):
        """Settings of the detector `restart_loop`."""

        count: int = threshold(
            3,
            "Number of restarts with the same root cause within `window` from which the finding opens.",
            ge=2,
            le=_MAX_RESTARTS,
        )
        window: Duration = threshold(
            600_000, "Time window in which restarts are counted. A single restart takes seconds."
        )
        period_tolerance: float = threshold(
            1.25,
            "Largest ratio of the longest to the shortest gap at which four restarts count as periodic, however long "
            "the period. Periodic restarts are typical of a leak.",
            ge=1.0,
        )
        quiet_periods: float = threshold(
            3.0, "Number of restart periods without a restart after which the finding can be resolved.", ge=1.0
        )
        min_quiet: Duration = threshold(60_000, "Minimum time without a restart before the finding can be resolved.")
        running_for: Duration = threshold(
            600_000, "Time for which a job without checkpoints must be RUNNING to resolve the finding."
        )
        unnamed_restart_wait: Duration = threshold(
            30_000, "Time to wait for the name of the restarted job. Flink 1.9 logs it only after the restart delay."
        )

    class State(msgspec.Struct, array_like=True):
        """Restarts by job, and failovers."""

        jobs: dict[str, RestartHistory] = {}
        failovers: Failovers = msgspec.field(default_factory=Failovers)

    @on(Failure, job="none")
    def failed(self, view: _View, fact: Failure) -> None:
        """`Restarting job.` comes before its own stack trace."""
        failover = view.state.failovers.waiting.get(view.event.source)
        if failover is not None and fact.of == "job_restarting":
            failover.fault = msgspec.structs.replace(view.topology.faults.of(view.event.source, fact))

    @on(facts.TasksRestarting, facts.JobRestarting, job="none")
    def failover(self, view: _View, fact: facts.TasksRestarting | facts.JobRestarting) -> None:
        source, failovers = view.event.source, view.state.failovers
        if failovers.repeated(source, view.time):
            return
        cancels = isinstance(fact, facts.JobRestarting)
        attempt = fact.failed if isinstance(fact, facts.TasksRestarting) else ""
        fault = view.topology.faults.before(source, view.time, attempt)
        job = "" if cancels else view.topology.job_of_failure(view.line)
        before = failovers.begin(source, Failover(view.time, view.clock, view.record(), fault, cancels, job))
        if before is not None:
            self._restarted(view, before.job, before)

    @on(facts.JobFailureReported, job="none")
    def reported(self, view: _View, fact: facts.JobFailureReported) -> None:
        """An event of a failure shows a restart if no line about the job's state follows."""
        if not fact.restarts:
            return
        fault = view.topology.faults.of_job(view.event.source, fact.job, view.time)
        failover = Failover(view.time, view.clock, view.record(), fault, job=fact.job)
        before = view.state.failovers.begin(fact.job, failover)
        if before is not None:
            self._restarted(view, before.job, before)

    @on(facts.SubtasksStatusChanged, job="none", needs="jobs")
    def subtasks_changed(self, view: _View, fact: facts.SubtasksStatusChanged) -> None:
        for job in self._loops(view, fact.job):
            job.own.running = view.clock if fact.all_run else 0

    @on(facts.JobRestored, job="none")
    def restored(self, view: _View, _: Fact) -> None:
        failover = view.state.failovers.restored(view.event.source, view.time)
        if failover is not None:
            self._restarted(view, view.topology.job_of_failure(view.line), failover)

    @on(facts.JobStateChanged, job="none")
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        source, failovers = view.event.source, view.state.failovers
        if failovers.restarting(source, fact):
            failover = failovers.waiting.pop(source, None)
            fault = failover.fault if failover is not None else view.topology.faults.before(source, view.time)
            self._restarted(view, fact.job, Failover(view.time, view.clock, view.record(), fault))
        elif fact.state == "FAILED":
            # The cause of the loop is still there.
            if (job := self.job(view, fact.job)) is not None and view.time >= job.own.last:
                job.own.failed, job.own.running = job.label, 0
        elif fact.state == "FINISHED" or (fact.state == "CANCELED" and not fact.before):
            for job in self._loops(view, fact.job):
                self._close(job, f"the job is {fact.state}")
        elif fact.state == "RUNNING":
            for job in self._loops(view, fact.job):
                job.own.running = view.clock

    @on(facts.CheckpointCompleted, job="none", needs="jobs")
    def completed(self, view: _View, _: Fact) -> None:
        job_id = view.job
        for job in self._loops(view, job_id):
            calm = view.time - job.own.last
            enough = max(job.config.min_quiet, job.config.quiet_periods * job.own.longest())
            if job.id != job_id or job.own.failed or calm >= enough:
                self._close(job, f"checkpoints complete and the job has not restarted for {humanize(calm)}")

    def on_deadline(self, view: _View) -> None:
        """Count failovers whose job was never named, for the likeliest job, and close loops of jobs that run again."""
        for failover in view.state.failovers.unnamed(lambda f: view.clock >= self._named_by(f)):
            self._restarted(view, failover.job, failover)
        for job in self.jobs(view):
            if job.own.open and job.own.running and job.clock >= self._calm(job):
                self._close(job, f"it has been RUNNING for {humanize(job.clock - job.own.running)}")

    def next_deadline(self, view: _View) -> int | None:
        """When the wait for the name of a job ends, or a job has been RUNNING for long enough."""
        times = [self._named_by(f) for f in view.state.failovers.waiting.values()]
        times += [self._calm(job) for job in self.jobs(view) if job.own.open and job.own.running]
        return min(times, default=None)

    def _named_by(self, failover: Failover) -> int:
        config: RestartLoop.Config = self.config_of(failover.job)
        return failover.at + config.unnamed_restart_wait

    def _calm(self, job: _Job) -> int:
        return job.own.running + max(job.config.running_for, round(job.config.quiet_periods * job.own.longest()))

    def _restarted(self, view: _View, job_id: str, failover: Failover) -> None:
        job = self.new_job(view, job_id)
        own = job.own
        if failover.time <= own.last:
            return  # The same line again.
        own.last, own.running = failover.time, 0
        fault = failover.fault
        if not job_id or fault is None or fault.role in CONSEQUENCES:
            return
        key = fault.key()
        own.restarts = [*own.restarts, Restart(failover.time, key)][-_MAX_RESTARTS:]
        if own.open is not None and not same(key, own.open):
            return
        own.fault = fault.description()
        own.records = [*own.records, failover.record][-_MAX_RECORDS:]
        if own.open is not None:
            own.count += 1
            job.report(self._finding(job))
        elif times := self._looping(job, key, failover.time):
            own.open, own.since, own.count = key, times[0], len(times)
            job.report(self._finding(job))

    def _looping(self, job: _Job, key: tuple[str, str, str], time: int) -> list[int]:
        """Event times of the restarts that make a loop, empty without a loop."""
        times = [r.time for r in job.own.restarts if same(r.key, key)]
        recent = [t for t in times if time - t <= job.config.window]
        if len(recent) >= job.config.count:
            return recent
        gaps = _gaps(times[-4:])
        return times[-4:] if len(gaps) == 3 and max(gaps) <= job.config.period_tolerance * min(gaps) else []

    def _loops(self, view: _View, job_id: str) -> list[_Job]:
        """Loops of this job, or of a failed earlier run with the same name."""
        if not any(known.open for known in view.state.jobs.values()):
            return []
        name = view.topology.job_name(job_id)
        return [
            job
            for job in self.jobs(view)
            if job.own.open and view.time > job.own.last and (job.id == job_id or (name and job.own.failed == name))
        ]

    def _close(self, job: _Job, why: str) -> None:
        job.close(self._finding(job), why)
        job.state.jobs[job.id] = RestartHistory(last=job.own.last)

    def _finding(self, job: _Job) -> Finding:
        own = job.own
        times = [r.time for r in own.restarts if own.open and same(r.key, own.open)] or [own.since]
        gaps = _gaps(times)
        first, last = (gaps[0], gaps[-1]) if gaps else (0, 0)
        accelerates = f" (first {humanize(first)} apart, now {humanize(last)})" if first > 1.2 * last else ""
        pace = accelerates or (f" (about every {humanize(sum(gaps) / len(gaps))})" if gaps else "")
        return job.finding(
            job.id,
            job.entity(),
            since=own.since,
            severity="critical" if not gaps or max(gaps[-2:]) <= job.config.window else "warning",
            summary=f"job {job.label} has restarted {own.count} times in {humanize(times[-1] - own.since)}{pace}, "
            f"each time with the same root cause: {own.fault}",
            evidence=own.records,
            advice=keep_state(job.id)
            + "The job makes no progress while it restarts. Remove the root cause above: a record that cannot be "
            "parsed has to be skipped or sent to a dead-letter topic, an external system must be reachable again. A "
            "savepoint rarely succeeds while the job restarts, so cancel the job only once its checkpoint is safe, and "
            "start the fixed job from that checkpoint.",
        )


def _gaps(times: list[int]) -> list[int]:
    return [b - a for a, b in pairwise(times)]
