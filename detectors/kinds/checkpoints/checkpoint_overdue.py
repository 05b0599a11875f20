"""A checkpoint in progress is far older than this job's checkpoints usually get, or has expired.

Opens when a checkpoint is older than `factor` × the job's usual high (95 % quantile of its last 64 durations) and older
than `min_age`; before `min_history` durations are known, only `learning_limit` applies. Opens at once, as critical,
when Flink logs that the checkpoint expired. Resolved when that checkpoint or a later one completes, or when the job
ends.

Why it matters: a hanging checkpoint is the first sign of a stuck sink, a full heap or barriers behind slow input,
minutes before the checkpoint timeout (10 min by default). Until one completes, every failure replays from the last.
`late_barrier_acks` shows why a checkpoint expired, `checkpoint_duration_creep` reports slow growth. If a task logs,
often after the expiry, that it could not write its part, the exception is named as the reason. Savepoints are never
overdue and do not count as history; neither does the first checkpoint after a restore. If the JobManager's metrics stop
together with its lines, the checkpoint may have completed unseen: that is left to `telemetry_lost`. If lines of the
job's last checkpoints are missing, its last line may be missing too. Then a second sign is waited for: a sample that
shows it in progress, or that the next checkpoint is not triggered when it should be.

Reference: Flink, "Checkpointing under backpressure"; post-mortem 000, where checkpoint 1232 hung for 177 s before the
TaskManager was lost, and nothing else warned.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.checkpointing.checkpoints import GAUGE_LAG_MS, InProgress
from detectors.flink.checkpointing.failed_checkpoints import upload_error
from detectors.flink.facts import Failure
from detectors.flink.job_states import ENDING
from detectors.incident import Evidence, Finding, Forecast, Reading
from detectors.numerics.trend import quantile
from detectors.values.durations import Duration, humanize

_MAX_HISTORY = 64
_TIMEOUT_MS = 600_000
_MAX_GAP_MS = 300_000
_SAME_SCRAPE_MS = 500
_GAP_FADES = 64
# Intervals after which the next checkpoint should have been triggered.
_NEXT_BY = 1.1
_STACK_TRACE_MS = 2_000

_Job: TypeAlias = "JobView[CheckpointOverdue.Config, JobStates[OverdueJob], OverdueJob]"
_View: TypeAlias = "View[CheckpointOverdue.Config, JobStates[OverdueJob]]"


class OverdueCheckpoint(msgspec.Struct, array_like=True):
    """The checkpoint that the open finding is about. `expired` counts expiries since the last completed one.

    `upload` is why a task could not write its part, by the failure with the id `upload_id`; it is reported at the clock
    `upload_at`, when its stack trace is complete.
    """

    checkpoint: int
    since: int
    records: list[Evidence]
    expired: int = 0
    upload: str = ""
    upload_id: str = ""
    upload_at: int | None = None

    def has(self, number: int) -> bool:
        """Whether it is one of the checkpoints that have expired since the last completed one."""
        return self.checkpoint - self.expired < number <= self.checkpoint


class CheckpointGauge(msgspec.Struct, array_like=True):
    """A job's gauge of checkpoints in progress.

    `last_seen` is the clock of the last sample, `every` the longest usual gap between samples, `hold` the age of a
    checkpoint until which nothing is reported.
    """

    last_seen: int
    every: int = 0
    hold: int = 0


class OverdueJob(msgspec.Struct, array_like=True):
    """The durations of a job's last checkpoints in ms, their usual `high`, and the open finding."""

    durations: list[int] = []
    high: int = 0
    last_duration: int = -1
    late: OverdueCheckpoint | None = None
    gauge: CheckpointGauge | None = None


