"""The jobs and TaskManagers of one cluster, and which subtask runs where.

Updated once for each event, before the detectors, which only read it. Every map is bounded: the oldest entry goes.
"""

from functools import lru_cache
from zlib import crc32

import msgspec

from detectors.events.event import LogEvent, Sample
from detectors.events.names import container_in, filtered
from detectors.events.sent_again import AGAIN_MS, checksum
from detectors.events.vocabulary import flink_events
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.checkpointing.restore_points import RestorePoints
from detectors.flink.execution_graphs import ExecutionGraphs
from detectors.flink.facts import (
    ApplicationMasterExpired,
    CheckpointCompleted,
    CheckpointDirectorySet,
    CheckpointFailed,
    CheckpointsStopped,
    CheckpointStorageSet,
    CheckpointTimeoutSet,
    CheckpointTriggered,
    ClusterEnding,
    Configured,
    Fact,
    Failure,
    JobFailureReported,
    JobInitializing,
    JobManagerFatal,
    JobManagerFound,
    JobManagerMissed,
    JobManagerUnresolved,
    JobRestored,
    JobStateChanged,
    LeadershipGranted,
    NodeExpired,
    ProcessSignalled,
    ProcessStarted,
    RegistrationTimedOut,
    SessionTimeout,
    TaskDeploying,
    TaskManagerRegistered,
    TaskManagerStarted,
    TaskStateChanged,
)
from detectors.flink.flink_settings import CHECKPOINT_TIMEOUT, FlinkSettings
from detectors.flink.job_states import ACTIVE
from detectors.flink.processes.dying_processes import DyingProcesses
from detectors.flink.processes.witnesses import Witnesses
from detectors.flink.root_causes import RootCauses
from detectors.flink.throttling.cpu_throttling import THROTTLING, CpuThrottling
from detectors.flink.throttling.write_stalls import WRITES, WriteStalls
from detectors.flink.timeouts import Timeouts
from detectors.incident import RestorePoint, evidence
from detectors.values.bounded import put_bounded, setdefault_bounded, to_int
from detectors.values.durations import flink_duration

_MAX_JOBS = 200
_MAX_TMS = 400
_MAX_SOURCES = 500
_MAX_ATTEMPTS = 600
# Entries last seen longer ago may be gone, so dropping them for newer ones costs nothing.
_ALIVE_MS = 600_000
_MAX_RECENT = 500
# The line and the event of one change of a job have the same clock.
_SAME_CHANGE_MS = 1_000
_SKEWED = 1.2
_OF_JOBMANAGERS = (
    ClusterEnding,
    JobInitializing,
    JobManagerFatal,
    JobStateChanged,
    LeadershipGranted,
    TaskManagerRegistered,
)
_RESTARTED = frozenset({"RESTARTING", "FAILING", "SUSPENDED", "INITIALIZING"})


class Job(msgspec.Struct, array_like=True):
    """A job as its JobManager logs it. `state` is Flink's state, empty before the first; `since` when it started."""

    name: str = ""
    state: str = ""
    since: int = 0


class TaskManager(msgspec.Struct, array_like=True):
    """A TaskManager: its host, and the event time at which it first registered (0: not seen)."""

    host: str = ""
    registered: int = 0


class Subtask(msgspec.Struct, array_like=True):
    """One attempt of one subtask, and where it runs if its deployment or its TaskManager's log shows it."""

    task: str
    index: int
    tm: str = ""
    host: str = ""


class InputRate(msgspec.Struct, array_like=True):
    """Records read by one job on one TaskManager: last sum, its event time, and records per hour (-1: unknown)."""

    sum: int
    time: int
    rate: int = -1


