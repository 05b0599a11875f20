"""An operator is slower than its input, and checkpoints may suffer from it.

Opens as info when a subtask is busy nearly all the time for at least `min_duration` while the tasks before it wait:
another task of the job is backpressured, or the subtask's own input buffers are full. Becomes a warning when
`min_slow_checkpoints` checkpoints in a row take more than `slow_checkpoint_factor` × the job's usual duration: barriers
then wait behind data, and the finding names the slow operator. Where Flink has no busyTime (before 1.13, legacy
sources), full input buffers are used instead.

Not reported: a busy source (it reads as fast as it can); the first moments after a start (every task then has busyTime
1000, but nothing waits); slow checkpoints while a restarted job catches up; slow checkpoints without a slow operator,
which `checkpoint_duration_creep` covers. `late_barrier_acks` is more precise once a checkpoint has expired. Resolved
when the job's checkpoints are as fast as usual again or, while it is info, when the operator is no longer busy.

Why it matters: with backpressure the job falls behind its input, and an aligned checkpoint takes as long as the queues
before the slow operator. Reference: Flink, "Monitoring Back Pressure" and "Checkpointing under backpressure".
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent, Sample
from detectors.flink.checkpoint_durations import CheckpointAttempts
from detectors.flink.job_states import ENDING, RESTARTING
from detectors.flink.task_load import BusySubtask, TaskLoad, measured, place, skew
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading, Series
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_JOBS = 200
_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_HISTORY = 16
_RECORDS = 3
_PEAK_MS = 30_000


class OpenBackpressure(msgspec.Struct, array_like=True):
    """The open finding: event time of its start, task, location, measurements in words, and evidence."""

    since: int
    task_id: str
    task: str
    tm: str
    host: str
    measured: str
    records: list[Evidence]
    slows_checkpoints: bool = False


class JobLoad(msgspec.Struct, array_like=True):
    """The load and the checkpoints of one job.

    `usual` holds the durations (ms) of checkpoints that were not slow, `points` the latest of all as (s, ms). `peak` is
    the busiest subtask of this window and of the previous one: [start of the window, ms/s, ms/s].
    """

    tasks: dict[str, TaskLoad] = {}
    usual: list[int] = []
    points: list[tuple[int, int]] = []
    last_number: int = -1
    savepoints: list[int] = []
    slow: list[Evidence] = []
    healthy: int = 0
    by_log: bool = False
    has_busy: bool = False
    peak: list[float] = []
    quiet_until: int = 0
    reset: int = LONG_AGO
    open: OpenBackpressure | None = None
    attempts: CheckpointAttempts = msgspec.field(default_factory=CheckpointAttempts)


class Backpressure(Detector):
    """Detects an operator that is slower than its input."""

    kind = "backpressure"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            "busy_time",
            "backpressured_time",
            "is_backpressured",
            "in_pool_usage",
            "input_queue_length",
            "records_in",
            "last_checkpoint_duration",
            "checkpoint_triggered",
            "checkpoint_completed",
            "checkpoint_expired",
            "job_restored",
            "job_state",
            "job_ended",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `backpressure`."""

        busy_ms_per_s: float = Field(
            900,
            gt=0,
            le=1000,
            description="Busy time (busyTimeMsPerSecond, in ms/s) from which a subtask counts as busy all the time.",
        )
        no_longer_busy_ms_per_s: float = Field(
            750,
            gt=0,
            le=1000,
            description="Busy time (ms/s) below which a busy subtask counts as recovered. Lower than "
            "`busy_ms_per_s`, so that the finding does not flap.",
        )
        backpressured_ms_per_s: float = Field(
            100,
            gt=0,
            le=1000,
            description="Backpressured time (ms/s) from which a task counts as backpressured. Legacy sources report "
            "no more than this.",
        )
        input_buffer_usage: float = Field(
            0.95,
            gt=0,
            le=1,
            description="Share of a subtask's input buffers in use (0 to 1) from which its input counts as full.",
        )
        input_queue_length: int = Field(
            8,
            ge=1,
            description="Number of queued buffers from which an input counts as full. Jobs that keep up queue fewer: a "
            "channel has two buffers of its own and a share of Flink's eight floating ones.",
        )
        min_duration: Duration = Field(
            10_000,
            description="Minimum time for which a subtask must be busy, seen in at least two scrapes. Shorter "
            "bursts are ignored.",
        )
        sample_max_age: Duration = Field(180_000, description="Age from which a metric sample is ignored.")
        slow_checkpoint_factor: float = Field(
            5.0,
            ge=2,
            description="Multiple of the job's usual checkpoint duration (median) above which a checkpoint counts "
            "as slow.",
        )
        slow_checkpoint_min_duration: Duration = Field(
            3_000,
            description="Duration below which a checkpoint never counts as slow. Short checkpoints vary by large "
            "factors.",
        )
        min_history: int = Field(
            5, ge=2, le=16, description="Number of completed checkpoints from which the job's usual duration is known."
        )
        min_slow_checkpoints: int = Field(
            3,
            ge=1,
            description="Number of slow checkpoints in a row that turn the info into a warning.",
        )
        healthy_checkpoints: int = Field(
            2, ge=1, description="Number of checkpoints in a row with a usual duration that resolve the warning."
        )
        catch_up: Duration = Field(
            300_000,
            description="Time after a restart in which slow checkpoints are ignored, because the job works off its "
            "backlog.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id, because ids of tasks repeat between jobs."""

        jobs: dict[str, JobLoad] = {}

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            for job in self._measure(state, event):
                # One scrape may hold more jobs than are kept.
                if job in state.jobs:
                    yield from self._judge(state.jobs[job], job, event, now, topology)
            return
        job = topology.job_of(event)
        known = state.jobs.get(job)
        if known is None:
            if event.event_type not in ("checkpoint_completed", "checkpoint_triggered"):
                return
            known = self._job(state, job)
        number = int(event.fields.get("checkpoint", -1))
        if number in known.savepoints:
            return
        match event.event_type:
            case "checkpoint_triggered":
                known.attempts.trigger(number, now.time)
                if "savepoint" in event.fields.get("type", "").lower():
                    known.savepoints = [*known.savepoints, number][-4:]
            case "checkpoint_completed" if number > known.last_number and now.time >= known.reset:
                known.by_log, known.last_number = True, number
                self._add_duration(known, self.config_of(job), int(event.fields["duration"]), evidence(event, now.time))
                yield from self._checkpoint_ended(known, job, now, topology)
            case "checkpoint_expired" if number > known.last_number and now.time >= known.reset:
                known.last_number = number
                known.attempts.expire(number, now.time)
                self._add_slow(known, self.config_of(job), evidence(event, now.time))
                yield from self._checkpoint_ended(known, job, now, topology)
            case "checkpoint_completed" | "checkpoint_expired":
                return
            case _:
                yield from self._job_changed(state, known, job, event.fields.get("state", ""), now, topology)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export the busiest subtask of each job, and how uneven the input of a slow operator is."""
        for job, known in state.jobs.items():
            labels = {"job": topology.job_name(job) or job}
            if known.peak:
                value = max(known.peak[1:]) / 1000
                yield Reading(name="busiest_subtask_ratio", labels=dict(labels), value=value, at=now)
            skews = [s for task in known.tasks.values() if task.hot and (s := skew(task)) is not None]
            if skews:
                yield Reading(name="input_skew_ratio", labels=labels, value=max(skews), at=now)

    def _job(self, state: State, job: str) -> JobLoad:
        known = state.jobs.get(job)
        if known is None:
            known = JobLoad()
            put_bounded(state.jobs, job, known, _MAX_JOBS)
        return known

    def _measure(self, state: State, event: MetricEvent) -> list[str]:
        """Take in the samples and return the jobs that they are about."""
        jobs: dict[str, tuple[JobLoad, Any]] = {}
        counters: list[tuple[JobLoad, Sample]] = []
        for sample in event.samples:
            job = sample.labels.get("job_id")
            if not job:
                continue
            if job not in jobs:
                jobs[job] = self._job(state, job), self.config_of(job)
            known, config = jobs[job]
            if sample.name == "records_in":
                counters.append((known, sample))
            elif sample.name == "last_checkpoint_duration":
                self._gauge(known, config, sample, event)
            else:
                self._load(known, config, sample, event.time)
        for known, sample in counters:
            task = known.tasks.get(sample.labels.get("task_id", ""))
            if task is not None and task.hot:
                task.count(sample.labels.get("subtask_index", ""), sample.value, event.time)
        return list(jobs)

    def _load(self, known: JobLoad, config: Config, sample: Sample, time: int) -> None:
        task_id, subtask = sample.labels.get("task_id", ""), sample.labels.get("subtask_index", "")
        task = known.tasks.get(task_id)
        if sample.name == "busy_time":
            known.has_busy = True
            self._peak(known, sample.value, time)
        if sample.name in ("busy_time", "in_pool_usage") and self._busy(known, config, sample):
            task = task or self._task(known, task_id, sample)
            hot = task.hot.get(subtask)
            tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", "")
            if hot is None or hot.tm != tm or time - hot.last > config.sample_max_age:
                put_bounded(task.hot, subtask, BusySubtask(time, time, sample.value, tm, host), _MAX_SUBTASKS)
            elif time >= hot.last:
                hot.last, hot.value = time, sample.value
        elif task is not None and self._no_longer_busy(known, config, sample, task.hot.get(subtask), time):
            del task.hot[subtask]
        if sample.name == "busy_time":
            return
        limit = {
            "backpressured_time": config.backpressured_ms_per_s,
            "is_backpressured": 1,
            "input_queue_length": config.input_queue_length,
        }
        kind = "full" if sample.name in ("in_pool_usage", "input_queue_length") else "waits"
        key = f"{subtask}|{sample.name}"
        if sample.value >= limit.get(sample.name, config.input_buffer_usage):
            task = task or self._task(known, task_id, sample)
            put_bounded(getattr(task, kind), key, time, _MAX_SUBTASKS)
        elif task is not None and getattr(task, kind).get(key, time + 1) <= time:
            del getattr(task, kind)[key]

    def _busy(self, known: JobLoad, config: Config, sample: Sample) -> bool:
        if sample.name == "busy_time":
            return sample.value >= config.busy_ms_per_s
        return not known.has_busy and sample.value >= config.input_buffer_usage

    def _no_longer_busy(
        self, known: JobLoad, config: Config, sample: Sample, hot: BusySubtask | None, time: int
    ) -> bool:
        if hot is None or time < hot.last:
            return False
        if sample.name == "busy_time":
            return sample.value < config.no_longer_busy_ms_per_s
        return sample.name == "in_pool_usage" and not known.has_busy and sample.value < config.input_buffer_usage

    def _task(self, known: JobLoad, task_id: str, sample: Sample) -> TaskLoad:
        task = TaskLoad(sample.labels.get("task_name", task_id))
        put_bounded(known.tasks, task_id, task, _MAX_TASKS)
        return task

    def _peak(self, known: JobLoad, value: float, time: int) -> None:
        if not known.peak or time - known.peak[0] >= _PEAK_MS:
            known.peak = [time, value, known.peak[1] if known.peak else value]
        else:
            known.peak[1] = max(known.peak[1], value)

    def _gauge(self, known: JobLoad, config: Config, sample: Sample, event: MetricEvent) -> None:
        """Without the JobManager's log, a new value of the gauge is the duration of a new checkpoint."""
        duration = int(min(sample.value, 1e15))
        if known.by_log or duration < 0 or (known.points and known.points[-1][1] == duration):
            return
        text = f"lastCheckpointDuration: {sample.value:.0f} ms"
        self._add_duration(
            known, config, duration, Evidence(event.topic, event.partition, event.offset, event.time, text)
        )

    def _add_duration(self, known: JobLoad, config: Config, duration: int, record: Evidence) -> None:
        learned = len(known.usual) >= config.min_history
        known.points = [*known.points, (record.time // 1000, duration)][-_HISTORY:]
        if learned and duration > self._limit(known, config):
            self._add_slow(known, config, record)
            return
        known.usual = [*known.usual, duration][-_HISTORY:]
        known.healthy += 1
        known.slow = []

    def _add_slow(self, known: JobLoad, config: Config, record: Evidence) -> None:
        known.healthy = 0
        if len(known.usual) >= config.min_history and record.time >= known.quiet_until:
            known.slow = [*known.slow, record][-16:]

    def _limit(self, known: JobLoad, config: Config) -> float:
        return max(config.slow_checkpoint_min_duration, config.slow_checkpoint_factor * quantile(known.usual, 0.5))

    def _judge(self, known: JobLoad, job: str, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Open, update or close the finding after new samples."""
        config = self.config_of(job)
        found = self._slowest(known, config, event.time)
        if found is not None and (known.open is None or known.open.task_id != found[0]):
            task_id, task = found
            record = Evidence(
                event.topic, event.partition, event.offset, event.time, measured(task, known.has_busy)[:500]
            )
            since = min(hot.since for hot in task.hot.values())
            tm, host = place(task, topology)
            slows_checkpoints = known.open is not None and known.open.slows_checkpoints
            since = min(since, known.open.since) if known.open is not None else since
            known.open = OpenBackpressure(
                since, task_id, task.name, tm, host, measured(task, known.has_busy), [record], slows_checkpoints
            )
            known.open.slows_checkpoints = slows_checkpoints or len(known.slow) >= config.min_slow_checkpoints
            yield self._finding(known, known.open, job, now.clock, topology)
        elif (
            known.open is not None
            and not known.open.slows_checkpoints
            and self._is_calm(known, config, known.open, event.time)
        ):
            yield self._closing(
                known, known.open, job, now, topology, f"{known.open.task} is no longer busy all the time"
            )
        elif found is not None and known.open is not None:
            known.open.measured = measured(found[1], known.has_busy)

    def _checkpoint_ended(self, known: JobLoad, job: str, now: Now, topology: Topology) -> Iterator[Finding]:
        """Raise or close the open finding after a checkpoint has ended."""
        if known.open is None:
            return
        config = self.config_of(job)
        if known.open.slows_checkpoints and known.healthy >= config.healthy_checkpoints:
            why = f"{known.healthy} checkpoints in a row were as fast as usual"
            yield self._closing(known, known.open, job, now, topology, why)
        elif len(known.slow) >= config.min_slow_checkpoints and self._slowest(known, config, now.time) is not None:
            known.open.slows_checkpoints = True
            yield self._finding(known, known.open, job, now.clock, topology)

    def _slowest(self, known: JobLoad, config: Config, time: int) -> tuple[str, TaskLoad] | None:
        """The task that is busy and not backpressured itself while other tasks wait for it."""
        fresh = time - config.sample_max_age
        candidates = []
        for task_id, task in known.tasks.items():
            hot = [h for h in task.hot.values() if h.last >= fresh and h.last - h.since >= config.min_duration]
            others = any(t >= fresh for i, other in known.tasks.items() if i != task_id for t in other.waits.values())
            if hot and (others or any(t >= fresh for t in task.full.values())):
                own = sum(t >= fresh for t in task.waits.values())
                candidates.append((own, -max(h.value for h in hot), task_id, task))
        return min(candidates, key=lambda c: c[:3])[2:] if candidates else None

    def _is_calm(self, known: JobLoad, config: Config, open_one: OpenBackpressure, time: int) -> bool:
        task = known.tasks.get(open_one.task_id)
        if task is None:
            return True
        for subtask in [s for s, h in task.hot.items() if time - h.last > config.sample_max_age]:
            del task.hot[subtask]
        if task.hot:
            return False
        task.inputs.clear()
        return True

    def _job_changed(
        self, state: State, known: JobLoad, job: str, new: str, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if new in ENDING:
            if known.open is not None:
                yield self._closing(known, known.open, job, now, topology, f"the job is {new}")
            del state.jobs[job]
            return
        if now.time > known.reset:
            known.reset, known.last_number = now.time, -1
        known.slow = []
        if known.by_log and (new in RESTARTING or not new):
            known.quiet_until = max(known.quiet_until, now.time + self.config_of(job).catch_up)

    def _closing(
        self, known: JobLoad, open_one: OpenBackpressure, job: str, now: Now, topology: Topology, why: str
    ) -> Finding:
        finding = self._finding(known, open_one, job, now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        known.open = None
        return finding

    def _finding(self, known: JobLoad, open_one: OpenBackpressure, job: str, now: int, topology: Topology) -> Finding:
        place = f" on {open_one.tm or open_one.host}" if open_one.tm or open_one.host else ""
        summary = f"{open_one.task} is slower than its input: {open_one.measured}{place}"
        if open_one.slows_checkpoints:
            usual = quantile(known.usual, 0.5) if known.usual else 0
            last = f" (the last one {humanize(known.points[-1][1])})" if known.points else ""
            summary += (
                f"; checkpoint barriers wait behind data: {len(known.slow) or 'several'} checkpoints in a row took far "
                f"longer than the usual {humanize(usual)}{last}"
            )
        points = [(at * 1000, took / 1000) for at, took in known.points]
        limit = self._limit(known, self.config_of(job)) / 1000 if known.usual else None
        series = Series("checkpoint duration", "s", points, threshold=limit, failed=known.attempts.failed())
        return Finding(
            kind=self.kind,
            subject=job,
            entity={
                "job_id": job,
                "job_name": topology.job_name(job),
                "task": open_one.task,
                "tm_id": open_one.tm,
                "host": open_one.host,
            },
            since=open_one.since,
            at=now,
            severity="warning" if open_one.slows_checkpoints else "info",
            summary=summary,
            confidence="sure" if open_one.slows_checkpoints and known.has_busy else "fair",
            evidence=[*open_one.records, *known.slow[-_RECORDS:]],
            series=series if open_one.slows_checkpoints else None,
            advice=f"Look at {open_one.task} in Flink's UI: its busy subtasks, their flame graph, and the external "
            "system that it calls. If few subtasks are busy and read more than the others, the keys are skewed. If all "
            "are busy, an external system is slow or the parallelism is too low. For good: spread the keys, raise the "
            "parallelism, or let barriers overtake data (unaligned checkpoints, buffer debloating).",
        )
