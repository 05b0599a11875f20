"""The checkpoints of a job take longer and longer, and will reach the checkpoint timeout or their interval.

Opens when the durations rise (`rise.py`: robust trend, rank test), have grown by `growth` over the usual duration and
by at least `min_increase`, and reach a limit within `horizon`: the timeout (learned from an expiry or from the
configuration that Flink prints) or the interval (learned), from which checkpoints follow each other without a pause. A
trend is extrapolated to `extrapolation_factor` times the time for which it has been seen, and to less after a start,
when windows and state fill up and level off. Critical when the timeout is less than `critical_within` away.

Also opens without a trend, when durations have moved in a step (`shift.py`: rank-sum test of a change point) to a level
at which they stay for `min_level_duration` and that matters: almost the interval, or half of the timeout. Critical from
half of the timeout on, when another such step exceeds it. Resolved when durations have fallen back or stopped growing
(where they matter: for `horizon`), when the job ends, or when it starts from a savepoint.

Not reported: noise, a step to a harmless level, a daily peak that has occurred before, durations that grow with input.
`checkpoint_durations.py` says which checkpoints do not count. Without log lines the gauge lastCheckpointDuration is
used. `checkpoint_overdue` reports a single checkpoint that hangs.

Why it matters: this is the one checkpoint problem that can be seen hours before the first checkpoint expires.
Reference: Flink, "Checkpointing under backpressure"; Sen (1968); Mann (1945); Pettitt (1979).
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.checkpointing.checkpoint_durations import CheckpointDurations
from detectors.flink.checkpointing.duration_growth import (
    INTERVAL,
    STEP,
    TIMEOUT,
    Growth,
    Limits,
    grown_by_trend,
    grown_in_a_step,
    step_that_matters,
    why_ended,
)
from detectors.flink.job_states import RESTARTING
from detectors.incident import Evidence, Finding, Reading, Severity
from detectors.numerics.rise import Rise, rise
from detectors.numerics.shift import Shift
from detectors.numerics.trend import theil_sen
from detectors.patterns.keep_state import keep_state
from detectors.values.durations import Duration, flink_duration

_REPORT_AGAIN = 0.1
_LOADED = 1.2
_MAX_GAPS = 3
_SLOPE_EVERY = 4

_Job: TypeAlias = "JobView[CheckpointDurationCreep.Config, CheckpointDurationCreep.State, JobCreep]"
_View: TypeAlias = "View[CheckpointDurationCreep.Config, CheckpointDurationCreep.State]"


class Creep(msgspec.Struct, array_like=True):
    """The open finding: usual, highest and last reported duration (ms), and the time scale (-1: a step) of the rise."""

    usual: float
    peak: float
    reported: float
    scale: int
    finding: Finding


class JobCreep(msgspec.Struct, array_like=True):
    """The checkpoint durations of one job.

    `slope` is computed with every fourth checkpoint, because it takes as long as ten lines in the step: it is that of
    the first `sloped` checkpoints. `accepted` is
    the level (ms) that lasted for so long after a step that it is the usual one.
    """

    durations: CheckpointDurations = msgspec.field(default_factory=CheckpointDurations)
    open: Creep | None = None
    slope: float = 0.0
    sloped: int = 0
    accepted: float = 0.0


class CheckpointDurationCreep(JobDetector):
    """Detects checkpoints that take longer and longer."""

    kind = "checkpoint_duration_creep"
    Job = JobCreep

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_duration_creep`."""

        min_checkpoints: int = threshold(
            20,
            "Number of checkpoints from which a trend is looked for. With fewer no trend is significant.",
            ge=12,
            le=64,
        )
        significance: float = threshold(
            0.01,
            "Significance level (p-value) of the rank test: the accepted chance that noise is taken for a rise.",
            gt=0,
            le=0.05,
        )
        growth: float = threshold(
            0.5,
            "Minimum growth of durations over the usual one (0.5 is 50 %). Load and storage cause smaller changes.",
            ge=0.1,
        )
        min_increase: Duration = threshold(
            500, "Minimum growth of durations as a time. Short checkpoints vary by large factors."
        )
        horizon: Duration = threshold(
            86_400_000,
            "Time within which the trend must reach a limit. Trends are not reliable any further ahead.",
        )
        extrapolation_factor: float = threshold(
            12.0,
            "How far ahead a rise that began after a flat phase is extrapolated towards the checkpoint timeout, as a "
            "multiple of the time for which it has been seen. A higher value warns earlier and of more rises that "
            "level off.",
            gt=0,
        )
        extrapolation_factor_after_start: float = threshold(
            4.0,
            "The same as `extrapolation_factor`, for durations that have risen ever since they were first seen. Lower, "
            "because after a start state fills up and then levels off.",
            gt=0,
        )
        min_level_duration: Duration = threshold(
            1_800_000,
            "Time for which durations must stay at a higher level to be reported without a trend. A job that catches "
            "up after a restart has shorter checkpoints again within it.",
        )
        critical_within: Duration = threshold(
            3_600_000, "Time to the checkpoint timeout below which the finding is critical."
        )
        timeout: Duration = threshold(
            600_000,
            "Checkpoint timeout to assume if it is known neither from an expired checkpoint nor from the configuration "
            "that Flink prints.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id; `timeout` is the one configured for the cluster in ms (0: not seen)."""

        jobs: dict[str, JobCreep] = {}
        timeout: int = 0

    @on(facts.CheckpointTimeoutSet, job="none")
    def timeout_set(self, view: _View, fact: facts.CheckpointTimeoutSet) -> None:
        view.state.timeout = flink_duration(fact.value)

    @on(facts.CheckpointTriggered, job="any")
    def triggered(self, job: _Job, fact: facts.CheckpointTriggered) -> None:
        job.own.durations.log()
        if not fact.savepoint:
            job.own.durations.triggered(fact.number, job.checkpoints.completed, job.time)

    @on(facts.CheckpointCompleted, job="any")
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        record = job.record()
        if job.own.durations.complete(fact, record, job.topology.input_rate(job.id)):
            self._judge(job, record)

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: facts.JobRestored) -> None:
        if "from savepoint" in job.record().text.lower():
            if job.own.durations.start_fresh(job.time):
                job.own.accepted = 0.0
                self._close(job, "the job was started from a savepoint")
        else:
            job.own.durations.restart()

    @on(facts.JobStateChanged)
    def job_changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            job.own.durations.restart()
        elif fact.ended:
            self._close(job, f"the job is {fact.state}")
            job.forget()

    @on(
        "last_checkpoint_duration",
        "last_checkpoint_size",
        "last_checkpoint_full_size",
        "completed_checkpoints",
        job="none",
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        # The duration comes last: the count shows whether an equal duration belongs to another checkpoint.
        for sample in sorted(samples, key=lambda s: s.name == "last_checkpoint_duration"):
            if sample.labels.get("job_id"):
                job = self.new_job(view, sample.labels["job_id"])
                if job.own.durations.measure(view.record(), sample, view.topology.input_rate(job.id)):
                    self._judge(job, view.record(f"lastCheckpointDuration {sample.value:.0f}"))

    def on_config_change(self, view: _View) -> None:
        """Judge rises that continue at once, without waiting for the next checkpoint."""
        for job in self.jobs(view):
            points, records = job.own.durations.history.points(0), job.own.durations.records
            pause = _MAX_GAPS * (points[-1].time - points[0].time) / len(points) if points else 0
            if records and points and view.clock - points[-1].time <= pause:
                self._judge(job, Evidence(*records[-1]))

    def job_readings(self, job: _Job) -> Iterator[Reading]:
        """How fast durations grow, when a limit is reached, and the last duration if no other detector has it."""
        durations, open_one = job.own.durations, job.own.open
        points = durations.history.points(0)
        if len(points) >= job.config.min_checkpoints:
            if not 0 <= durations.seen - job.own.sloped < _SLOPE_EVERY:
                job.own.slope = theil_sen([p.time for p in points], [p.value for p in points]).slope
                job.own.sloped = durations.seen
            yield job.reading("checkpoint_duration_slope_ratio", job.own.slope, job=job.label)
        if open_one is not None and open_one.finding.forecast is not None:
            at = open_one.finding.forecast.at / 1000
            yield job.reading("checkpoint_limit_reached_timestamp_seconds", at, job=job.label)
        if points and not durations.logged:
            yield job.reading("checkpoint_duration_last_seconds", points[-1].value / 1000, job=job.label)

    def _judge(self, job: _Job, record: Evidence) -> None:
        config, own, before = job.config, job.own, job.own.open
        history = own.durations.history
        if own.durations.seen < config.min_checkpoints:
            return
        found = rise(history, config.growth, config.significance, only_new=before is None)
        if found is None and before is None and history.scales[0].waiting:
            return  # A step stays: every fourth duration is soon enough to look for one.
        limits, expired = self._limits(job), job.checkpoints.expired
        if found is not None and (before is not None or self._credible(found, config, limits)):
            usual = before.usual if before else found.usual
            grown = grown_by_trend(found, usual, limits, config.horizon, config.critical_within, expired)
            self._report(job, record, grown)
        elif (before is None or before.scale == STEP) and (step := self._step(job, limits)) is not None:
            self._report(job, record, grown_in_a_step(step, before.usual if before else step.before, limits, expired))
        elif before is not None:
            why, level = why_ended(history, before.usual, before.peak, before.scale, limits, config.horizon)
            if why:
                own.accepted = level
                self._close(job, why)

    def _step(self, job: _Job, limits: Limits) -> Shift | None:
        """A step to a level that matters, above the one that was reported or has become the usual one."""
        known = max(job.own.accepted, job.own.open.reported if job.own.open else 0)
        return step_that_matters(job.own.durations.history, limits, known, job.config)

    def _report(self, job: _Job, record: Evidence, grown: Growth) -> None:
        before = job.own.open
        critical = grown.critical or (grown.scale == STEP and before and before.finding.severity == "critical")
        severity: Severity = "critical" if critical else "warning"
        peak, since = grown.level, grown.since
        if before is not None:
            before.peak, before.scale = max(before.peak, grown.level), grown.scale
            peak, since = before.peak, before.finding.since
            # A rise that lasts hours is not reported again with every checkpoint.
            if severity == before.finding.severity and grown.level < (1 + _REPORT_AGAIN) * before.reported:
                return
        finding = job.finding(
            job.id,
            job.entity(),
            since=since,
            severity=severity,
            summary=grown.summary + job.withheld(),
            confidence="sure" if grown.sure else "fair",
            evidence=job.own.durations.evidence(since, record),
            forecast=grown.forecast,
            series=grown.series,
            advice=keep_state(job.id) + _ADVICE,
        )
        job.own.open = Creep(grown.usual, peak, grown.level, grown.scale, finding)
        job.report(msgspec.structs.replace(finding))

    def _limits(self, job: _Job) -> Limits:
        """The limits for durations, in ms, the worst first."""
        timeout = job.checkpoints.timeout or job.state.timeout or job.config.timeout
        interval = job.own.durations.interval()
        return {TIMEOUT: timeout} | ({INTERVAL: interval} if interval else {})

    def _credible(self, found: Rise, config: Config, limits: Limits) -> bool:
        """Whether a rise is worth reporting: it leads to a limit, and the input does not explain it."""
        times = config.extrapolation_factor if found.established else config.extrapolation_factor_after_start
        far = found.level <= limits[TIMEOUT] / 2
        return (
            any(found.believed(level, config.horizon, times) for level in limits.values())
            and found.level - found.usual >= config.min_increase
            and not (far and found.follows_load(_LOADED))
        )

    def _close(self, job: _Job, why: str) -> None:
        if job.own.open is not None:
            job.close(job.own.open.finding, why)
            job.own.open = None


_ADVICE = (
    "See in Flink's UI which operator's sync duration, async duration or alignment has grown. Until that is fixed, a "
    "higher execution.checkpointing.timeout keeps checkpoints from failing. To apply it, stop the job with a savepoint "
    "while one still completes, and start the job from that savepoint. To prevent it: bound the state (TTL, smaller "
    "windows), incremental or unaligned checkpoints, faster storage, more parallelism."
)
