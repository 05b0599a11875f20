"""The checkpoints of a job take longer and longer, and will reach the checkpoint timeout or their interval.

Opens when the durations rise (`rise.py`: robust trend, rank test), have grown by `growth` over the usual duration and
by at least `min_increase`, and reach a limit within `horizon`: the timeout (learned from an expiry or from the
configuration that Flink prints) or the interval (learned), from which checkpoints follow each other without a pause. A
trend is extrapolated to `extrapolation_factor` times the time for which it has been seen, and to less after a start,
when windows and state fill up and level off. Critical when the timeout is less than `critical_within` away. Resolved
when durations have fallen back or stopped growing, when the job ends, or when it starts from a savepoint.

Not reported: noise, a single jump, a daily peak that has occurred before, durations that grow with the input.
`checkpoint_durations.py` says which checkpoints do not count. Without log lines the gauge lastCheckpointDuration is
used. `checkpoint_overdue` reports a single checkpoint that hangs.

Why it matters: this is the one checkpoint problem that can be seen hours before the first checkpoint expires.
Reference: Flink, "Checkpointing under backpressure"; Sen (1968); Mann (1945).
"""

from collections.abc import Iterator
from statistics import median

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.checkpoint_durations import CheckpointDurations
from detectors.flink.job_states import ENDED, RESTARTING
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast, Reading, Series
from detectors.numerics.rise import Rise, rise
from detectors.numerics.trend import Crossing, crossing, mann_kendall, theil_sen, thin
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, flink_duration, humanize

_MAX_JOBS = 200
_LATEST = 6
_SETTLED = (32, 64)
_SETTLED_P = 0.1
_FIRST_SYMPTOM = 0.25
_WITH_STATE = 1.2
_REPORT_AGAIN = 0.1
_LOADED = 1.2
_MAX_GAPS = 3
_HOUR_MS = 3_600_000


class Creep(msgspec.Struct, array_like=True):
    """The open finding: usual, highest and last reported duration (ms), and the time scale on which it rises."""

    usual: float
    peak: float
    reported: float
    scale: int
    finding: Finding


class JobCreep(msgspec.Struct, array_like=True):
    """The checkpoint durations of one job. `name` is its name in metrics.

    `slope` is cached, because it takes a while to compute: it holds for the first `sloped` checkpoints.
    """

    durations: CheckpointDurations = msgspec.field(default_factory=CheckpointDurations)
    name: str = ""
    open: Creep | None = None
    slope: float = 0.0
    sloped: int = 0


