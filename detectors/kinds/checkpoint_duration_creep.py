"""Checkpoints of a job take longer and longer, and will reach the checkpoint timeout or their interval.

Fires when the durations rise (`rise.py`: robust trend, rank test), have grown by `growth` over what was usual and by
`min_increase`, and reach a limit within `horizon`: the timeout (learned from an expiry or from the configuration that
Flink prints) or the interval (learned), where checkpoints begin to follow each other without pause. A trend is believed
for `extrapolation_factor` times as long as it has been seen, and less after a start, when windows and state fill up and
level off. Critical when the timeout is less than `critical_within` away. Ends when the durations are back, when they
have stopped growing, or when the job ends or starts anew from a savepoint.

Does not fire on noise, one jump, a daily peak that has been there before, or durations that grow with the input. What
does not count: see `checkpoint_durations.py`. Without log lines the gauge lastCheckpointDuration is followed.
`checkpoint_overdue` tells of the one checkpoint that hangs.

Why an operator cares: it is the one checkpoint fault that announces itself hours before the first expiry.
Reference: Flink, "Checkpointing under backpressure"; Sen (1968); Mann (1945).
"""

from collections.abc import Iterator
from statistics import median

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.checkpoint_durations import CheckpointDurations, flink_duration
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast, Reading, Series
from detectors.numerics.rise import Rise, rise
from detectors.numerics.trend import Crossing, crossing, mann_kendall, theil_sen, thin
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_JOBS = 200
_LATEST = 6
_SETTLED = (32, 64)
_SETTLED_P = 0.1
_SYMPTOM = 0.25
_WITH_STATE = 1.2
_NEWS = 0.1
_LOADED = 1.2
_GOES_ON = 3
_HOUR_MS = 3_600_000
_OVER = frozenset({"FINISHED", "CANCELED", "FAILED"})
_RUNNING_AGAIN = frozenset({"RESTARTING", "FAILING", "SUSPENDED"})


class Creep(msgspec.Struct, array_like=True):
    """The open finding: from which duration to which highest one, the one said last (ms), on which scale, and what."""

    usual: float
    peak: float
    said: float
    scale: int
    finding: Finding


class JobCreep(msgspec.Struct, array_like=True):
    """A job: its durations, its name where only metrics tell it, what is open, and the `slope` when so many had been
    `sloped`: it takes a while to compute.
    """

    durations: CheckpointDurations = msgspec.field(default_factory=CheckpointDurations)
    name: str = ""
    open: Creep | None = None
    slope: float = 0.0
    sloped: int = 0


