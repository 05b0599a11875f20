"""An operator is slower than its input, and checkpoints may suffer from it.

Opens as info when a subtask is busy nearly all the time for at least `min_duration` while the tasks before it wait:
another task of the job is backpressured, or the subtask's own input buffers are full. Becomes a warning when
`min_slow_checkpoints` checkpoints in a row take more than `slow_checkpoint_factor` × the job's usual duration: barriers
then wait behind data, and the finding names the slow operator. Where Flink has no busyTime (before 1.13, legacy
sources), full input buffers are used instead.

Not reported: a busy source (it reads as fast as it can); the first moments after a start (every task then has busyTime
1000, but nothing waits); slow checkpoints while a restarted job catches up; slow checkpoints without a slow operator,
which `checkpoint_duration_creep` covers. `late_barrier_acks` is more precise once a checkpoint has expired. Resolved
when `healthy_checkpoints` in a row are fast and no task waits for the operator any more or, while it is info, when it
is not busy in three samples.

Why it matters: with backpressure the job falls behind its input, and an aligned checkpoint takes as long as the queues
before the slow operator. Reference: Flink, "Monitoring Back Pressure" and "Checkpointing under backpressure".
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.checkpointing.slow_checkpoints import SlowCheckpoints
from detectors.flink.facts import Fact
from detectors.flink.job_states import RESTARTING
from detectors.flink.task_load import JobLoad, measured, place, skew
from detectors.incident import Evidence, Finding, Reading, Series
from detectors.patterns.until_job_ends import UntilJobEnds
from detectors.values.durations import Duration, humanize

_RECORDS = 3

_Job: TypeAlias = "JobView[Backpressure.Config, JobStates[JobBackpressure], JobBackpressure]"
_View: TypeAlias = "View[Backpressure.Config, JobStates[JobBackpressure]]"


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


class JobBackpressure(msgspec.Struct, array_like=True):
    """The load and the checkpoints of one job."""

    load: JobLoad = msgspec.field(default_factory=JobLoad)
    checkpoints: SlowCheckpoints = msgspec.field(default_factory=SlowCheckpoints)
    open: OpenBackpressure | None = None


class Backpressure(UntilJobEnds):
    """Detects an operator that is slower than its input."""

    kind = "backpressure"
    Job = JobBackpressure
    State = JobStates[JobBackpressure]

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
            3, "Number of checkpoints in a row with a usual duration that resolve the warning.", ge=1
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
            if fact.duration >= 0:
                job.own.checkpoints.by_log = True
                job.own.checkpoints.complete(fact.duration, job.record(), job.config)
            self._checkpoint_ended(job)

    @on(facts.CheckpointFailed)
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        if fact.expired and not fact.again and not fact.savepoint:
            job.own.checkpoints.add_slow(job.record(), job.config)
            self._checkpoint_ended(job)

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        job.own.checkpoints.restart(job.time, job.config)

    def job_continues(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            job.own.checkpoints.restart(job.time, job.config)
        else:
            job.own.checkpoints.slow = []

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
                job.own.load.take(sample, view.time, job.config)
        for job, sample in counters:
            job.own.load.count(sample, view.time)
        for job in jobs.values():
            # One scrape may hold more jobs than are kept.
            if job.id in view.state.jobs:
                self._judge(job)

    def job_readings(self, job: _Job) -> Iterator[Reading]:
        """The busiest subtask, and how uneven the input of a slow operator is."""
        load = job.own.load
        if load.peak:
            yield job.reading("busiest_subtask_ratio", max(load.peak[1:]) / 1000, job=job.label)
        skews = [s for task in load.tasks.values() if task.hot and (s := skew(task)) is not None]
        if skews:
            yield job.reading("input_skew_ratio", max(skews), job=job.label)

    def _gauge(self, job: _Job, value: float) -> None:
        duration = job.own.checkpoints.gauge(value)
        if duration is not None:
            record = job.record(f"lastCheckpointDuration: {value:.0f} ms")
            job.own.checkpoints.complete(duration, record, job.config)

    def _judge(self, job: _Job) -> None:
        """Open, update or close the finding after new samples."""
        own, before = job.own, job.own.open
        found = own.load.slowest(job.time, job.config)
        if found is not None and (before is None or before.task_id != found[0]):
            task_id, task = found
            text = measured(task, own.load.has_busy)
            since = min([hot.since for hot in task.hot.values()] + ([before.since] if before else []))
            slows = self._are_slow(job) or (before is not None and before.slows_checkpoints)
            at = place(task, job.topology)
            own.open = OpenBackpressure(since, task_id, task.name, *at, text, [job.record(text[:500])], slows)
            job.report(self._finding(job, own.open))
        elif before is None:
            return
        elif before.slows_checkpoints and found is None and self._are_fast(job):
            self._close_fast(job, before)
        elif not before.slows_checkpoints and own.load.is_calm(before.task_id, job.time, job.config):
            self.close_open(job, before, f"{before.task} is no longer busy all the time")
        elif found is not None:
            before.measured = measured(found[1], own.load.has_busy)

    def _are_slow(self, job: _Job) -> bool:
        return len(job.own.checkpoints.slow) >= job.config.min_slow_checkpoints

    def _checkpoint_ended(self, job: _Job) -> None:
        """Raise or close the open finding after a checkpoint has ended."""
        open_one, slowest = job.own.open, job.own.load.slowest(job.time, job.config)
        if open_one is None:
            return
        if open_one.slows_checkpoints and self._are_fast(job):
            # Busy times are averages over a minute: closed before they fall, it would open again with the next sample.
            if slowest is None:
                self._close_fast(job, open_one)
        elif self._are_slow(job) and slowest is not None:
            open_one.slows_checkpoints = True
            job.report(self._finding(job, open_one))

    def _are_fast(self, job: _Job) -> bool:
        return job.own.checkpoints.healthy >= job.config.healthy_checkpoints

    def _close_fast(self, job: _Job, open_one: OpenBackpressure) -> None:
        self.close_open(job, open_one, f"{job.own.checkpoints.healthy} checkpoints in a row were as fast as usual")

    def close_open(self, job: _Job, open_one: OpenBackpressure, why: str) -> None:
        job.close(self._finding(job, open_one), why)
        job.own.open = None

    def _finding(self, job: _Job, open_one: OpenBackpressure) -> Finding:
        checkpoints, series = job.own.checkpoints, None
        place = f" on {open_one.tm or open_one.host}" if open_one.tm or open_one.host else ""
        summary = f"{open_one.task} is slower than its input: {open_one.measured}{place}"
        if open_one.slows_checkpoints:
            longest = max((took for _, took in checkpoints.points), default=0)
            up_to = f" (up to {humanize(longest)})" if longest else ""
            summary += (
                f"; checkpoint barriers wait behind data: {len(checkpoints.slow) or 'several'} checkpoints in a row "
                f"took far longer than the usual {humanize(checkpoints.median())}{up_to}"
            )
            series = Series(
                "checkpoint duration",
                "s",
                [(at * 1000, took / 1000) for at, took in checkpoints.points],
                threshold=checkpoints.limit(job.config) / 1000 if checkpoints.usual else None,
                failed=[(time, age / 1000) for time, age in job.checkpoints.expired],
            )
        return job.finding(
            job.id,
            job.entity(task=open_one.task, tm_id=open_one.tm, host=open_one.host),
            since=open_one.since,
            severity="warning" if open_one.slows_checkpoints else "info",
            summary=summary + job.withheld(open_one.tm),
            confidence="sure" if open_one.slows_checkpoints and job.own.load.has_busy else "fair",
            evidence=[*open_one.records, *checkpoints.slow[-_RECORDS:]],
            series=series,
            advice=f"Look at {open_one.task} in Flink's UI: its busy subtasks, their flame graph, and the external "
            "system that it calls. If few subtasks are busy and read more than the others, the keys are skewed. If all "
            "are busy, an external system is slow or the parallelism is too low. To prevent it: spread the keys, raise "
            "the parallelism, or let barriers overtake data (unaligned checkpoints, buffer debloating).",
        )
