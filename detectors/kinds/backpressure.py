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
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact
from detectors.flink.job_states import ENDING, RESTARTING
from detectors.flink.task_load import BusySubtask, TaskLoad, measured, place, skew
from detectors.incident import Evidence, Finding, Reading, Series
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_TASKS = 64
_MAX_SUBTASKS = 512
_HISTORY = 16
_MAX_SLOW = 16
_RECORDS = 3
_PEAK_MS = 30_000
_MOST_MS = 1e15

_Job: TypeAlias = "JobView[Backpressure.Config, JobStates[JobLoad], JobLoad]"
_View: TypeAlias = "View[Backpressure.Config, JobStates[JobLoad]]"


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
    slow: list[Evidence] = []
    healthy: int = 0
    by_log: bool = False
    has_busy: bool = False
    peak: list[float] = []
    quiet_until: int = 0
    open: OpenBackpressure | None = None

    def busiest(self, value: float, time: int) -> None:
        """Take in the busy time of a subtask."""
        if not self.peak or time - self.peak[0] >= _PEAK_MS:
            self.peak = [time, value, self.peak[1] if self.peak else value]
        else:
            self.peak[1] = max(self.peak[1], value)

    def task(self, task_id: str, sample: Sample) -> TaskLoad:
        """The load of a task, added if it is new."""
        known = self.tasks.get(task_id)
        if known is None:
            known = TaskLoad(sample.labels.get("task_name", task_id))
            put_bounded(self.tasks, task_id, known, _MAX_TASKS)
        return known


