"""The state of one cluster, and the step that folds events into it.

`Engine.step` is the second stage of the product: the same code under Spark, in `flinkwatch replay` and in the tests. It
is a fold: what comes out depends on the state and on what comes in, never on where the stream was cut into batches.

Two times. The clock (`until`) is how far the stream has come on all its partitions: deadlines run on it alone, so that
a partition that is read ahead in a catch-up makes nothing overdue. Each event carries its own Kafka timestamp;
deadlines that lie before it are met first, and a transition it causes is dated with it.

Deadlines are met on whole seconds of the clock. Between two of them nothing can fall due, so a detector is asked for
its next deadline once a second and not after every event.
"""

import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from detectors import DETECTORS
from detectors.detector import Detector, Now
from detectors.engine import entries_cut as cut
from detectors.engine.entries_cut import EntriesCut
from detectors.engine.host_clock import FAR_MS
from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.event import Event, MetricEvent, Sample
from detectors.flink.stack_traces import FAILURE, StackTraces
from detectors.flink.topology import Topology
from detectors.incident import Finding, Reading, Transition
from detectors.incidents import lifecycle
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.orphaned import OrphanedFindings
from detectors.incidents.recurrence import Occurrence
from detectors.incidents.silences import Silence
from detectors.incidents.transitions import Incident, IncidentContext

STATE_VERSION = 2
_AHEAD_MS = 60_000
_READINGS_EVERY_MS = 5_000
# As long as Prometheus goes on showing a series that is no longer scraped.
_READINGS_FADE_MS = 300_000
_BEAT_MS = 1_000


class StateVersionError(Exception):
    """State was written by another version and cannot be read: start with a new checkpoint, or with that version."""


class ClusterState(msgspec.Struct):
    """All that is kept of one cluster.

    `detectors` are the detectors' own states, decoded only when touched; `readings` the keys of the last readings of
    each, packed since they are long and alike; `mark` is that of the engine of the last step.
    """

    version: int = STATE_VERSION
    clock: int = 0
    last_event: int = 0
    zones: TimeZoneOffsets = msgspec.field(default_factory=TimeZoneOffsets)
    topology: Topology = msgspec.field(default_factory=Topology)
    throwables: StackTraces = msgspec.field(default_factory=StackTraces)
    detectors: dict[str, msgspec.Raw] = {}
    dues: dict[str, int] = {}
    incidents: list[Incident] = []
    past: list[Occurrence] = []
    gone: OrphanedFindings = msgspec.field(default_factory=OrphanedFindings)
    readings: dict[str, bytes] = {}
    readings_at: int = 0
    unread: list[str] = []
    mark: str = ""


class DroppedState(NamedTuple):
    """The state of one detector in one cluster that could not be read: another version wrote it, or it is damaged."""

    cluster: str
    kind: str
    error: str


