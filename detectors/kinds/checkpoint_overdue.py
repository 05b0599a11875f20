"""A checkpoint in progress is far older than this job's checkpoints usually get, or has expired.

Opens when a checkpoint is older than `factor` × the job's usual high (95 % quantile of its last 64 durations) and older
than `min_age`; before `min_history` durations are known, only `learning_limit` applies. Opens at once, as critical,
when Flink logs that the checkpoint expired. Resolved when that checkpoint or a later one completes, or when the job
ends.

Why it matters: a hanging checkpoint is the first sign of a stuck sink, a full heap or barriers behind slow input,
minutes before the checkpoint timeout (10 min by default). Until one completes, every failure replays from the last.
`late_barrier_acks` shows why a checkpoint expired, `checkpoint_duration_creep` reports slow growth. Savepoints are
never overdue and do not count as history; neither does the first checkpoint after a restore. If the JobManager's
metrics stop together with its lines, the checkpoint may have completed unseen: that is left to `telemetry_lost`.

Reference: Flink, "Checkpointing under backpressure"; post-mortem 000, where checkpoint 1232 hung for 177 s before the
TaskManager was lost, and nothing else warned.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.job_states import ENDING, RESTARTING
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast, Reading
from detectors.numerics.trend import quantile
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_JOBS = 200
_MAX_HISTORY = 64
_MAX_IN_FLIGHT = 8
_GAUGE_LAG_MS = 5_000
_MAX_LAG_MS = 300_000
_SAME_SCRAPE_MS = 500
_LAG_FADES = 64
_RUNNING_AGAIN = RESTARTING | {"INITIALIZING"}
_CLOSING = ENDING | {"SUSPENDED"}


class CheckpointInFlight(msgspec.Struct, array_like=True):
    """A checkpoint in progress: event time and clock of its trigger, and the record."""

    since: int
    at: int
    record: Evidence


class OverdueCheckpoint(msgspec.Struct, array_like=True):
    """The checkpoint that the open finding is about. `expired` counts expiries since the last completed one."""

    checkpoint: int
    since: int
    records: list[Evidence]
    expired: int = 0


class CheckpointGauge(msgspec.Struct, array_like=True):
    """A job's gauge of checkpoints in progress.

    `last_seen` is the clock of the last sample, `every` the longest usual gap between samples, `hold` the age of a
    checkpoint until which nothing is reported.
    """

    last_seen: int
    every: int = 0
    hold: int = 0


class JobCheckpoints(msgspec.Struct, array_like=True):
    """The checkpoints of one job. Durations and ages are in ms.

    `high` is the usual high of the durations, `timeout` is learned from the last expired checkpoint.

    `reset` is the event time at which the job last changed or was restored: checkpoint numbers may start again there,
    and earlier lines are ignored. `given_up` is the last checkpoint that failed; its trigger line may come twice.
    """

    durations: list[int] = []
    high: int = 0
    in_flight: dict[int, CheckpointInFlight] = {}
    completed: int = -1
    last_duration: int = -1
    restored: bool = False
    timeout: int = 600_000
    late: OverdueCheckpoint | None = None
    reset: int = LONG_AGO
    concurrent: bool = False
    lag: int = 0
    given_up: int = -1
    gauge: CheckpointGauge | None = None


class CheckpointOverdue(Detector):
    """Detects checkpoints that hang or expire."""

    kind = "checkpoint_overdue"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            "checkpoint_triggered",
            "checkpoint_completed",
            "checkpoint_expired",
            "checkpoint_declined",
            "checkpoint_failed",
            "checkpoints_stopped",
            "job_restored",
            "job_state",
            "job_ended",
            "cluster_ending",
            "checkpoints_in_progress",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_overdue`."""

        factor: float = Field(
            3.0,
            ge=1.5,
            description="Multiple of the job's usual high (95 % quantile of its checkpoint durations) from which a "
            "checkpoint is overdue.",
        )
        min_age: Duration = Field(
            30_000,
            description="Age below which a checkpoint is never overdue. Short checkpoints vary by large factors.",
        )
        min_history: int = Field(
            5, ge=2, le=64, description="Number of completed checkpoints from which the job's own history is used."
        )
        learning_limit: Duration = Field(
            300_000,
            description="Age from which a checkpoint is overdue while there is too little history. The default is "
            "half of Flink's default timeout.",
        )
        deaf_for: Duration = Field(
            300_000,
            description="Age below which an overdue checkpoint is not reported while the JobManager's metrics are "
            "missing too, because it may have completed unseen.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id."""

        jobs: dict[str, JobCheckpoints] = {}

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            self._measured(state, event, now)
            return
        if event.event_type == "cluster_ending":
            for ending in state.jobs.values():
                ending.in_flight.clear()
            return
        job = topology.job_of(event)
        known = state.jobs.get(job)
        if known is None:
            if event.event_type not in ("checkpoint_triggered", "checkpoint_expired"):
                return
            known = self._new_job(state, job)
        number = int(event.fields.get("checkpoint", -1))
        known.lag = max(min(event.timestamp - now.time, _MAX_LAG_MS), known.lag - known.lag // _LAG_FADES)
        match event.event_type:
            case "checkpoint_triggered":
                yield from self._triggered(known, job, number, event, now, topology)
            case "checkpoint_completed":
                yield from self._completed(known, job, number, int(event.fields["duration"]), now, topology)
            case "checkpoint_expired" if number > known.completed and now.time >= known.reset:
                yield from self._expired(known, job, number, event, now, topology)
            case "checkpoint_declined" | "checkpoint_failed" | "checkpoint_expired":
                known.in_flight.pop(number, None)
                known.given_up = max(known.given_up, number)
            case "job_restored":
                self._reset(known, now.time, restored=True)
            case _:
                yield from self._job_changed(state, known, job, event.fields.get("state", ""), now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report checkpoints whose age has reached the limit."""
        for job, known in state.jobs.items():
            overdue = self._oldest(known)
            if overdue is not None and known.late is None and now >= self._report_at(known, job, overdue[1]):
                number, flight = overdue
                if known.gauge is not None and not known.gauge.hold and _metrics_stopped(known.gauge, flight, now):
                    known.gauge.hold = self.config_of(job).deaf_for
                    continue
                known.late = OverdueCheckpoint(number, flight.since, [flight.record])
                yield self._finding(known, known.late, job, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the oldest checkpoint in progress of any job becomes overdue."""
        jobs = state.jobs.items()
        waiting = [(k, job, o[1]) for job, k in jobs if k.late is None and (o := self._oldest(k)) is not None]
        return min((self._report_at(*one) for one in waiting), default=None)

    def limit(self, known: JobCheckpoints, job: str) -> int:
        """Age in ms at which a checkpoint of this job is overdue."""
        config: CheckpointOverdue.Config = self.config_of(job)
        if len(known.durations) < config.min_history:
            return config.learning_limit
        return max(config.min_age, round(config.factor * known.high))

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export usual and last duration, the limit, and when the checkpoint in progress started, per job."""
        for job, known in state.jobs.items():
            job_label = topology.job_name(job) or job
            if known.durations:
                usual = quantile(known.durations, 0.5)
                yield Reading(
                    name="checkpoint_duration_usual_seconds", labels={"job": job_label}, value=usual / 1000, at=now
                )
                yield Reading(
                    name="checkpoint_duration_last_seconds",
                    labels={"job": job_label},
                    value=known.last_duration / 1000,
                    at=now,
                )
                yield Reading(
                    name="checkpoint_overdue_limit_seconds",
                    labels={"job": job_label},
                    value=self.limit(known, job) / 1000,
                    at=now,
                )
            oldest = self._oldest(known)
            if oldest is not None:
                since = oldest[1].since / 1000
                yield Reading(
                    name="checkpoint_in_flight_since_timestamp_seconds", labels={"job": job_label}, value=since, at=now
                )

    def _report_at(self, known: JobCheckpoints, job: str, flight: CheckpointInFlight) -> int:
        at = flight.at + self.limit(known, job) + known.lag
        return (
            at if known.gauge is None else max(at, flight.at + known.gauge.hold, _sample_deadline(known.gauge, flight))
        )

    def _new_job(self, state: State, job: str) -> JobCheckpoints:
        known = JobCheckpoints()
        put_bounded(state.jobs, job, known, _MAX_JOBS)
        return known

    def _oldest(self, known: JobCheckpoints) -> tuple[int, CheckpointInFlight] | None:
        return min(known.in_flight.items(), key=lambda f: f[1].at, default=None)

    def _triggered(
        self, known: JobCheckpoints, job: str, number: int, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if (
            "savepoint" in event.fields.get("type", "").lower()
            or number <= max(known.completed, known.given_up)
            or number in known.in_flight
        ):
            return
        if now.time < known.reset:
            return
        # By default a checkpoint is triggered only after the previous one has ended, so the line of that end was lost.
        ended = number - _MAX_IN_FLIGHT if known.concurrent else number
        for older in [n for n in known.in_flight if n <= ended]:
            del known.in_flight[older]
            if known.late is not None and known.late.checkpoint == older and not known.late.expired:
                yield self._closing(
                    known, known.late, job, now, topology, f"checkpoint {number} was triggered after it"
                )
        if known.gauge is not None:
            known.gauge.hold = 0
        known.in_flight[number] = CheckpointInFlight(now.time, now.clock, evidence(event, now.time))

    def _completed(
        self, known: JobCheckpoints, job: str, number: int, duration: int, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if number <= known.completed or now.time < known.reset:
            return
        again = known.restored
        if number in known.in_flight and not known.restored:
            known.durations = [*known.durations, duration][-_MAX_HISTORY:]
            known.high = round(quantile(known.durations, 0.95))
        if number in known.in_flight:
            known.restored = False
            known.last_duration = duration
        known.completed = number
        known.concurrent |= any(n > number for n in known.in_flight)
        known.in_flight = {n: f for n, f in known.in_flight.items() if n > number}
        if known.late is not None and (number >= known.late.checkpoint or again):
            yield self._closing(
                known, known.late, job, now, topology, f"checkpoint {number} completed in {humanize(duration)}"
            )

    def _expired(
        self, known: JobCheckpoints, job: str, number: int, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        flight = known.in_flight.pop(number, None)
        known.given_up = max(known.given_up, number)
        if known.late is not None and known.late.checkpoint == number and known.late.expired:
            return
        if flight is not None:
            known.timeout = max(now.time - flight.since, 1)
        before = known.late
        records = [*([flight.record] if flight else []), evidence(event, now.time)]
        since = before.since if before else flight.since if flight else now.time
        known.late = OverdueCheckpoint(number, since, records, (before.expired if before else 0) + 1)
        yield self._finding(known, known.late, job, now.clock, topology)

    def _job_changed(
        self, state: State, known: JobCheckpoints, job: str, new: str, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        self._reset(known, now.time, restored=known.restored or new in _RUNNING_AGAIN)
        if new in _CLOSING and known.late is not None:
            yield self._closing(known, known.late, job, now, topology, f"the job is {new}")
        if new in ENDING:
            del state.jobs[job]

    def _reset(self, known: JobCheckpoints, time: int, restored: bool) -> None:
        """Drop checkpoints in progress. After a restore from an older savepoint numbers jump back."""
        known.restored = restored
        known.in_flight.clear()
        if time > known.reset:
            known.reset, known.completed, known.given_up = time, -1, -1

    def _measured(self, state: State, event: MetricEvent, now: Now) -> None:
        """A gauge of 0 after a trigger: the line of its end was lost, or has not arrived yet."""
        for sample in event.samples:
            known = state.jobs.get(sample.labels.get("job_id", ""))
            if sample.name != "checkpoints_in_progress" or known is None:
                continue
            gauge = known.gauge = known.gauge or CheckpointGauge(now.clock)
            gap = now.clock - gauge.last_seen
            if gap >= _SAME_SCRAPE_MS:
                gauge.every = min(max(gap, gauge.every - gauge.every // _LAG_FADES), _MAX_LAG_MS)
            gauge.last_seen, gauge.hold = max(gauge.last_seen, now.clock), 0
            if sample.value == 0:
                taken = event.time - _GAUGE_LAG_MS
                known.in_flight = {n: f for n, f in known.in_flight.items() if f.since > taken}

    def _closing(
        self, known: JobCheckpoints, late: OverdueCheckpoint, job: str, now: Now, topology: Topology, why: str
    ) -> Finding:
        finding = self._finding(known, late, job, now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        known.late = None
        return finding

    def _finding(
        self, known: JobCheckpoints, late: OverdueCheckpoint, job: str, now: int, topology: Topology
    ) -> Finding:
        name = topology.job_name(job)
        learned = len(known.durations) >= self.config_of(job).min_history
        usual = f"usually {humanize(quantile(known.durations, 0.5))}" if learned else "usual duration not known yet"
        if late.expired > 1:
            summary = f"{late.expired} checkpoints in a row expired, the last is {late.checkpoint} ({usual})"
        elif late.expired:
            summary = f"checkpoint {late.checkpoint} expired after {humanize(known.timeout)} ({usual})"
        else:
            summary = f"checkpoint {late.checkpoint} has not completed after {humanize(now - late.since)} ({usual})"
        expiry = late.since + known.timeout
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name, "checkpoint": str(late.checkpoint)},
            since=late.since,
            at=now,
            severity="critical" if late.expired else "warning",
            summary=summary,
            confidence="sure" if late.expired else "fair" if learned else "learning",
            evidence=list(late.records),
            forecast=None if late.expired else Forecast("the checkpoint expires", expiry, expiry, expiry),
            advice="Open the checkpoint in Flink's UI and see which subtasks have not acknowledged. Look at "
            "backpressure and at garbage collection on their TaskManager. Do not restart the job to get rid of the "
            "checkpoint: a failure now replays from the last completed one.",
        )


def _sample_deadline(gauge: CheckpointGauge, flight: CheckpointInFlight) -> int:
    """Clock until which to wait for a sample that shows whether the checkpoint still runs; 0 without a need to wait."""
    last = gauge.last_seen + 2 * gauge.every
    return last + 1 if gauge.every > 0 and gauge.last_seen <= flight.at + _GAUGE_LAG_MS and flight.at <= last else 0


def _metrics_stopped(gauge: CheckpointGauge, flight: CheckpointInFlight, now: int) -> bool:
    """Whether metrics arrived when the checkpoint was triggered and have stopped since."""
    enough = 2 * gauge.every
    return gauge.every > 0 and flight.at - gauge.last_seen <= enough < now - gauge.last_seen