class CheckpointDurationCreep(Detector):
    """See the module."""

    kind = "checkpoint_duration_creep"
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
        """Thresholds of checkpoint_duration_creep."""

        min_checkpoints: int = Field(
            20, ge=12, le=64, description="Checkpoints before a trend is looked for: fewer give no significant one."
        )
        significance: float = Field(
            0.01, gt=0, le=0.05, description="Greatest chance that the rank test takes noise for a rise."
        )
        growth: float = Field(
            0.5,
            ge=0.1,
            description="Share by which durations must have grown: below it is what load and storage do.",
        )
        min_increase: Duration = Field(
            500,
            description="Growth below this never matters: short checkpoints vary by large factors.",
        )
        horizon: Duration = Field(
            86_400_000, description="A limit must be reached within this time: farther ahead no trend is to be trusted."
        )
        extrapolation_factor: float = Field(
            12.0, gt=0, description="A trend that was flat before goes on this many times as long as it has been seen."
        )
        extrapolation_factor_after_start: float = Field(
            4.0,
            gt=0,
            description="The same for durations that have risen since they are known: after a start state fills up and "
            "levels off.",
        )
        critical_within: Duration = Field(3_600_000, description="Critical when the timeout is reached sooner.")
        timeout: Duration = Field(
            600_000,
            description="Checkpoint timeout where neither an expiry nor the printed configuration tells it: Flink's "
            "default.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id; `timeout` is the cluster's configured one in ms (0: not seen)."""

        jobs: dict[str, JobCreep] = {}
        timeout: int = 0

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold one line about a checkpoint or a job, or the gauges of one."""
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
                    yield from self._closed(known, now, "the job started anew from a savepoint")
            case _:
                new = event.fields.get("state", "")
                if new in _RUNNING_AGAIN:
                    durations.restore(now.time, fresh=False)
                elif new in _OVER:
                    yield from self._closed(known, now, f"the job is {new}")
                    del state.jobs[job]

    def on_config_change(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """A rise that goes on is judged at once, not only with the next checkpoint."""
        for job, known in state.jobs.items():
            points, records = known.durations.history.points(0), known.durations.records
            if (
                records
                and points
                and now - points[-1].time <= _GOES_ON * (points[-1].time - points[0].time) / len(points)
            ):
                record = Evidence(*records[-1])
                yield from self._judged(state, known, job, record, Now(now, record.time), topology)

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """How fast durations grow, when the timeout is reached, and the last one where no other detector knows it."""
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
        # The duration last: the count tells whether the same one is another checkpoint's.
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
            if known.open is not None and (why := self._over(known, config, known.open, limits)):
                yield from self._closed(known, now, why)
            return
        reached = {what: c for what, level in limits.items() if (c := self._reached(found, config, level))}
        if known.open is None and (
            not any(self._believed(found, config, level) for level in limits.values())
            or found.level - found.usual < config.min_increase
            or self._by_load(found, limits)
        ):
            return
        before = known.open
        usual = before.usual if before else found.usual
        since = before.finding.since if before else found.since(_SYMPTOM)
        name = topology.job_name(job) or known.name
        finding = self._finding(found, (job, name), reached, limits, usual, since, now)
        if finding.series is not None:
            expired = [(time, age / 1000) for time, age in known.durations.expired]
            finding.series = msgspec.structs.replace(finding.series, failed=expired)
        if before is not None:
            before.peak, before.scale = max(before.peak, found.level), found.scale
            # A rise of hours is not told anew with every checkpoint.
            if finding.severity == before.finding.severity and found.level < (1 + _NEWS) * before.said:
                return
        finding.evidence = _records([Evidence(*r) for r in known.durations.records], record, since)
        known.open = Creep(usual, max(found.level, before.peak if before else 0), found.level, found.scale, finding)
        yield msgspec.structs.replace(finding)

    def _limits(self, state: State, config: Config, durations: CheckpointDurations) -> dict[str, int]:
        """What the durations must not reach, in ms: the worst first."""
        timeout, interval = durations.timeout or state.timeout or config.timeout, durations.interval()
        return {"the checkpoint timeout": timeout} | ({"the checkpoint interval": interval} if interval else {})

    def _reached(self, found: Rise, config: Config, level: float) -> Crossing | None:
        """When a limit that lies ahead is reached, within the horizon."""
        ahead = found.reaches(level) if found.level < level else None
        return ahead if ahead is not None and ahead.at - found.now <= config.horizon else None

    def _believed(self, found: Rise, config: Config, level: float) -> bool:
        """Whether the trend has been seen for long enough to reach this limit; after a start only its line counts."""
        ahead = self._reached(found, config, level)
        if ahead is not None and not found.established:
            ahead = crossing(found.fit.line, level, found.now)
        times = config.extrapolation_factor if found.established else config.extrapolation_factor_after_start
        return ahead is not None and ahead.at - found.now <= times * (found.now - found.points[0].time)

    def _by_load(self, found: Rise, limits: dict[str, int]) -> bool:
        """The input has grown about as much as the durations, which are far from the timeout."""
        third = len(found.points) // 3
        early, late = found.points[:third], found.points[-third:]
        if min(p.load for p in found.points) <= 0 or found.level > limits["the checkpoint timeout"] / 2:
            return False
        more = median(p.load for p in late) / median(p.load for p in early)
        longer = median(p.value for p in late) / median(p.value for p in early)
        return more >= _LOADED and longer <= _LOADED * more

    def _over(self, known: JobCreep, config: Config, creep: Creep, limits: dict[str, int]) -> str:
        """The proof that it is over, or nothing."""
        history = known.durations.history
        latest = median(p.value for p in history.points(0, _LATEST))
        if latest <= creep.usual + _SYMPTOM * (creep.peak - creep.usual):
            return f"the last {_LATEST} checkpoints took {humanize(latest)}"
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
                return f"checkpoints have taken about {humanize(median(values))} for {span} and no longer grow"
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
        an_hour = 0 if found.fit.exponential else found.fit.line.slope * _HOUR_MS
        pace = f"{humanize(an_hour)} more every hour" if an_hour > 0 else "faster and faster"
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name},
            since=since,
            at=now.clock,
            severity="critical" if soon else "warning",
            summary=f"checkpoints take {humanize(found.level)}, before the rise {humanize(usual)}, {pace}; "
            + (f"they reach {' and '.join(reversed(until))}; " if until else "")
            + _grows_with(found),
            confidence="sure" if found.established else "fair",
            forecast=Forecast(f"checkpoints reach {what}", ahead.at, ahead.earliest, ahead.latest) if ahead else None,
            series=_series(found, limits.get(what)),
            advice=keep_state(job)
            + "See in Flink's UI which operator's sync or async duration, or alignment, has grown. Until that is "
            "fixed, a higher execution.checkpointing.timeout keeps checkpoints from failing; it takes effect when you "
            "stop the job with a savepoint, while one still completes, and start it from there. For good: bound the "
            "state (TTL, smaller windows), incremental or unaligned checkpoints, faster storage, more parallelism.",
        )


def _load(topology: Topology, job: str) -> float:
    rates = [i.rate for i in topology.intake.get(job, {}).values()]
    return float(sum(rates)) if rates and min(rates) >= 0 else -1.0


def _records(records: list[Evidence], last: Evidence, since: int) -> list[Evidence]:
    own = [r for r in records if r.time >= since and r != last]
    return [*own[:1], *own[len(own) // 2 : len(own) // 2 + 1][len(own) < 2 :], last]


def _grows_with(found: Rise) -> str:
    sizes = [p.size for p in found.points if p.size > 0]
    third = len(sizes) // 3
    if not third:
        return "whether the state grows with them is not known"
    early, late = median(sizes[:third]), median(sizes[-third:])
    if late >= _WITH_STATE * early:
        return f"the state grows with them, from {_bytes(early)} to {_bytes(late)}"
    return f"their size stays at {_bytes(late)}, only the time grows: storage, alignment or backpressure"


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