class Backpressure(JobDetector):
    """Detects an operator that is slower than its input."""

    kind = "backpressure"
    Job = JobLoad
    State = JobStates[JobLoad]

    class Config(DetectorConfig):
        """Settings of the detector `backpressure`."""

        busy_ms_per_s: float = threshold(
            900,
            "Busy time (busyTimeMsPerSecond, in ms/s) from which a subtask counts as busy all the time.",
            gt=0,
            le=1000,
        )
        no_longer_busy_ms_per_s: float = threshold(
            750,
            "Busy time (ms/s) below which a busy subtask counts as recovered. Lower than `busy_ms_per_s`, so that the"
            " finding does not flap.",
            gt=0,
            le=1000,
        )
        backpressured_ms_per_s: float = threshold(
            100,
            "Backpressured time (ms/s) from which a task counts as backpressured. Legacy sources report no more than "
            "this.",
            gt=0,
            le=1000,
        )
        input_buffer_usage: float = threshold(
            0.95, "Share of a subtask's input buffers in use (0 to 1) from which its input counts as full.", gt=0, le=1
        )
        input_queue_length: int = threshold(
            8,
            "Number of queued buffers from which an input counts as full. Jobs that keep up queue fewer: a channel "
            "has two buffers of its own and a share of Flink's eight floating ones.",
            ge=1,
        )
        min_duration: Duration = threshold(
            10_000,
            "Minimum time for which a subtask must be busy, seen in at least two scrapes. Shorter bursts are ignored.",
        )
        sample_max_age: Duration = threshold(180_000, "Age from which a metric sample is ignored.")
        slow_checkpoint_factor: float = threshold(
            5.0,
            "Multiple of the job's usual checkpoint duration (median) above which a checkpoint counts as slow.",
            ge=2,
        )
        slow_checkpoint_min_duration: Duration = threshold(
            3_000, "Duration below which a checkpoint never counts as slow. Short checkpoints vary by large factors."
        )
        min_history: int = threshold(
            5, "Number of completed checkpoints from which the job's usual duration is known.", ge=2, le=16
        )
        min_slow_checkpoints: int = threshold(
            3, "Number of slow checkpoints in a row that turn the info into a warning.", ge=1
        )
        healthy_checkpoints: int = threshold(
            2, "Number of checkpoints in a row with a usual duration that resolve the warning.", ge=1
        )
        catch_up: Duration = threshold(
            300_000,
            "Time after a restart in which slow checkpoints are ignored, because the job works off its backlog.",
        )

    @on(facts.CheckpointTriggered, job="any")
    def triggered(self, job: _Job, _: Fact) -> None:
        """The job is known from now on."""

    @on(facts.CheckpointCompleted, job="any")
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        if not fact.savepoint:
            job.own.by_log = True
            self._add_duration(job, fact.duration, job.record())
            self._checkpoint_ended(job)

    @on(facts.CheckpointFailed)
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        if fact.expired and not fact.again and not fact.savepoint:
            self._add_slow(job, job.record())
            self._checkpoint_ended(job)

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        self._restarts(job)

    @on(facts.JobStateChanged)
    def job_changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in ENDING:
            if job.own.open is not None:
                self._close(job, job.own.open, f"the job is {fact.state}")
            job.forget()
        elif fact.state in RESTARTING:
            self._restarts(job)
        else:
            job.own.slow = []

    @on(
        "busy_time",
        "backpressured_time",
        "is_backpressured",
        "in_pool_usage",
        "input_queue_length",
        "records_in",
        "last_checkpoint_duration",
        job="none",
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        jobs: dict[str, _Job] = {}
        counters: list[tuple[_Job, Sample]] = []
        for sample in samples:
            job_id = sample.labels.get("job_id")
            if not job_id:
                continue
            job = jobs.get(job_id)
            if job is None:
                job = jobs[job_id] = self.new_job(view, job_id)
            if sample.name == "records_in":
                counters.append((job, sample))
            elif sample.name == "last_checkpoint_duration":
                self._gauge(job, sample.value)
            else:
                self._load(job, sample)
        for job, sample in counters:
            task = job.own.tasks.get(sample.labels.get("task_id", ""))
            if task is not None and task.hot:
                task.count(sample.labels.get("subtask_index", ""), sample.value, view.time)
        for job in jobs.values():
            # One scrape may hold more jobs than are kept.
            if job.id in view.state.jobs:
                self._judge(job)

    def job_readings(self, job: _Job) -> Iterator[Reading]:
        """The busiest subtask, and how uneven the input of a slow operator is."""
        if job.own.peak:
            yield job.reading("busiest_subtask_ratio", max(job.own.peak[1:]) / 1000, job=job.label)
        skews = [s for task in job.own.tasks.values() if task.hot and (s := skew(task)) is not None]
        if skews:
            yield job.reading("input_skew_ratio", max(skews), job=job.label)

    def _restarts(self, job: _Job) -> None:
        job.own.slow = []
        if job.own.by_log:
            job.own.quiet_until = max(job.own.quiet_until, job.time + job.config.catch_up)

    def _load(self, job: _Job, sample: Sample) -> None:
        own, config, time = job.own, job.config, job.time
        task_id, subtask = sample.labels.get("task_id", ""), sample.labels.get("subtask_index", "")
        task = own.tasks.get(task_id)
        if sample.name == "busy_time":
            own.has_busy = True
            own.busiest(sample.value, time)
        if sample.name in ("busy_time", "in_pool_usage") and self._busy(job, sample):
            task = task or own.task(task_id, sample)
            hot = task.hot.get(subtask)
            tm, host = sample.labels.get("tm_id", ""), sample.labels.get("host", "")
            if hot is None or hot.tm != tm or time - hot.last > config.sample_max_age:
                put_bounded(task.hot, subtask, BusySubtask(time, time, sample.value, tm, host), _MAX_SUBTASKS)
            elif time >= hot.last:
                hot.last, hot.value = time, sample.value
        elif task is not None and self._no_longer_busy(job, sample, task.hot.get(subtask)):
            del task.hot[subtask]
        if sample.name == "busy_time":
            return
        limit = {
            "backpressured_time": config.backpressured_ms_per_s,
            "is_backpressured": 1,
            "input_queue_length": config.input_queue_length,
        }.get(sample.name, config.input_buffer_usage)
        key = f"{subtask}|{sample.name}"
        is_full = sample.name in ("in_pool_usage", "input_queue_length")
        if sample.value >= limit:
            task = task or own.task(task_id, sample)
            put_bounded(task.full if is_full else task.waits, key, time, _MAX_SUBTASKS)
        elif task is not None:
            since = task.full if is_full else task.waits
            if since.get(key, time + 1) <= time:
                del since[key]

    def _busy(self, job: _Job, sample: Sample) -> bool:
        if sample.name == "busy_time":
            return sample.value >= job.config.busy_ms_per_s
        return not job.own.has_busy and sample.value >= job.config.input_buffer_usage

    def _no_longer_busy(self, job: _Job, sample: Sample, hot: BusySubtask | None) -> bool:
        if hot is None or job.time < hot.last:
            return False
        if sample.name == "busy_time":
            return sample.value < job.config.no_longer_busy_ms_per_s
        return sample.name == "in_pool_usage" and not job.own.has_busy and sample.value < job.config.input_buffer_usage

    def _gauge(self, job: _Job, value: float) -> None:
        """Without the JobManager's log, a new value of the gauge is the duration of a new checkpoint."""
        duration, points = int(min(value, _MOST_MS)), job.own.points
        if not (job.own.by_log or duration < 0 or (points and points[-1][1] == duration)):
            self._add_duration(job, duration, job.record(f"lastCheckpointDuration: {value:.0f} ms"))

    def _add_duration(self, job: _Job, duration: int, record: Evidence) -> None:
        own = job.own
        learned = len(own.usual) >= job.config.min_history
        own.points = [*own.points, (record.time // 1000, duration)][-_HISTORY:]
        if learned and duration > self._limit(job):
            self._add_slow(job, record)
            return
        own.usual = [*own.usual, duration][-_HISTORY:]
        own.healthy += 1
        own.slow = []

    def _add_slow(self, job: _Job, record: Evidence) -> None:
        job.own.healthy = 0
        if len(job.own.usual) >= job.config.min_history and record.time >= job.own.quiet_until:
            job.own.slow = [*job.own.slow, record][-_MAX_SLOW:]

    def _limit(self, job: _Job) -> float:
        config = job.config
        return max(config.slow_checkpoint_min_duration, config.slow_checkpoint_factor * quantile(job.own.usual, 0.5))

    def _judge(self, job: _Job) -> None:
        """Open, update or close the finding after new samples."""
        own, before = job.own, job.own.open
        found = self._slowest(job)
        if found is not None and (before is None or before.task_id != found[0]):
            task_id, task = found
            text = measured(task, own.has_busy)
            since = min([hot.since for hot in task.hot.values()] + ([before.since] if before else []))
            slows = len(own.slow) >= job.config.min_slow_checkpoints or (
                before is not None and before.slows_checkpoints
            )
            at = place(task, job.topology)
            own.open = OpenBackpressure(since, task_id, task.name, *at, text, [job.record(text[:500])], slows)
            job.report(self._finding(job, own.open))
        elif before is not None and not before.slows_checkpoints and self._is_calm(job, before):
            self._close(job, before, f"{before.task} is no longer busy all the time")
        elif found is not None and before is not None:
            before.measured = measured(found[1], own.has_busy)

    def _checkpoint_ended(self, job: _Job) -> None:
        """Raise or close the open finding after a checkpoint has ended."""
        own, open_one = job.own, job.own.open
        if open_one is None:
            return
        if open_one.slows_checkpoints and own.healthy >= job.config.healthy_checkpoints:
            self._close(job, open_one, f"{own.healthy} checkpoints in a row were as fast as usual")
        elif len(own.slow) >= job.config.min_slow_checkpoints and self._slowest(job) is not None:
            open_one.slows_checkpoints = True
            job.report(self._finding(job, open_one))

    def _slowest(self, job: _Job) -> tuple[str, TaskLoad] | None:
        """The task that is busy and not backpressured itself while other tasks wait for it."""
        tasks, config = job.own.tasks, job.config
        fresh = job.time - config.sample_max_age
        candidates = []
        for task_id, task in tasks.items():
            hot = [h for h in task.hot.values() if h.last >= fresh and h.last - h.since >= config.min_duration]
            others = any(t >= fresh for i, other in tasks.items() if i != task_id for t in other.waits.values())
            if hot and (others or any(t >= fresh for t in task.full.values())):
                waits = sum(t >= fresh for t in task.waits.values())
                candidates.append((waits, -max(h.value for h in hot), task_id, task))
        return min(candidates, key=lambda c: c[:3])[2:] if candidates else None

    def _is_calm(self, job: _Job, open_one: OpenBackpressure) -> bool:
        task = job.own.tasks.get(open_one.task_id)
        if task is None:
            return True
        task.hot = {s: h for s, h in task.hot.items() if job.time - h.last <= job.config.sample_max_age}
        if task.hot:
            return False
        task.inputs.clear()
        return True

    def _close(self, job: _Job, open_one: OpenBackpressure, why: str) -> None:
        job.close(self._finding(job, open_one), why)
        job.own.open = None

    def _finding(self, job: _Job, open_one: OpenBackpressure) -> Finding:
        own = job.own
        place = f" on {open_one.tm or open_one.host}" if open_one.tm or open_one.host else ""
        summary = f"{open_one.task} is slower than its input: {open_one.measured}{place}"
        series = None
        if open_one.slows_checkpoints:
            usual = quantile(own.usual, 0.5) if own.usual else 0
            last = f" (the last one {humanize(own.points[-1][1])})" if own.points else ""
            summary += (
                f"; checkpoint barriers wait behind data: {len(own.slow) or 'several'} checkpoints in a row took far "
                f"longer than the usual {humanize(usual)}{last}"
            )
            series = Series(
                "checkpoint duration",
                "s",
                [(at * 1000, took / 1000) for at, took in own.points],
                threshold=self._limit(job) / 1000 if own.usual else None,
                failed=[(time, age / 1000) for time, age in job.checkpoints.expired],
            )
        return job.finding(
            job.id,
            job.entity(task=open_one.task, tm_id=open_one.tm, host=open_one.host),
            since=open_one.since,
            severity="warning" if open_one.slows_checkpoints else "info",
            summary=summary,
            confidence="sure" if open_one.slows_checkpoints and own.has_busy else "fair",
            evidence=[*open_one.records, *own.slow[-_RECORDS:]],
            series=series,
            advice=f"Look at {open_one.task} in Flink's UI: its busy subtasks, their flame graph, and the external "
            "system that it calls. If few subtasks are busy and read more than the others, the keys are skewed. If all "
            "are busy, an external system is slow or the parallelism is too low. To prevent it: spread the keys, raise "
            "the parallelism, or let barriers overtake data (unaligned checkpoints, buffer debloating).",
        )