class Topology(msgspec.Struct, array_like=True):
    """The topology of one cluster.

    `job_of_source` is the last job that a JobManager's log named, `named_at` the event time of that line: Flink ≤ 1.8
    names none in checkpoint lines. `intake` is by job and a number for the TaskManager, because the TaskManagers'
    names, repeated for each job, were most of the state of a large session cluster. `names` holds names of jobs from
    metrics, for jobs that no log has named. `cut` counts live jobs and TaskManagers that were dropped to make room for
    others. `masters` are the hosts of the sources that are JobManagers. `stalls` are those of RocksDB, by job,
    `throttling` is that of all containers.
    """

    version: str = ""
    jobs: dict[str, Job] = {}
    job_of_source: dict[str, str] = {}
    tms: dict[str, TaskManager] = {}
    tm_of_source: dict[str, str] = {}
    attempts: dict[str, Subtask] = {}
    placements: dict[str, tuple[str, str]] = {}
    intake: dict[str, dict[int, InputRate]] = {}
    names: dict[str, str] = {}
    checkpoints: dict[str, JobCheckpoints] = {}
    faults: RootCauses = msgspec.field(default_factory=RootCauses)
    timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
    cut: dict[str, int] = {}
    named_at: dict[str, int] = {}
    recent: dict[int, int] = {}
    dying: DyingProcesses = msgspec.field(default_factory=DyingProcesses)
    masters: dict[str, str] = {}
    witnesses: Witnesses = msgspec.field(default_factory=Witnesses)
    stalls: dict[str, WriteStalls] = {}
    graphs: ExecutionGraphs = msgspec.field(default_factory=ExecutionGraphs)
    throttling: CpuThrottling = msgspec.field(default_factory=CpuThrottling)
    settings: FlinkSettings = msgspec.field(default_factory=FlinkSettings)
    restores: RestorePoints = msgspec.field(default_factory=RestorePoints)

    def update(self, event: LogEvent, fact: Fact, clock: int, time: int) -> Fact | None:
        """Fold one line, whose event time is `time`. Returns what is new in it, None if it was sent again."""
        job = event.fields.get("job")
        # Threads overtake each other by less than a second; larger steps back are corrections of a time zone.
        if job is not None and not 1_000 <= self.named_at.get(event.source, time) - time < AGAIN_MS:
            put_bounded(self.job_of_source, event.source, job, _MAX_SOURCES)
            put_bounded(self.named_at, event.source, time, _MAX_SOURCES)
        if isinstance(fact, CheckpointTriggered | CheckpointCompleted | CheckpointFailed):
            self.witnesses.leads(time)
            return self._checkpoint(event, fact, clock, time)
        if not isinstance(fact, Failure) and event.local_time >= 0 and self._sent_again(event):
            return None
        if isinstance(fact, JobStateChanged) and self._stated_before(event, fact, time):
            return None
        self._about_jobs(event, fact, time)
        self._about_processes(event, fact, time)
        if isinstance(fact, CheckpointDirectorySet | CheckpointStorageSet | JobRestored):
            self.restores.take(self.job_of(event), fact, time)
        self.dying.take(event.source, fact, time)
        self.graphs.take(event.source, fact, time)
        if isinstance(fact, _OF_JOBMANAGERS) and event.source not in self.masters:
            put_bounded(self.masters, event.source, event.host, _MAX_SOURCES)
        looks = isinstance(fact, JobManagerFound | JobManagerMissed | JobManagerUnresolved)
        tm = self.tm_of_process(event.source, event.host if looks else "")
        self.witnesses.take(event.source, tm, event.source in self.masters, fact, time)
        if isinstance(fact, ProcessSignalled | ClusterEnding):
            fact = msgspec.structs.replace(fact, how=self.dying.how_ended(event.source, time))
        if isinstance(fact, ProcessSignalled):
            return msgspec.structs.replace(fact, tms=self._ended_by_signal(event))
        return fact

    def _sent_again(self, event: LogEvent) -> bool:
        """Whether the source has written the same line at the same time shortly before."""
        line = checksum(event)
        before = self.recent.pop(line, None)
        put_bounded(self.recent, line, event.timestamp, _MAX_RECENT)
        return before is not None and abs(event.timestamp - before) <= AGAIN_MS

    def _stated_before(self, event: LogEvent, fact: JobStateChanged, time: int) -> bool:
        """Whether both Flink's log and its event reporter state a change, and this is the second of them."""
        own, other = (crc32(f"{fact.job} {fact.state} {by}".encode()) for by in ("log", "event"))
        if event.text.startswith(flink_events.JOB_STATE):
            own, other = other, own
        put_bounded(self.recent, own, time, _MAX_RECENT)
        before = self.recent.get(other)
        return before is not None and abs(time - before) <= _SAME_CHANGE_MS

    def _about_jobs(self, event: LogEvent, fact: Fact, time: int) -> None:
        match fact:
            case TaskStateChanged():
                self._task_state(event.source, fact)
            case TaskDeploying():
                self._deploying(fact, time)
            case JobStateChanged():
                self._job_state(fact, time)
            case JobInitializing() if fact.job not in self.jobs:
                self._keep(fact.job, Job(fact.name, "", time), time)
            case JobRestored() | CheckpointsStopped():
                known = self.checkpoints.get(self.job_of(event))
                if known is not None:
                    known.restart(time, restored=isinstance(fact, JobRestored))
            case ClusterEnding():
                for known in self.checkpoints.values():
                    known.in_progress.clear()
            case Failure():
                self.faults.take(event.source, fact, time)
            case JobFailureReported():
                self.faults.report(event.source, fact, time)

    def _about_processes(self, event: LogEvent, fact: Fact, time: int) -> None:
        match fact:
            case TaskManagerRegistered():
                self._know(fact.tm, fact.host, time)
                self.tms[fact.tm].registered = self.tms[fact.tm].registered or time
            case TaskManagerStarted():
                put_bounded(self.tm_of_source, event.source, fact.tm, _MAX_SOURCES)
                self._know(fact.tm, event.host, time)
            case ProcessStarted():
                self._started(event.source, fact)
                self.settings.start(time)
            case Configured() | SessionTimeout() | RegistrationTimedOut() | ApplicationMasterExpired() | NodeExpired():
                self.timeouts.learn(fact)
        if isinstance(fact, CheckpointTimeoutSet):
            before = flink_duration(self.settings.values.get(CHECKPOINT_TIMEOUT, ""))
            for known in self.checkpoints.values():
                known.timeout_set(before, flink_duration(fact.value))
        if isinstance(fact, Configured | CheckpointTimeoutSet):
            self.settings.learn(fact)

    def restore_point(self, job: str) -> RestorePoint | None:
        """From what a job can be restored; None if it is not known, or if there is no job."""
        return self.restores.newest(job, self.settings.retains_checkpoints())

    def _checkpoint(
        self, event: LogEvent, fact: CheckpointTriggered | CheckpointCompleted | CheckpointFailed, clock: int, time: int
    ) -> Fact | None:
        job = self.job_of(event)
        known = setdefault_bounded(self.checkpoints, job, JobCheckpoints(), _MAX_JOBS)
        # A late line is taken as if it had come when it was written (`late_lines.py`).
        if clock >= event.timestamp:
            known.shipped(event.timestamp - time)
        match fact:
            case CheckpointTriggered():
                return known.trigger(fact, clock, evidence(event, time))
            case CheckpointCompleted():
                new = known.complete(fact, time, event.text.startswith(flink_events.CHECKPOINT))
                self.restores.take(job, new, time)
                return new
            case CheckpointFailed():
                return known.fail(fact, time)

    def measure(self, samples: dict[str, list[Sample]], time: int) -> bool:
        """Take in one record's samples, by name, taken at `time`. Returns whether the name of a job has changed."""
        named = [self._named(s) for name in ("completed_checkpoints", "records_in") for s in samples.get(name, ())]
        for sample in samples.get("checkpoints_in_progress", ()):
            checkpoints = self.checkpoints.get(sample.labels.get("job_id", ""))
            if checkpoints is not None:
                checkpoints.measure(sample.value, time)
        if samples.get("jm_heap_used"):
            self.witnesses.leads(time)
        if self.witnesses.missing and (used := samples.get("heap_used")):
            self.witnesses.measured(used, time)
        for name in THROTTLING:
            for sample in samples.get(name, ()):
                self.throttling.take(sample, time)
        for name in WRITES:
            for sample in samples.get(name, ()):
                job = sample.labels.get("job_id", "")
                setdefault_bounded(self.stalls, job, WriteStalls(), _MAX_JOBS).take(sample, time)
        sums: dict[tuple[str, int], float] = {}
        for sample in samples.get("records_in", ()):
            tm = sample.labels.get("tm_id")
            if tm is not None:
                key = (sample.labels.get("job_id", ""), _number(tm))
                sums[key] = sums.get(key, 0.0) + sample.value
        for (job, number), total in sums.items():
            self._measured(job, number, to_int(total), time)
        return any(named)

    def job_of(self, event: LogEvent) -> str:
        """Id of the job that a checkpoint line is about.

        If no line of the source has ever named a job, it is the only job with metrics, else a name made of the source.
        """
        only = next(iter(self.names)) if len(self.names) == 1 else f"source:{event.source}"
        return event.fields.get("job") or self.job_of_source.get(event.source) or only

    def job_of_failure(self, event: LogEvent) -> str:
        """The job that a JobManager's line is about, or the empty string, also for a TaskManager's line."""
        if event.fields.get("job"):
            return event.fields["job"]
        if event.source in self.tm_of_source:
            return ""
        own = self.graphs.job_of(event.fields.get("attempt") or event.fields.get("failed", ""))
        return own or self.job_of_source.get(event.source) or self.only_job()[0]

    def job_name(self, job: str) -> str:
        known = self.jobs.get(job)
        return (known.name if known else "") or self.names.get(job, "")

    def only_job(self) -> tuple[str, str]:
        """(ID, name) of the only active job; empty if there is none or more than one."""
        active = [(job, known.name) for job, known in self.jobs.items() if known.state in ACTIVE]
        return active[0] if len(active) == 1 else ("", "")

    def tm_of(self, event: LogEvent) -> tuple[str, str]:
        """(TaskManager id, host) of the process that wrote the line. The host is known even if the id is not."""
        tm = self.tm_of_source.get(event.source, "")
        return tm, self.host_of(tm) or event.host

    def tm_of_process(self, source: str, host: str) -> str:
        """Id of the TaskManager that is a process; of one whose start was not seen only if it is alone on its host."""
        known = self.tm_of_source.get(source, "")
        if known or not host or source in self.masters:
            return known
        here = [tm for tm, at in self.tms.items() if at.host == host]
        return here[0] if len(here) == 1 else ""

    def place_of(self, attempt: str) -> tuple[str, str, str]:
        """(task and subtask as Flink prints it, TaskManager id, host) of an attempt; empty strings if unknown."""
        subtask = self.attempts.get(attempt)
        if subtask is None:
            return "", "", ""
        tm, host = subtask.tm, subtask.host
        if not tm and not host:
            tm, host = self.placements.get(f"{subtask.task}|{subtask.index}", ("", ""))
        return f"{subtask.task} ({subtask.index})", tm, host or self.host_of(tm)

    def tm_of_label(self, label: str) -> str:
        """The TaskManager's id as written in logs, of its label in metrics; the label itself if logs do not name it."""
        return next((tm for tm in self.tms if label and filtered(tm) == filtered(label)), label)

    def tms_by_label(self) -> dict[str, str]:
        """The ids of all TaskManagers as written in logs, by their labels in metrics."""
        return {filtered(tm): tm for tm in self.tms}

    def host_of(self, tm: str) -> str:
        known = self.tms.get(tm)
        return known.host if known else ""

    def input_rate(self, job: str) -> float:
        """Records per hour that a job reads, -1 if metrics do not show it."""
        rates = [i.rate for i in self.intake.get(job, {}).values()]
        return float(sum(rates)) if rates and min(rates) >= 0 else -1.0

    def may_run(self, job: str, tm: str) -> bool:
        """False only when metrics show this TaskManager at work for other jobs and not for this one."""
        number = _number(tm)
        return number in self.intake.get(job, {}) or not any(number in tms for tms in self.intake.values())

    def skew(self, job: str, tm: str) -> tuple[float, float] | None:
        """(share of the job's input read on this TaskManager, its fair share), 0..1, if the first is clearly larger."""
        rates = {k: v.rate for k, v in self.intake.get(job, {}).items() if v.rate >= 0}
        total, mine = sum(rates.values()), rates.get(_number(tm)) if tm else None
        if mine is None or total <= 0 or len(rates) < 2 or mine / total <= _SKEWED / len(rates):
            return None
        return mine / total, 1 / len(rates)

    def _ended_by_signal(self, event: LogEvent) -> tuple[str, ...]:
        """The TaskManagers that a signal ends: the one that got it, or those of its host; none otherwise."""
        tm = self.tm_of_source.get(event.source)
        return (tm,) if tm else tuple(t for t, known in self.tms.items() if known.host and known.host == event.host)

    def _named(self, sample: Sample) -> bool:
        job, name = sample.labels.get("job_id", ""), sample.labels.get("job_name", "")
        if not job or not name or job in self.names:
            return False
        put_bounded(self.names, job, name, _MAX_JOBS)
        return self.job_name(job) == name

    def _measured(self, job: str, tm: int, total: int, time: int) -> None:
        tms = self.intake.get(job)
        if tms is None:
            tms = {}
            out = put_bounded(self.intake, job, tms, _MAX_JOBS)
            if out is not None and any(time - rate.time < _ALIVE_MS for rate in out[1].values()):
                self._count("jobs")
        last = tms.get(tm)
        if last is not None and (time < last.time or (time == last.time and total == last.sum)):
            return
        # With one record for each sample (Telegraf without batches) a sum covers only part of a scrape: no rate then.
        if last is None or total < last.sum or time == last.time:
            least = put_bounded(tms, tm, InputRate(total, time), _MAX_TMS)
            if least is not None and time - least[1].time < _ALIVE_MS:
                self._count("taskmanagers")
        elif time - last.time >= 1000:
            tms[tm] = InputRate(total, time, round((total - last.sum) * 3_600_000 / (time - last.time)))

    def _started(self, source: str, fact: ProcessStarted) -> None:
        self.version = fact.version
        container = container_in(source)
        if "TaskManager" in fact.what and "JobManager" not in fact.what and container:
            put_bounded(self.tm_of_source, source, container, _MAX_SOURCES)

    def _job_state(self, fact: JobStateChanged, time: int) -> None:
        known = self.jobs.get(fact.job)
        self._keep(fact.job, Job(fact.name or (known.name if known else ""), fact.state, time), time)
        if (checkpoints := self.checkpoints.get(fact.job)) is not None:
            checkpoints.restart(time, restored=fact.state in _RESTARTED)

    def _keep(self, job: str, known: Job, time: int) -> None:
        out = put_bounded(self.jobs, job, known, _MAX_JOBS)
        if out is not None and not _ended(out[1], time):
            self._count("jobs")

    def _deploying(self, fact: TaskDeploying, time: int) -> None:
        if fact.tm:
            self._know(fact.tm, fact.host, time)
        # Until 1.12 the line names no attempt, but the line before does, and jobs may share names of tasks. Later
        # versions name the TaskManager wherever it is needed.
        if fact.attempt:
            return
        index, task = fact.subtask, fact.task
        attempt = next((a for a in reversed(self.attempts.values()) if a.index == index and a.task == task), None)
        if attempt is not None:
            attempt.tm, attempt.host = fact.tm or attempt.tm, fact.host
            return
        put_bounded(self.placements, f"{task}|{index}", (fact.tm, fact.host), _MAX_ATTEMPTS)

    def _task_state(self, source: str, fact: TaskStateChanged) -> None:
        # Since 1.16 an attempt id contains its vertex and subtask, and late acks name the TaskManager.
        if "_" in fact.attempt:
            return
        known = setdefault_bounded(self.attempts, fact.attempt, Subtask(fact.task, fact.subtask), _MAX_ATTEMPTS)
        if source in self.tm_of_source:
            known.tm = self.tm_of_source[source]

    def _know(self, tm: str, host: str, time: int) -> None:
        known = self.tms.get(tm)
        if known is None:
            out = put_bounded(self.tms, tm, TaskManager(host), _MAX_TMS)
            if out is not None and self._alive(*out, time):
                self._count("taskmanagers")
        elif host:
            known.host = host

    def _alive(self, tm: str, known: TaskManager, time: int) -> bool:
        """Whether a TaskManager registered or sent metrics a short time ago."""
        last_seen = [tms[_number(tm)].time for tms in self.intake.values() if _number(tm) in tms]
        return time - max([known.registered, *last_seen]) < _ALIVE_MS

    def _count(self, what: str) -> None:
        self.cut[what] = self.cut.get(what, 0) + 1


def _ended(job: Job, time: int) -> bool:
    """Whether a job has ended. A failed job counts only after a while: many may have failed at once."""
    return job.state in {"FINISHED", "CANCELED"} or (job.state == "FAILED" and time - job.since >= _ALIVE_MS)


@lru_cache(maxsize=16_384)
def _number(tm: str) -> int:
    """Hash a TaskManager id of logs or metrics to four bytes. Among 400 ids, 1 in 50,000 clusters has a collision."""
    return crc32(filtered(tm).encode())