class StepOutput(NamedTuple):
    """What a step says: transitions in order, readings, and the keys of readings that are gone; what was dropped or
    cut.
    """

    transitions: list[Transition]
    readings: list[Reading]
    gone: list[str]
    dropped: tuple[DroppedState, ...] = ()
    cut: tuple[EntriesCut, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(ClusterState).decode


def encode_state(state: ClusterState) -> bytes:
    """State → bytes, as the state store keeps it: compressed, since the same ids and texts stand in it many times."""
    return zlib.compress(_encode(state), level=1)


def decode_state(data: bytes) -> ClusterState:
    """Bytes → state. Raises StateVersionError when another version wrote it."""
    try:
        state = _decode_state(zlib.decompress(data))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise StateVersionError(f"this state cannot be read: {error}") from error
    if state.version != STATE_VERSION:
        raise StateVersionError(f"state of version {state.version}, this is flinkwatch with version {STATE_VERSION}")
    return state


_decoders = {d.kind: msgspec.msgpack.Decoder(d.State).decode for d in DETECTORS}


class JobSettings(NamedTuple):
    """Settings that some jobs have of their own: `settings` gives `DetectorSettings` by the name of a job, `kinds` the
    kinds that are different, and whether any job switches them on.
    """

    settings: Callable[[str], Any]
    kinds: dict[str, bool]


class Engine:
    """Folds events into the states of clusters under one configuration.

    `settings` are `DetectorSettings`, `config` the name of the configuration they come from; `mark` is another one
    whenever settings or silences are. Detectors that decide for each job use `by_job`. `issues` are defects it knows
    of.
    """

    def __init__(
        self,
        settings: Any,
        config: str = "",
        *,
        by_job: JobSettings | None = None,
        silences: tuple[Silence, ...] = (),
        mark: str = "",
        issues: IssueCatalogue = IssueCatalogue(),  # noqa: B008 - it cannot change
    ) -> None:
        self.life = settings.incidents
        self.config = config
        self.mark = mark or config
        self.silences = silences
        self.issues = issues
        self.by_job = by_job or JobSettings(lambda _: settings, {})
        on = [d for d in DETECTORS if getattr(settings, d.kind).enabled or self.by_job.kinds.get(d.kind)]
        self.kinds = frozenset(d.kind for d in on)
        self._shared = Detectors([d(getattr(settings, d.kind)) for d in on])

    def new_state(self) -> ClusterState:
        """The state of a cluster that was not known."""
        return ClusterState(mark=self.mark)

    def detectors(self, topology: Topology) -> "Detectors":
        """The detectors for a cluster, which tells them the names of its jobs."""
        if not self.by_job.kinds:
            return self._shared
        return Detectors([self.for_jobs(d, topology) if d.kind in self.by_job.kinds else d for d in self._shared.all])

    def for_jobs(self, detector: Detector, topology: Topology) -> Detector:
        """The same detector, which asks for the settings of each job by the name it has now."""
        kind, settings = detector.kind, self.by_job.settings
        return type(detector)(detector.config, lambda job: getattr(settings(topology.job_name(job)), kind))

    def is_off(self, kind: str, subject: str, topology: Topology) -> bool:
        """Whether the detector of a finding is switched off, for all or for the job that is its subject."""
        if kind not in self.by_job.kinds:
            return kind not in self.kinds
        return not getattr(self.by_job.settings(topology.job_name(subject)), kind).enabled

    def step(
        self, cluster: str, state: ClusterState, events: Iterable[Event], until: int, since: int = 0
    ) -> StepOutput:
        """Fold `events` (in any order: they are sorted by arrival) and let the clock run to `until`; changes `state`.

        The clock had come to `since`: that is when another configuration than that of the last step takes force.
        """
        return _Fold(self, cluster, state).run(events, until, since)

    def due(self, state: ClusterState) -> int:
        """The clock time at which the next step is needed although no event may have come."""
        deadline = self.deadline(state)
        flush = state.readings_at + _READINGS_EVERY_MS if state.unread else None
        end = state.last_event + self.life.forget_after
        return min(t for t in (deadline, flush, end) if t is not None)

    def over(self, state: ClusterState, clock: int) -> bool:
        """Whether nothing has come of the cluster for so long that it is to be forgotten."""
        return bool(clock >= state.last_event + self.life.forget_after)

    def said(self, state: ClusterState) -> list[str]:
        """The keys of all readings that stand."""
        return [key for packed in state.readings.values() for key in _unpacked(packed)]

    def deadline(self, state: ClusterState) -> int | None:
        """The next whole second of the clock at which a detector or an incident has something to say."""
        times = [*state.dues.values()]
        if (waiting := lifecycle.due(state.incidents, state.last_event, self.life)) is not None:
            times.append(waiting)
        if not times:
            return None
        # What is set for a second that has passed, or that has just been met and is wanted again, lies ahead: else time
        # would stand still.
        return max(-(-min(times) // _BEAT_MS), state.clock // _BEAT_MS + 1) * _BEAT_MS


class Detectors:
    """Detectors with their config, in the order of the registry, and by what they want."""

    def __init__(self, detectors: list[Detector]) -> None:
        self.all = detectors
        self.by_want: dict[str, list[Detector]] = {}
        for detector in detectors:
            for want in sorted(detector.event_types):
                self.by_want.setdefault(want, []).append(detector)


def _packed(keys: list[str]) -> bytes:
    return zlib.compress("\0".join(keys).encode(), 1)


def _unpacked(keys: bytes | None) -> list[str]:
    text = zlib.decompress(keys).decode() if keys is not None else ""
    return text.split("\0") if text else []


def arrival(event: Event) -> tuple[int, str, int, int]:
    """Events are folded in this order: by Kafka timestamp, those of one by where they stand."""
    return event.timestamp, event.topic, event.partition, event.offset


class _Fold:
    """One step over one cluster: detectors' states are decoded when first touched, and encoded once at the end."""

    def __init__(self, engine: Engine, cluster: str, state: ClusterState) -> None:
        self._engine = engine
        self._detectors = engine.detectors(state.topology)
        self._cluster = cluster
        self._state = state
        self._open: dict[str, Any] = {}
        self._said: list[Transition] = []
        self._gone: list[str] = []
        self._dropped: list[DroppedState] = []
        # Detectors that have taken something in since they were last asked for their deadline.
        self._unasked: dict[str, Detector] = {}

    def run(self, events: Iterable[Event], until: int, since: int) -> StepOutput:
        state = self._state
        before = dict(state.topology.cut)
        if state.clock - until > FAR_MS:
            self._go_back(until)
        # A record that arrives behind the clock is late, and the clock does not run back for it.
        until = max(until, state.clock)
        if state.mark != self._engine.mark:
            self._configured(since)
        for event in sorted(events, key=arrival):
            clock = max(state.clock, min(event.timestamp, until + _AHEAD_MS))
            now = min(clock, until)
            self._expire(now)
            # What an event sets off is not dated before it, however the stream was cut.
            state.clock = state.last_event = now
            self._take(event, clock)
        self._expire(until)
        state.clock = until
        self._ask()
        readings, gone = self._readings(until)
        for kind, detector_state in self._open.items():
            state.detectors[kind] = msgspec.Raw(_encode(detector_state))
        told = cut.news(self._cluster, before, state.topology.cut)
        return StepOutput(self._said, readings, sorted({*self._gone, *gone}), tuple(self._dropped), told)

    def _go_back(self, until: int) -> None:
        """The clock had been driven ahead by a host whose own was wrong (`host_clock.py`)."""
        state = self._state
        state.clock = until
        state.last_event, state.readings_at = min(state.last_event, until), min(state.readings_at, until)
        lifecycle.go_back(state.incidents, until)
        for detector in self._detectors.all:
            if detector.kind in state.detectors:
                # Its readings are published again, dated back.
                self._touch(detector)

    def _configured(self, since: int) -> None:
        """Another configuration than at the last step takes force."""
        state, engine = self._state, self._engine
        # At the same time in every cluster, however long ago each was stepped.
        state.mark, state.clock = engine.mark, max(state.clock, since)
        for kind in [k for k in (*state.detectors, *state.readings) if k not in engine.kinds]:
            # What it misses from now on would make it wrong once it is on again.
            state.detectors.pop(kind, None)
            state.dues.pop(kind, None)
            self._gone += _unpacked(state.readings.pop(kind, None))
        self._reconsider(self._detectors.all)
        self._said += lifecycle.silences_changed(state.incidents, state.clock, self._scene())

    def _reconsider(self, detectors: Iterable[Detector]) -> None:
        """These have other settings now: what they wait for may be due at another time, what they told may be over."""
        state = self._state
        self._said += lifecycle.switched_off(state.incidents, self._is_off, state.clock, self._scene())
        for detector in detectors:
            if detector.kind in state.detectors or detector.kind in self._open:
                own = self._touch(detector)
                for finding in detector.on_config_change(own, state.clock, state.topology):
                    self._report(finding)
                self._unasked[detector.kind] = detector

    def _named(self) -> None:
        """A job has another name: other settings may be its."""
        if self._engine.by_job.kinds:
            self._reconsider([d for d in self._detectors.all if d.kind in self._engine.by_job.kinds])

    def _take(self, event: Event, clock: int) -> None:
        if isinstance(event, MetricEvent):
            self._measure(event, Now(clock, event.time))
            return
        state = self._state
        time = state.zones.event_time(event)
        if state.topology.update(event, time):
            self._named()
        now = Now(clock, time)
        for detector in self._detectors.by_want.get(event.event_type, ()):
            self._offer(detector, event, now)
        failure = state.throwables.join(event)
        if failure is not None:
            for detector in self._detectors.by_want.get(FAILURE, ()):
                self._offer(detector, failure, now)
        for ended in state.gone.update(event, clock, state.incidents, state.topology):
            self._report(ended)

    def _measure(self, event: MetricEvent, now: Now) -> None:
        """Each detector is given only the samples it wants: a page has hundreds, most detectors want a few."""
        by_name: dict[str, list[Sample]] = {}
        for sample in event.samples:
            own = by_name.get(sample.name)
            if own is None:
                by_name[sample.name] = [sample]
            else:
                own.append(sample)
        if self._state.topology.measure(by_name, event.time):
            self._named()
        wanted: dict[str, tuple[Detector, list[Sample]]] = {}
        for name, samples in by_name.items():
            for detector in self._detectors.by_want.get(name, ()):
                if detector.kind in wanted:
                    wanted[detector.kind][1].extend(samples)
                else:
                    wanted[detector.kind] = (detector, [*samples])
        for detector, samples in wanted.values():
            self._offer(detector, msgspec.structs.replace(event, samples=samples), now)

    def _offer(self, detector: Detector, event: Event, now: Now) -> None:
        own = self._touch(detector)
        for finding in detector.update(own, event, now, self._state.topology):
            self._report(finding)
        self._unasked[detector.kind] = detector

    def _expire(self, until: int) -> None:
        """Meet every deadline up to `until` at its own second, in order."""
        state, engine = self._state, self._engine
        if until // _BEAT_MS == state.clock // _BEAT_MS:
            return
        self._ask()
        while (now := engine.deadline(state)) is not None and now <= until:
            due = [d for d in self._detectors.all if state.dues.get(d.kind, now + 1) <= now]
            for detector in sorted(due, key=lambda d: state.dues[d.kind]):
                own = self._touch(detector)
                for finding in detector.on_deadline(own, now, state.topology):
                    self._report(finding)
                self._unasked[detector.kind] = detector
            if state.incidents:
                self._said += lifecycle.tick(state.incidents, now, state.last_event, engine.life, self._scene())
            state.clock = now
            self._ask()

    def _ask(self) -> None:
        """The deadlines of the detectors that have changed."""
        for kind, detector in self._unasked.items():
            due = detector.next_deadline(self._open[kind])
            if due is None:
                self._state.dues.pop(kind, None)
            else:
                self._state.dues[kind] = due
        self._unasked.clear()

    def _is_off(self, kind: str, subject: str) -> bool:
        return self._engine.is_off(kind, subject, self._state.topology)

    def _report(self, finding: Finding) -> None:
        if finding.closed_at is None and self._is_off(finding.kind, finding.subject):
            return
        self._said += lifecycle.accept_finding(self._state.incidents, finding, self._scene())

    def _scene(self) -> IncidentContext:
        state, engine = self._state, self._engine
        return IncidentContext(
            self._cluster,
            engine.config,
            state.topology.version,
            state.past,
            engine.life.recurrence_window,
            engine.life.recurrence_min_count,
            state.throwables,
            engine.issues,
            engine.silences,
        )

    def _touch(self, detector: Detector) -> Any:
        own = self._open.get(detector.kind)
        if own is None:
            raw = self._state.detectors.get(detector.kind)
            own = self._decoded(detector, raw) if raw is not None else detector.initial()
            self._open[detector.kind] = own
        return own

    def _decoded(self, detector: Detector, raw: msgspec.Raw) -> Any:
        """The state of a detector. One that cannot be read is lost alone: the others and the incidents stay."""
        try:
            return _decoders[detector.kind](raw)
        except msgspec.MsgspecError as error:
            self._dropped.append(DroppedState(self._cluster, detector.kind, str(error)))
        # A detector that begins again never sees the end of what it had found before.
        why = f"flinkwatch could not read the stored state of {detector.kind} and began again without it"
        state = self._state
        self._said += lifecycle.closed_of(
            state.incidents, lambda kind, _: kind == detector.kind, state.clock, self._scene(), why
        )
        return detector.initial()

    def _readings(self, now: int) -> tuple[list[Reading], list[str]]:
        """Readings of the detectors touched since the last ones, every few seconds, and the keys that are gone."""
        state = self._state
        state.unread = sorted({*state.unread, *self._open})
        if not state.unread or now - state.readings_at < _READINGS_EVERY_MS:
            return [], []
        readings: list[Reading] = []
        gone: list[str] = []
        for detector in self._detectors.all:
            if detector.kind in state.unread:
                found = detector.readings(self._touch(detector), now, state.topology)
                new = [r for r in found if now - r.at <= _READINGS_FADE_MS]
                for reading in new:
                    reading.labels["cluster"] = self._cluster
                keys = [r.key() for r in new]
                before = _unpacked(state.readings.get(detector.kind))
                if keys != before:
                    gone += set(before).difference(keys)
                    state.readings[detector.kind] = _packed(keys)
                readings += new
        readings += cut.readings(self._cluster, state.topology.cut, now)
        state.readings_at, state.unread = now, []
        return readings, sorted(gone)