class CheckpointDurationCreep(Detector):
    """Detects checkpoints that take longer and longer."""

    kind = "checkpoint_duration_creep"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            "checkpoint_triggered",
            "checkpoint_completed",
            "checkpoint_expired",
            "checkpoint_timeout_set",
            "job_restored",
            "job_state",
            "job_ended",
            "last_checkpoint_duration",
            "last_checkpoint_size",
            "last_checkpoint_full_size",
            "completed_checkpoints",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_duration_creep`."""

        min_checkpoints: int = Field(
            20,
            ge=12,
            le=64,
            description="Number of checkpoints from which a trend is looked for. With fewer no trend is significant.",
        )
        significance: float = Field(
            0.01,
            gt=0,
            le=0.05,
            description="Significance level (p-value) of the rank test: the accepted chance that noise is taken for "
            "a rise.",
        )
        growth: float = Field(
            0.5,
            ge=0.1,
            description="Minimum growth of durations over the usual one (0.5 is 50 %). Load and storage cause "
            "smaller changes.",
        )
        min_increase: Duration = Field(
            500,
            description="Minimum growth of durations as a time. Short checkpoints vary by large factors.",
        )
        horizon: Duration = Field(
            86_400_000,
            description="Time within which the trend must reach a limit. Trends are not reliable any further ahead.",
        )
        extrapolation_factor: float = Field(
            12.0,
            gt=0,
            description="Limit of the extrapolation of a rise after a flat phase, as a multiple of the time for "
            "which the rise has been seen.",
        )
        extrapolation_factor_after_start: float = Field(
            4.0,
            gt=0,
            description="The same multiple for durations that have risen ever since they were first seen. After a "
            "start state fills up and then levels off.",
        )
        critical_within: Duration = Field(
            3_600_000, description="Time to the checkpoint timeout below which the finding is critical."
        )
        timeout: Duration = Field(
            600_000,
            description="Checkpoint timeout to assume if it is known neither from an expired checkpoint nor from the "
            "configuration that Flink prints.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id; `timeout` is the one configured for the cluster in ms (0: not seen)."""

        jobs: dict[str, JobCreep] = {}
        timeout: int = 0

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            yield from self._measured(state, event, now, topology)
        elif event.event_type == "checkpoint_timeout_set":
            state.timeout = flink_duration(event.fields.get("value", ""))
        else:
            yield from self._logged(state, event, now, topology)

    def _logged(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job = topology.job_of(event)
        known = state.jobs.get(job)
        if known is None:
            if event.event_type not in ("checkpoint_triggered", "checkpoint_completed"):
                return
            known = self._new_job(state, job)
        durations, number = known.durations, int(event.fields.get("checkpoint", -1))
        match event.event_type:
            case "checkpoint_triggered":
                durations.log()
                durations.trigger(number, now.time, "savepoint" in event.fields.get("type", "").lower())
            case "checkpoint_completed":
                durations.log()
                took, size = int(event.fields["duration"]), int(event.fields["bytes"])
                record = evidence(event, now.time)
                if durations.complete(number, took, size, record, _load(topology, job)):
                    yield from self._judged(state, known, job, record, now, topology)
            case "checkpoint_expired":
                durations.expire(number, now.time)
            case "job_restored":
                fresh = "from savepoint" in event.text.lower()
                if durations.restore(now.time, fresh) and fresh:
                    yield from self._closed(known, now, "the job was started from a savepoint")
            case _:
                new = event.fields.get("state", "")
                if new in RESTARTING:
                    durations.restore(now.time, fresh=False)
                elif new in ENDED:
                    yield from self._closed(known, now, f"the job is {new}")
                    del state.jobs[job]

    def on_config_change(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Judge rises that continue at once, without waiting for the next checkpoint."""
        for job, known in state.jobs.items():
            points, records = known.durations.history.points(0), known.durations.records
            if (
                records
                and points
                and now - points[-1].time <= _MAX_GAPS * (points[-1].time - points[0].time) / len(points)
            ):
                record = Evidence(*records[-1])
                yield from self._judged(state, known, job, record, Now(now, record.time), topology)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export how fast durations grow, when the timeout is reached, and the last duration if no other detector has
        it.
        """
        for job, known in state.jobs.items():
            labels, durations = {"job": topology.job_name(job) or known.name or job}, known.durations
            points = durations.history.points(0)
            if len(points) >= self.config_of(job).min_checkpoints:
                if known.sloped != durations.seen:
                    known.slope = theil_sen([p.time for p in points], [p.value for p in points]).slope
                    known.sloped = durations.seen
                yield Reading(name="checkpoint_duration_slope_ratio", labels=labels, value=known.slope, at=now)
            if known.open is not None and known.open.finding.forecast is not None:
                at = known.open.finding.forecast.at / 1000
                yield Reading(name="checkpoint_limit_reached_timestamp_seconds", labels=labels, value=at, at=now)
            if points and not durations.logged:
                last = points[-1].value / 1000
                yield Reading(name="checkpoint_duration_last_seconds", labels=labels, value=last, at=now)

    def _new_job(self, state: State, job: str) -> JobCreep:
        known = JobCreep()
        put_bounded(state.jobs, job, known, _MAX_JOBS)
        return known

    def _measured(self, state: State, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        # The duration comes last: the count shows whether an equal duration belongs to another checkpoint.
        wanted = (s for s in event.samples if s.name in self.event_types and s.labels.get("job_id"))
        for sample in sorted(wanted, key=lambda s: s.name == "last_checkpoint_duration"):
            job = sample.labels["job_id"]
            known = state.jobs.get(job) or self._new_job(state, job)
            known.name = sample.labels.get("job_name", known.name)
            if known.durations.measure(event, sample, _load(topology, job)):
                record = Evidence(
                    event.topic, event.partition, event.offset, event.time, f"lastCheckpointDuration {sample.value:.0f}"
                )
                yield from self._judged(state, known, job, record, now, topology)

    def _judged(
        self, state: State, known: JobCreep, job: str, record: Evidence, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        config = self.config_of(job)
        if known.durations.seen < config.min_checkpoints:
            return
        limits = self._limits(state, config, known.durations)
        found = rise(known.durations.history, config.growth, config.significance, only_new=known.open is None)
        if found is None:
            if known.open is not None and (why := self._why_ended(known, config, known.open, limits)):
                yield from self._closed(known, now, why)
            return
        reached = {what: c for what, level in limits.items() if (c := self._reached(found, config, level))}
        if known.open is None and (
            not any(self._believed(found, config, level) for level in limits.values())
            or found.level - found.usual < config.min_increase
            or self._follows_load(found, limits)
        ):
            return
        before = known.open
        usual = before.usual if before else found.usual
        since = before.finding.since if before else found.since(_FIRST_SYMPTOM)
        name = topology.job_name(job) or known.name
        finding = self._finding(found, (job, name), reached, limits, usual, since, now)
        if finding.series is not None:
            expired = [(time, age / 1000) for time, age in known.durations.expired]
            finding.series = msgspec.structs.replace(finding.series, failed=expired)
        if before is not None:
            before.peak, before.scale = max(before.peak, found.level), found.scale
            # A rise that lasts hours is not reported again with every checkpoint.
            if finding.severity == before.finding.severity and found.level < (1 + _REPORT_AGAIN) * before.reported:
                return
        finding.evidence = _records([Evidence(*r) for r in known.durations.records], record, since)
        known.open = Creep(usual, max(found.level, before.peak if before else 0), found.level, found.scale, finding)
        yield msgspec.structs.replace(finding)

    def _limits(self, state: State, config: Config, durations: CheckpointDurations) -> dict[str, int]:
        """The limits for durations, in ms, the worst first."""
        timeout, interval = durations.timeout or state.timeout or config.timeout, durations.interval()
        return {"the checkpoint timeout": timeout} | ({"the checkpoint interval": interval} if interval else {})

    def _reached(self, found: Rise, config: Config, level: float) -> Crossing | None:
        """When a limit that has not been reached yet will be, if within the horizon."""
        ahead = found.reaches(level) if found.level < level else None
        return ahead if ahead is not None and ahead.at - found.now <= config.horizon else None

    def _believed(self, found: Rise, config: Config, level: float) -> bool:
        """Whether the trend has been seen for long enough to reach this limit. After a start only the line counts."""
        ahead = self._reached(found, config, level)
        if ahead is not None and not found.established:
            ahead = crossing(found.fit.line, level, found.now)
        times = config.extrapolation_factor if found.established else config.extrapolation_factor_after_start
        return ahead is not None and ahead.at - found.now <= times * (found.now - found.points[0].time)

    def _follows_load(self, found: Rise, limits: dict[str, int]) -> bool:
        """Whether the input has grown about as much as the durations, which are still far from the timeout."""
        third = len(found.points) // 3
        early, late = found.points[:third], found.points[-third:]
        if min(p.load for p in found.points) <= 0 or found.level > limits["the checkpoint timeout"] / 2:
            return False
        more = median(p.load for p in late) / median(p.load for p in early)
        longer = median(p.value for p in late) / median(p.value for p in early)
        return more >= _LOADED and longer <= _LOADED * more

    def _why_ended(self, known: JobCreep, config: Config, creep: Creep, limits: dict[str, int]) -> str:
        """Why the rise has ended; empty while it continues."""
        history = known.durations.history
        latest = median(p.value for p in history.points(0, _LATEST))
        if latest <= creep.usual + _FIRST_SYMPTOM * (creep.peak - creep.usual):
            return f"the last {_LATEST} checkpoints took {humanize(latest)} (median)"
        for count in _SETTLED:
            points = history.points(creep.scale, count)
            values = [p.value for p in points]
            if len(points) < count or mann_kendall(values) < _SETTLED_P:
                continue
            line = theil_sen([p.time for p in points], values)
            fastest = line._replace(slope=line.high, intercept=line.at(points[-1].time) - line.high * points[-1].time)
            ahead = [crossing(fastest, level, points[-1].time) for level in limits.values() if level > latest]
            if all(c is None or c.at - points[-1].time > config.horizon for c in ahead):
                span = humanize(points[-1].time - points[0].time)
                return (
                    f"checkpoint duration has stayed at about {humanize(median(values))} for {span} and no longer grows"
                )
        return ""

    def _closed(self, known: JobCreep, now: Now, why: str) -> Iterator[Finding]:
        if known.open is not None:
            closed = msgspec.structs.replace(known.open.finding, at=now.clock, closed_at=now.clock, closed_because=why)
            known.open = None
            yield closed

    def _finding(
        self,
        found: Rise,
        names: tuple[str, str],
        reached: dict[str, Crossing],
        limits: dict[str, int],
        usual: float,
        since: int,
        now: Now,
    ) -> Finding:
        job, name = names
        what, ahead = next(iter(reached.items()), ("", None))
        until = [f"{w} of {humanize(limits[w])} in about {humanize(c.at - found.now)}" for w, c in reached.items()]
        soon = ahead is not None and ahead.at - found.now < self.config_of(job).critical_within and "timeout" in what
        per_hour = 0 if found.fit.exponential else found.fit.line.slope * _HOUR_MS
        pace = f" and grows by {humanize(per_hour)} per hour" if per_hour > 0 else ", and growth is accelerating"
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name},
            since=since,
            at=now.clock,
            severity="critical" if soon else "warning",
            summary=f"checkpoint duration rose from {humanize(usual)} to {humanize(found.level)}{pace}; "
            + (f"it reaches {' and '.join(reversed(until))}; " if until else "")
            + _state_size(found),
            confidence="sure" if found.established else "fair",
            forecast=Forecast(f"checkpoint duration reaches {what}", ahead.at, ahead.earliest, ahead.latest)
            if ahead
            else None,
            series=_series(found, limits.get(what)),
            advice=keep_state(job)
            + "See in Flink's UI which operator's sync duration, async duration or alignment has grown. Until that is "
            "fixed, a higher execution.checkpointing.timeout keeps checkpoints from failing. To apply it, stop the job "
            "with a savepoint while one still completes, and start the job from that savepoint. For good: bound the "
            "state (TTL, smaller windows), incremental or unaligned checkpoints, faster storage, more parallelism.",
        )


def _load(topology: Topology, job: str) -> float:
    rates = [i.rate for i in topology.intake.get(job, {}).values()]
    return float(sum(rates)) if rates and min(rates) >= 0 else -1.0


def _records(records: list[Evidence], last: Evidence, since: int) -> list[Evidence]:
    own = [r for r in records if r.time >= since and r != last]
    return [*own[:1], *own[len(own) // 2 : len(own) // 2 + 1][len(own) < 2 :], last]


def _state_size(found: Rise) -> str:
    sizes = [p.size for p in found.points if p.size > 0]
    third = len(sizes) // 3
    if not third:
        return "state size is unknown"
    early, late = median(sizes[:third]), median(sizes[-third:])
    if late >= _WITH_STATE * early:
        return f"state size grew too, from {_bytes(early)} to {_bytes(late)}"
    return f"state size stays at {_bytes(late)}, so look at storage, alignment or backpressure"


def _bytes(size: float) -> str:
    unit, scale = next((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1)) if size >= s or s == 1)
    return f"{size / scale:.3g} {unit}"


def _series(found: Rise, threshold: float | None) -> Series:
    since = found.since(0)
    fit = [(p.time, found.fit.at(p.time) / 1000) for p in found.points if p.time >= since]
    return Series(
        name="checkpoint duration",
        unit="s",
        points=thin([(p.time, p.value / 1000) for p in found.points]),
        threshold=threshold / 1000 if threshold else None,
        fit=thin(fit, 16 if found.fit.exponential else 3),
    )
