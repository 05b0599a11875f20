"""An operator that is slower than its input: who it is, and whether checkpoints suffer.

Info when a subtask is busy nearly all the time for at least `min_duration` while the tasks before it wait: another task
of the job is backpressured, or the subtask's own input is full. It becomes a warning when `min_slow_checkpoints`
checkpoints in a row took more than `slow_checkpoint_factor` × what is usual for the job: then barriers wait behind
data, and the slow operator is named. Where Flink has no busyTime (before 1.13, legacy sources) a full input takes its
place.

Not said: a source that is busy (it reads as fast as it can), the first moments after a start (busyTime is 1000 for
every task then, but nothing waits), checkpoints that are slow while a restarted job catches up, and slow checkpoints
without a slow operator, which are for `checkpoint_duration_creep`. `late_barrier_acks` is the better choice once a
checkpoint has expired. Ends when the job's checkpoints are as usual again, or, as info, when the operator is.

Why an operator cares: behind backpressure the job falls behind its input, and aligned checkpoints take as long as the
queues before the slow operator. Reference: Flink, "Monitoring Back Pressure" and "Checkpointing under backpressure".
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent, Sample
from detectors.flink.expired_checkpoints import CheckpointAttempts
from detectors.flink.task_load import BusySubtask, TaskLoad, measured, place, skew
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading, Series
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_JOBS = 200
_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_HISTORY = 16
_RECORDS = 3
_PEAK_MS = 30_000
_OVER = frozenset({"FINISHED", "CANCELED", "CANCELLING", "FAILED"})
_RESTARTING = frozenset({"RESTARTING", "FAILING", "SUSPENDED"})


class OpenBackpressure(msgspec.Struct, array_like=True):
    """The finding that is open: event time of its start, task, places, what was measured of it, and the records."""

    since: int
    task_id: str
    task: str
    tm: str
    host: str
    measured: str
    records: list[Evidence]
    dragging: bool = False


class JobLoad(msgspec.Struct, array_like=True):
    """A job. `usual` are durations (ms) of checkpoints that were not dragged, `points` are the last of all: (s, ms).

    `peak` is the busiest subtask of this window and of the one before: [start of the window, ms/s, ms/s].
    """

    tasks: dict[str, TaskLoad] = {}
    usual: list[int] = []
    points: list[tuple[int, int]] = []
    last_number: int = -1
    savepoints: list[int] = []
    dragged: list[Evidence] = []
    healthy: int = 0
    by_log: bool = False
    has_busy: bool = False
    peak: list[float] = []
    quiet_until: int = 0
    reset: int = -(1 << 62)
    open: OpenBackpressure | None = None
    attempts: CheckpointAttempts = msgspec.field(default_factory=CheckpointAttempts)


class Backpressure(Detector):
    """See the module."""

    kind = "backpressure"
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
        """Thresholds of backpressure."""

        busy_ms_per_s: float = Field(
            900,
            gt=0,
            le=1000,
            description="ms/s from which a subtask is busy all the time.",
        )
        no_longer_busy_ms_per_s: float = Field(
            750, gt=0, le=1000, description="ms/s below which it no longer is: a gap to `busy_ms_per_s`."
        )
        backpressured_ms_per_s: float = Field(
            100,
            gt=0,
            le=1000,
            description="ms/s from which a task counts as backpressured: legacy sources show no more.",
        )
        input_buffer_usage: float = Field(
            0.95, gt=0, le=1, description="Share of the input buffers in use that means a full input."
        )
        input_queue_length: int = Field(
            8,
            ge=1,
            description="Buffers queued from which an input is full: more than a channel's own two and Flink's "
            "eight floating ones share out in a job that keeps up.",
        )
        min_duration: Duration = Field(
            10_000,
            description="Busy for this long, over two scrapes: one may be a burst.",
        )
        sample_max_age: Duration = Field(180_000, description="A sample older than this says nothing any more.")
        slow_checkpoint_factor: float = Field(
            5.0, ge=2, description="A checkpoint is dragged above this multiple of the job's usual duration (median)."
        )
        slow_checkpoint_min_duration: Duration = Field(
            3_000, description="Never dragged below this duration: short checkpoints vary by large factors."
        )
        min_history: int = Field(5, ge=2, le=16, description="Checkpoints before the job's usual duration is known.")
        min_slow_checkpoints: int = Field(
            3,
            ge=1,
            description="Dragged checkpoints in a row that make it a warning.",
        )
        healthy_checkpoints: int = Field(2, ge=1, description="Usual checkpoints in a row that end the warning.")
        catch_up: Duration = Field(
            300_000, description="After a restart checkpoints may be slow for this long: the job reads what it missed."
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id: ids of tasks repeat between jobs."""

        jobs: dict[str, JobLoad] = {}

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold the samples of tasks, or one line about a checkpoint or a job."""
        if isinstance(event, MetricEvent):
            for job in self._measure(state, event):
                # A page may hold more jobs than are kept.
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
                self._took(known, self.config_of(job), int(event.fields["duration"]), evidence(event, now.time))
                yield from self._weigh(known, job, now, topology)
            case "checkpoint_expired" if number > known.last_number and now.time >= known.reset:
                known.last_number = number
                known.attempts.expire(number, now.time)
                self._drag(known, self.config_of(job), evidence(event, now.time))
                yield from self._weigh(known, job, now, topology)
            case "checkpoint_completed" | "checkpoint_expired":
                return
            case _:
                yield from self._job_changed(state, known, job, event.fields.get("state", ""), now, topology)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """The busiest subtask of each job, and how uneven the input of a slow operator is."""
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
        """Take in the samples; the jobs they are about."""
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
        """Durations where the JobManager's log is not read: the gauge changes with each checkpoint."""
        duration = int(min(sample.value, 1e15))
        if known.by_log or duration < 0 or (known.points and known.points[-1][1] == duration):
            return
        text = f"lastCheckpointDuration: {sample.value:.0f} ms"
        self._took(known, config, duration, Evidence(event.topic, event.partition, event.offset, event.time, text))

    def _took(self, known: JobLoad, config: Config, duration: int, record: Evidence) -> None:
        learned = len(known.usual) >= config.min_history
        known.points = [*known.points, (record.time // 1000, duration)][-_HISTORY:]
        if learned and duration > self._limit(known, config):
            self._drag(known, config, record)
            return
        known.usual = [*known.usual, duration][-_HISTORY:]
        known.healthy += 1
        known.dragged = []

    def _drag(self, known: JobLoad, config: Config, record: Evidence) -> None:
        known.healthy = 0
        if len(known.usual) >= config.min_history and record.time >= known.quiet_until:
            known.dragged = [*known.dragged, record][-16:]

    def _limit(self, known: JobLoad, config: Config) -> float:
        return max(config.slow_checkpoint_min_duration, config.slow_checkpoint_factor * quantile(known.usual, 0.5))

    def _judge(self, known: JobLoad, job: str, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """What the samples at hand say of the slowest operator."""
        config = self.config_of(job)
        found = self._slowest(known, config, event.time)
        if found is not None and (known.open is None or known.open.task_id != found[0]):
            task_id, task = found
            record = Evidence(
                event.topic, event.partition, event.offset, event.time, measured(task, known.has_busy)[:500]
            )
            since = min(hot.since for hot in task.hot.values())
            tm, host = place(task, topology)
            dragging = known.open is not None and known.open.dragging
            since = min(since, known.open.since) if known.open is not None else since
            known.open = OpenBackpressure(
                since, task_id, task.name, tm, host, measured(task, known.has_busy), [record], dragging
            )
            known.open.dragging = dragging or len(known.dragged) >= config.min_slow_checkpoints
            yield self._finding(known, known.open, job, now.clock, topology)
        elif known.open is not None and not known.open.dragging and self._calmed(known, config, known.open, event.time):
            yield self._closing(
                known, known.open, job, now, topology, f"{known.open.task} is no longer busy all the time"
            )
        elif found is not None and known.open is not None:
            known.open.measured = measured(found[1], known.has_busy)

    def _weigh(self, known: JobLoad, job: str, now: Now, topology: Topology) -> Iterator[Finding]:
        """What a checkpoint that has just ended changes about an open finding."""
        if known.open is None:
            return
        config = self.config_of(job)
        if known.open.dragging and known.healthy >= config.healthy_checkpoints:
            why = f"{known.healthy} checkpoints in a row were as fast as usual"
            yield self._closing(known, known.open, job, now, topology, why)
        elif len(known.dragged) >= config.min_slow_checkpoints and self._slowest(known, config, now.time) is not None:
            known.open.dragging = True
            yield self._finding(known, known.open, job, now.clock, topology)

    def _slowest(self, known: JobLoad, config: Config, time: int) -> tuple[str, TaskLoad] | None:
        """The task that is busy and does not wait itself while others wait for it."""
        fresh = time - config.sample_max_age
        candidates = []
        for task_id, task in known.tasks.items():
            hot = [h for h in task.hot.values() if h.last >= fresh and h.last - h.since >= config.min_duration]
            others = any(t >= fresh for i, other in known.tasks.items() if i != task_id for t in other.waits.values())
            if hot and (others or any(t >= fresh for t in task.full.values())):
                own = sum(t >= fresh for t in task.waits.values())
                candidates.append((own, -max(h.value for h in hot), task_id, task))
        return min(candidates, key=lambda c: c[:3])[2:] if candidates else None

    def _calmed(self, known: JobLoad, config: Config, open_one: OpenBackpressure, time: int) -> bool:
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
        if new in _OVER:
            if known.open is not None:
                yield self._closing(known, known.open, job, now, topology, f"the job is {new}")
            del state.jobs[job]
            return
        if now.time > known.reset:
            known.reset, known.last_number = now.time, -1
        known.dragged = []
        if known.by_log and (new in _RESTARTING or not new):
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
        said = f"{open_one.task} is slower than its input: {open_one.measured}{place}"
        if open_one.dragging:
            usual = quantile(known.usual, 0.5) if known.usual else 0
            last = f", the last took {humanize(known.points[-1][1])}" if known.points else ""
            said += (
                f"; barriers wait behind data: {len(known.dragged) or 'several'} checkpoints in a row were far above "
                f"their usual {humanize(usual)}{last}"
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
            severity="warning" if open_one.dragging else "info",
            summary=said,
            confidence="sure" if open_one.dragging and known.has_busy else "fair",
            evidence=[*open_one.records, *known.dragged[-_RECORDS:]],
            series=series if open_one.dragging else None,
            advice=f"Look at {open_one.task} in Flink's UI: its busy subtasks, their flame graph, and the system it "
            "writes to or asks. Few busy subtasks that read more than the others: key skew. All: a slow external "
            "system or too little parallelism. For good: spread the keys, raise the parallelism, or let barriers "
            "overtake data (unaligned checkpoints, buffer debloating).",
        )