class CheckpointOverdue(JobDetector):
    """Detects checkpoints that hang or expire."""

    kind = "checkpoint_overdue"
    Job = OverdueJob
    State = JobStates[OverdueJob]

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_overdue`."""

        factor: float = threshold(
            3.0,
            "Multiple of the job's usual high (95 % quantile of its checkpoint durations) from which a checkpoint is "
            "overdue.",
            ge=1.5,
        )
        min_age: Duration = threshold(
            30_000, "Age below which a checkpoint is never overdue. Short checkpoints vary by large factors."
        )
        min_history: int = threshold(
            5, "Number of completed checkpoints from which the job's own history is used.", ge=2, le=64
        )
        learning_limit: Duration = threshold(
            300_000,
            "Age from which a checkpoint is overdue while there is too little history. The default is half of Flink's "
            "default timeout.",
        )
        deaf_for: Duration = threshold(
            300_000,
            "Age below which an overdue checkpoint is not reported while the JobManager's metrics are missing too, "
            "because it may have completed unseen.",
        )

    @on(facts.CheckpointTriggered, job="any")
    def triggered(self, job: _Job, fact: facts.CheckpointTriggered) -> None:
        late, gauge = job.own.late, job.own.gauge
        if late is not None and late.checkpoint in fact.unseen and not late.expired:
            self._close(job, late, f"checkpoint {fact.number} was triggered after it")
        if gauge is not None and not fact.savepoint:
            gauge.hold = 0

    @on(facts.CheckpointCompleted)
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        own = job.own
        if fact.seen and not fact.savepoint:
            own.last_duration = fact.duration
            if not fact.restored:
                own.durations = [*own.durations, fact.duration][-_MAX_HISTORY:]
                own.high = round(quantile(own.durations, 0.95))
        if own.late is not None and (fact.number >= own.late.checkpoint or fact.restored):
            took = f" in {humanize(fact.duration)}" if fact.duration >= 0 else ""
            self._close(job, own.late, f"checkpoint {fact.number} completed{took}")

    @on(facts.CheckpointFailed, job="any")
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        if not fact.expired or fact.again:
            return
        before = job.own.late
        since = before.since if before else fact.since if fact.triggered else job.time
        records = [*([fact.triggered] if fact.triggered else []), job.record()]
        job.own.late = late = OverdueCheckpoint(fact.number, since, records, (before.expired if before else 0) + 1)
        if before is not None:
            late.upload, late.upload_id = before.upload, before.upload_id
        job.report(self._finding(job, late))

    @on(Failure, job="none")
    def explained(self, view: _View, fact: Failure) -> None:
        """Take in why a task could not write its part. The line names no job, so only one may be at this checkpoint."""
        if fact.of != "checkpoint_async_failed":
            return
        at_it = [job for job, own in view.state.jobs.items() if own.late is not None and own.late.has(fact.number)]
        job = self.job(view, at_it[0]) if len(at_it) == 1 else None
        late = job.own.late if job is not None else None
        if late is not None and (not late.upload or late.upload_id == fact.id):
            # Each line of the stack trace adds to the reason.
            late.upload, late.upload_id = upload_error(fact), fact.id
            late.upload_at = view.clock + _STACK_TRACE_MS

    @on(facts.JobStateChanged)
    def job_changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if job.own.late is not None and fact.state in ENDING | {"SUSPENDED"}:
            self._close(job, job.own.late, f"the job is {fact.state}")
        if fact.state in ENDING:
            job.forget()

    @on("checkpoints_in_progress", job="none")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for sample in samples:
            job = self.job(view, sample.labels.get("job_id", ""))
            if job is not None:
                gauge = job.own.gauge = job.own.gauge or CheckpointGauge(view.clock)
                gap = view.clock - gauge.last_seen
                if gap >= _SAME_SCRAPE_MS:
                    gauge.every = min(max(gap, gauge.every - gauge.every // _GAP_FADES), _MAX_GAP_MS)
                gauge.last_seen, gauge.hold = max(gauge.last_seen, view.clock), 0

    def due(self, job: _Job) -> None:
        """Report a checkpoint whose age has reached the limit."""
        overdue, gauge, late = job.checkpoints.oldest(), job.own.gauge, job.own.late
        if late is not None and late.upload_at is not None and job.clock >= late.upload_at:
            late.upload_at = None
            job.report(self._finding(job, late))
        if overdue is None or job.own.late is not None or job.clock < self._report_at(job, overdue[1]):
            return
        number, checkpoint = overdue
        if gauge is not None and not gauge.hold and _metrics_stopped(gauge, checkpoint, job.clock):
            gauge.hold = job.config.deaf_for
            return
        job.own.late = OverdueCheckpoint(number, checkpoint.since, [checkpoint.record])
        job.report(self._finding(job, job.own.late))

    def deadline(self, job: _Job) -> int | None:
        """When the oldest checkpoint in progress becomes overdue, or when the reason of an expiry is complete."""
        if job.own.late is not None:
            return job.own.late.upload_at
        oldest = job.checkpoints.oldest()
        return None if oldest is None else self._report_at(job, oldest[1])

    def job_readings(self, job: _Job) -> Iterator[Reading]:
        """Usual and last duration, the limit, and when the checkpoint in progress started."""
        if job.own.durations:
            usual, last = quantile(job.own.durations, 0.5), job.own.last_duration
            yield job.reading("checkpoint_duration_usual_seconds", usual / 1000, job=job.label)
            yield job.reading("checkpoint_duration_last_seconds", last / 1000, job=job.label)
            yield job.reading("checkpoint_overdue_limit_seconds", self._limit(job) / 1000, job=job.label)
        oldest = job.checkpoints.oldest()
        if oldest is not None:
            since = oldest[1].since / 1000
            yield job.reading("checkpoint_in_flight_since_timestamp_seconds", since, job=job.label)

    def _limit(self, job: _Job) -> int:
        """Age in ms at which a checkpoint of this job is overdue."""
        if len(job.own.durations) < job.config.min_history:
            return job.config.learning_limit
        return max(job.config.min_age, round(job.config.factor * job.own.high))

    def _report_at(self, job: _Job, checkpoint: InProgress) -> int:
        checkpoints, gauge = job.checkpoints, job.own.gauge
        at = checkpoint.at + self._limit(job) + checkpoints.lag
        if gauge is not None:
            at = max(at, checkpoint.at + gauge.hold, _sample_deadline(gauge, checkpoint))
        if checkpoints.lossy and (gauge is None or gauge.last_seen <= checkpoint.at + GAUGE_LAG_MS):
            following = checkpoint.at + round(_NEXT_BY * checkpoints.interval) + job.own.high
            at = max(at, following + checkpoints.lag)
        return at

    def _close(self, job: _Job, late: OverdueCheckpoint, why: str) -> None:
        job.close(self._finding(job, late), why)
        job.own.late = None

    def _finding(self, job: _Job, late: OverdueCheckpoint) -> Finding:
        learned = len(job.own.durations) >= job.config.min_history
        usual = f"usually {humanize(quantile(job.own.durations, 0.5))}" if learned else "usual duration not known yet"
        timeout = job.checkpoints.timeout or _TIMEOUT_MS
        if late.expired > 1:
            summary = f"{late.expired} checkpoints in a row expired, the last is {late.checkpoint} ({usual})"
        elif late.expired:
            summary = f"checkpoint {late.checkpoint} expired after {humanize(timeout)} ({usual})"
        else:
            summary = (
                f"checkpoint {late.checkpoint} has not completed after {humanize(job.clock - late.since)} ({usual})"
            )
        if late.upload:
            summary += f", because a task could not write its part: {late.upload}"
        expiry = late.since + timeout
        return job.finding(
            job.id,
            job.entity(checkpoint=str(late.checkpoint)),
            since=late.since,
            severity="critical" if late.expired else "warning",
            summary=summary,
            confidence="sure" if late.expired else "fair" if learned else "learning",
            evidence=late.records,
            forecast=None if late.expired else Forecast("the checkpoint expires", expiry, expiry, expiry),
            advice=(_ADVICE_UPLOAD if late.upload else _ADVICE) + "Do not restart the job to get rid of the "
            "checkpoint: a failure now replays from the last completed one.",
        )


_ADVICE = (
    "Open the checkpoint in Flink's UI and see which subtasks have not acknowledged. Look at backpressure and at "
    "garbage collection on their TaskManager. "
)
_ADVICE_UPLOAD = (
    "Repair the checkpoint storage that the exception names: it may be full, unreachable, throttled, or refuse the "
    "credentials. "
)


def _sample_deadline(gauge: CheckpointGauge, checkpoint: InProgress) -> int:
    """Clock until which to wait for a sample that shows whether the checkpoint still runs; 0 without a need to wait."""
    last = gauge.last_seen + 2 * gauge.every
    return (
        last + 1 if gauge.every > 0 and gauge.last_seen <= checkpoint.at + GAUGE_LAG_MS and checkpoint.at <= last else 0
    )


def _metrics_stopped(gauge: CheckpointGauge, checkpoint: InProgress, now: int) -> bool:
    """Whether metrics arrived when the checkpoint was triggered and have stopped since."""
    enough = 2 * gauge.every
    return gauge.every > 0 and checkpoint.at - gauge.last_seen <= enough < now - gauge.last_seen
