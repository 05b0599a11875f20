"""The step over one cluster: folds events into its state.

`step` runs under Spark, in `flinkwatch replay` and in the tests. It is a fold: its output depends on the state
and on the events, never on where the stream was cut into batches.

There are two times. The clock (`until`) is the time that all partitions of the stream have reached. Only it meets
deadlines, so that a partition that is read ahead in a catch-up makes nothing overdue. Each event also carries its own
Kafka timestamp: earlier deadlines are met first, and transitions that the event causes are dated with it. An event
ahead of the clock is folded at once, unless a deadline comes before it: then it waits until the clock has met that
deadline.

Deadlines are met on whole seconds of the clock. No deadline can fall between two seconds, so a detector is asked for
its next deadline once a second and not after every event.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from detectors import DETECTORS
from detectors.detector import Detector, Handler, View
from detectors.engine import entries_cut as cut
from detectors.engine.engine import READINGS_EVERY_MS, SECOND_MS, Engine
from detectors.engine.entries_cut import EntriesCut
from detectors.engine.host_clock import FAR_MS
from detectors.engine.state import ClusterState
from detectors.events.event import Event, LogEvent, MetricEvent, Sample
from detectors.flink.facts import Fact, fact_of
from detectors.incident import ChangedSetting, Finding, Reading, Transition, evidence
from detectors.incidents import follow_up, lifecycle
from detectors.incidents.ended_by_hand import end_forgotten
from detectors.incidents.transitions import IncidentContext
from detectors.settings.live import PublishedResolution

_AHEAD_MS = 60_000
# Prometheus shows a series for this long after it was last scraped.
_READINGS_FADE_MS = 300_000
_encode = msgspec.msgpack.Encoder().encode
STATES = {d.kind: d.State for d in DETECTORS}
"""The type of each detector's state in a cluster, by kind."""
_decoders = {kind: msgspec.msgpack.Decoder(state).decode for kind, state in STATES.items()}


class DroppedState(NamedTuple):
    """A detector's state in one cluster could not be read, because another version wrote it or because it is
    damaged.
    """

    cluster: str
    kind: str
    error: str


class StepOutput(NamedTuple):
    """The output of a step: transitions in order, readings, keys of removed readings, and what was dropped or cut.

    `waiting` are the events that are ahead of the clock and come after a deadline: give them to a later step again.
    """

    transitions: list[Transition]
    readings: list[Reading]
    removed: list[str]
    dropped: tuple[DroppedState, ...] = ()
    cut: tuple[EntriesCut, ...] = ()
    waiting: tuple[Event, ...] = ()


MayWait = Callable[[list[Event], int], bool]
"""Whether events that are ahead of the clock may wait for a deadline; given the events in order and the clock."""


def never_wait(_ahead: list[Event], _until: int) -> bool:
    """Fold all events in this step."""
    return False


def arrival(event: Event) -> tuple[int, str, int, int]:
    """The order in which events are folded: by Kafka timestamp, then by topic, partition and offset."""
    return event.timestamp, event.topic, event.partition, event.offset


def step(
    engine: Engine,
    cluster: str,
    state: ClusterState,
    events: Iterable[Event],
    until: int,
    since: int = 0,
    may_wait: MayWait = never_wait,
) -> StepOutput:
    """Fold `events` (in any order, they are sorted by arrival) and advance the clock to `until`; changes `state`.

    `since` is the bucket's clock before this step. A new configuration takes effect at that time.
    """
    return _Fold(engine, cluster, state).run(sorted(events, key=arrival), until, since, may_wait)


def resolve(
    engine: Engine, cluster: str, state: ClusterState, asked: Iterable[PublishedResolution], now: int
) -> list[Transition]:
    """End the incidents that people asked to end, at the clock `now`; changes `state`.

    A resolved incident stays as it is.
    """
    context, now = _Fold(engine, cluster, state).context(), max(now, state.clock)
    transitions: list[Transition] = []
    for one in {request.last.incident: request for request in asked}.values():
        incident = next((i for i in state.incidents if i.id == one.last.incident and i.seq), None)
        if incident is None:
            transitions.append(end_forgotten(one.last, one.reason, now))
        elif incident.resolved_at is None:
            state.ended_by_hand.end(incident.findings, incident.more)
            transitions.append(lifecycle.end_by_hand(incident, one.reason, now, context))
    return transitions


class _Fold:
    """One step over one cluster. A detector's state is decoded when first needed, and encoded once at the end."""

    def __init__(self, engine: Engine, cluster: str, state: ClusterState) -> None:
        self._engine = engine
        self._detectors = engine.detectors(state.topology)
        self._cluster = cluster
        self._state = state
        self._views: dict[str, View[Any, Any]] = {}
        # By event type: the handlers, the part of the state that each needs, and the view that it gets.
        self._handlers: dict[str, list[tuple[Detector, Handler, str, View[Any, Any]]]] = {}
        self._transitions: list[Transition] = []
        self._removed: list[str] = []
        self._dropped: list[DroppedState] = []
        # Detectors whose state may have changed since they were last asked for their deadline.
        self._changed: dict[str, Detector] = {}
        # Deadlines that an event brings are met after its own second, also if it is ahead of the clock.
        self._not_before = 0
        # The clock at which late lines are taken, 0 while none are: what they show is not reported before it.
        self._reported_at = 0

    def run(self, events: list[Event], until: int, since: int, may_wait: MayWait) -> StepOutput:
        state = self._state
        before = dict(state.topology.cut)
        if state.clock - until > FAR_MS:
            self._go_back(until)
        # A record that is older than the clock is late. The clock does not go back for it.
        until = max(until, state.clock)
        if state.mark != self._engine.mark:
            self._apply_configuration(since)
        reached = bisect_right(events, until, key=lambda e: e.timestamp)
        for event in events[:reached]:
            # Transitions that an event causes are not dated before it, however the stream was cut.
            now = max(state.clock, event.timestamp)
            self._meet_deadlines(now)
            state.clock, state.last_event = now, max(state.last_event, now)
            self._take(event, now)
        self._meet_deadlines(until)
        state.clock = until
        waiting = self._take_ahead(events[reached:], until, may_wait)
        self._update_deadlines()
        readings, gone = self._readings(until)
        for kind, view in self._views.items():
            state.detectors[kind] = msgspec.Raw(_encode(view.state))
            # The views of jobs hold each other, so otherwise only the cyclic collector would free them.
            view.of_jobs.clear()
        removed = sorted({*self._removed, *gone})
        newly_cut = cut.news(self._cluster, before, state.topology.cut)
        return StepOutput(self._transitions, readings, removed, tuple(self._dropped), newly_cut, waiting)

    def _take_ahead(self, events: list[Event], until: int, may_wait: MayWait) -> tuple[Event, ...]:
        """Take the events that are ahead of the clock, up to the first one that comes after a deadline.

        Returns the events that wait. If they may not wait, all are taken, dated at most _AHEAD_MS after the clock.
        """
        state = self._state
        if not events:
            return ()
        if not may_wait(events, until):
            state.last_event = max(state.last_event, until)
            for event in events:
                self._take(event, min(event.timestamp, until + _AHEAD_MS))
            return ()
        second = until // SECOND_MS
        for number, event in enumerate(events):
            if event.timestamp // SECOND_MS > second:
                self._update_deadlines()
                deadline = self._engine.next_deadline(state)
                if deadline is not None and deadline <= event.timestamp:
                    return tuple(events[number:])
                second = event.timestamp // SECOND_MS
            state.last_event = max(state.last_event, event.timestamp)
            self._not_before = event.timestamp + 1
            self._take(event, event.timestamp)
        return ()

    def _go_back(self, until: int) -> None:
        """Set the clock back, because a host with a wrong clock had driven it ahead (`host_clock.py`)."""
        state = self._state
        state.clock = until
        state.late.go_back(until)
        state.last_event, state.readings_at = min(state.last_event, until), min(state.readings_at, until)
        lifecycle.go_back([*state.incidents, *state.followed], until)
        for detector in self._detectors.all:
            if detector.kind in state.detectors:
                # Its readings are published again with the corrected time.
                self._view(detector, until, until)

    def _apply_configuration(self, since: int) -> None:
        """Apply a configuration that differs from that of the last step."""
        state, engine = self._state, self._engine
        # The change has the same time in every cluster, however long ago the cluster was stepped.
        state.mark, state.clock = engine.mark, max(state.clock, since)
        for kind in [k for k in (*state.detectors, *state.readings) if k not in engine.kinds]:
            # A disabled detector misses events, so its state would be wrong once it is enabled again.
            state.detectors.pop(kind, None)
            state.deadlines.pop(kind, None)
            self._removed += state.reading_keys_of(kind)
            state.readings.pop(kind, None)
        self._settings_changed(self._detectors.all, state.clock)
        self._transitions += lifecycle.apply_silences(state.incidents, state.clock, self.context())

    def _settings_changed(self, detectors: Iterable[Detector], now: int) -> None:
        """The settings of these detectors changed: deadlines may move, and open findings may have to be closed."""
        state = self._state
        self._transitions += lifecycle.close_findings(state.incidents, self._is_off, now, self.context())
        for detector in detectors:
            if detector.kind in state.detectors or detector.kind in self._views:
                view = self._view(detector, now, now)
                view.deadlines = None
                detector.on_config_change(view)
                self._handled(detector, view)

    def _job_renamed(self, now: int) -> None:
        """A job has a new name, so other settings may apply to it."""
        if self._engine.by_job.kinds:
            self._settings_changed([d for d in self._detectors.all if d.kind in self._engine.by_job.kinds], now)

    def _take(self, event: Event, clock: int) -> None:
        if isinstance(event, MetricEvent):
            self._take_samples(event, clock)
            return
        state = self._state
        # 1. Time zones: when it was written.
        time = state.zones.event_time(event)
        if not state.late.wait(event, time, clock, state.zones):
            self._take_line(event, clock, time)
        elif state.late.full():
            self._take_late(clock)

    def _take_late(self, now: int) -> None:
        """Take the lines that came late, at the pace in which they were written; what they show is reported now."""
        self._reported_at, clock = now, 0
        for event, time, written in self._state.late.take(self._state.zones, now):
            if written // SECOND_MS > clock // SECOND_MS:
                self._meet_late_deadlines(clock, written)
            clock = written
            self._take_line(event, clock, time)
        self._reported_at = 0

    def _meet_late_deadlines(self, clock: int, until: int) -> None:
        """Meet the detectors' deadlines up to a late line, each at its own second."""
        self._update_deadlines()
        deadlines = self._state.deadlines
        while deadlines:
            clock = max(-(-min(deadlines.values()) // SECOND_MS), clock // SECOND_MS + 1) * SECOND_MS
            if clock > until:
                return
            self._meet(clock)

    def _take_line(self, event: LogEvent, clock: int, time: int) -> None:
        """Fold one line, always in this order. `_report` gives each finding to the incidents at once."""
        state, stated = self._state, fact_of(event)
        # 2. The model of the cluster, and detectors that have a handler for what is new in the line.
        if stated is not None:
            self._take_fact(event, stated, clock, time)
        # 3. Stack traces: the failure that the line adds to, in the same way.
        if (failure := state.throwables.join(event)) is not None and (fact := fact_of(failure)) is not None:
            self._take_fact(failure, fact, clock, time)
        # 4. Orphaned findings: what it proves about subjects that no longer exist.
        for ended in state.orphaned.update(event, stated, clock, state.incidents, state.topology):
            self._report(ended)

    def _take_fact(self, event: LogEvent, stated: Fact, clock: int, time: int) -> None:
        topology = self._state.topology
        job = event.fields.get("job", "") if self._engine.by_job.kinds else ""
        name = topology.job_name(job)
        changed = topology.settings.changed_by(stated, topology.version, time)
        fact = topology.update(event, stated, clock, time)
        if topology.job_name(job) != name:
            self._job_renamed(clock)
        if fact is None:
            return
        self._follow_up(event, fact, changed, clock, time)
        handlers = self._handlers.get(event.event_type)
        if handlers is None:
            wanted = self._detectors.by_want.get(event.event_type, ())
            handlers = [(d, h, h.needs, self._views.get(d.kind) or self._opened(d)) for d, h in wanted]
            self._handlers[event.event_type] = handlers
        about = topology.job_of(event) if handlers else ""
        for detector, handler, needs, view in handlers:
            if needs and not getattr(view.state, needs):
                continue
            view.clock, view.time, view.event, view.job = clock, time, event, about
            if detector.fact(view, handler, fact):
                self._handled(detector, view)

    def _follow_up(self, event: LogEvent, fact: Fact, changed: ChangedSetting | None, clock: int, time: int) -> None:
        """Incidents are compared with the settings of Flink that change while they are open and for a day after it."""
        state, now = self._state, self._reported_at or clock
        if changed is not None:
            follow_up.note([*state.incidents, *state.followed], changed, evidence(event, time), now)
        elif state.incidents and isinstance(fact, follow_up.COUNTED):
            follow_up.count(state.incidents, fact, state.topology.job_of(event), state.topology, now, time)

    def _take_samples(self, event: MetricEvent, clock: int) -> None:
        """Give each detector only the samples it subscribes to: a few of the hundreds in a scrape."""
        event = self._state.deltas.summed(event)
        by_name: dict[str, list[Sample]] = {}
        for sample in event.samples:
            own = by_name.get(sample.name)
            if own is None:
                by_name[sample.name] = [sample]
            else:
                own.append(sample)
        if self._state.topology.measure(by_name, event.time):
            self._job_renamed(clock)
        wanted: dict[str, tuple[Detector, list[Sample]]] = {}
        for name, samples in by_name.items():
            for detector, _ in self._detectors.by_want.get(name, ()):
                if detector.kind in wanted:
                    wanted[detector.kind][1].extend(samples)
                else:
                    wanted[detector.kind] = (detector, [*samples])
        for detector, samples in wanted.values():
            view = self._view(detector, clock, event.time)
            view.event = event
            detector.samples(view, samples)
            self._handled(detector, view)

    def _handled(self, detector: Detector, view: View[Any, Any]) -> None:
        """Report what a detector has found. Its deadline may have changed."""
        if detector.has_deadlines:
            self._changed[detector.kind] = detector
        if view.findings:
            for finding in view.findings:
                self._report(finding)
            view.findings.clear()

    def _meet_deadlines(self, until: int) -> None:
        """Meet every deadline up to `until`, in order, each at its own second."""
        state, engine = self._state, self._engine
        if until // SECOND_MS == state.clock // SECOND_MS:
            return
        self._update_deadlines()
        while (now := engine.next_deadline(state)) is not None and now <= until:
            if state.late.waiting:
                state.clock = now
                self._take_late(now)
                self._update_deadlines()
                continue
            self._meet(now)
            if state.incidents:
                self._transitions += lifecycle.tick(
                    state.incidents, now, state.last_event, engine.incident_config, self.context()
                )
            if state.followed:
                self._transitions += follow_up.tick(state.followed, now, self.context())
            state.clock = now

    def _meet(self, now: int) -> None:
        """Call the detectors that have a deadline up to `now`."""
        state = self._state
        due = [d for d in self._detectors.all if state.deadlines.get(d.kind, now + 1) <= now]
        for detector in sorted(due, key=lambda d: state.deadlines[d.kind]):
            view = self._view(detector, now, now)
            detector.on_deadline(view)
            self._handled(detector, view)
        self._update_deadlines()

    def _update_deadlines(self) -> None:
        """Ask the detectors that may have changed for their next deadline."""
        for kind, detector in self._changed.items():
            due = detector.next_deadline(self._views[kind])
            if due is None:
                self._state.deadlines.pop(kind, None)
            else:
                self._state.deadlines[kind] = max(due, self._not_before)
        self._changed.clear()

    def _is_off(self, kind: str, subject: str) -> bool:
        return self._engine.is_off(kind, subject, self._state.topology)

    def _report(self, finding: Finding) -> None:
        if at := self._reported_at:
            finding = msgspec.structs.replace(finding, at=at, closed_at=finding.closed_at and at)
        if finding.closed_at is None and self._is_off(finding.kind, finding.subject):
            return
        if (renewed := self._state.ended_by_hand.renewed(finding)) is not None:
            self._transitions += lifecycle.accept_finding(self._state.incidents, renewed, self.context())

    def context(self) -> IncidentContext:
        """What transitions of this cluster need now."""
        state, engine = self._state, self._engine
        return IncidentContext(
            self._cluster,
            engine.config,
            state.topology.version,
            state.past,
            engine.incident_config.recurrence_window,
            engine.incident_config.recurrence_min_count,
            state.throwables,
            engine.issues,
            engine.silences,
            state.late.arrivals,
            state.topology.restore_point,
            state.followed,
        )

    def _view(self, detector: Detector, clock: int, time: int) -> View[Any, Any]:
        """The detector's view of this moment."""
        view = self._views.get(detector.kind) or self._opened(detector)
        view.clock, view.time = clock, time
        return view

    def _opened(self, detector: Detector) -> View[Any, Any]:
        """A new view of the detector's state, which is decoded when it is first needed."""
        raw = self._state.detectors.get(detector.kind)
        own = self._decoded(detector, raw) if raw is not None else detector.State()
        view = self._views[detector.kind] = detector.view(own, self._state.topology)
        return view

    def _decoded(self, detector: Detector, raw: msgspec.Raw) -> Any:
        """Decode a detector's state. If that fails, only this state is lost: other detectors and incidents stay."""
        try:
            return _decoders[detector.kind](raw)
        except msgspec.MsgspecError as error:
            self._dropped.append(DroppedState(self._cluster, detector.kind, str(error)))
        # A restarted detector would never close the findings that it had open.
        why = f"flinkwatch could not read the stored state of {detector.kind} and restarted the detector without it"
        state = self._state
        self._transitions += lifecycle.close_findings(
            state.incidents, lambda kind, _: kind == detector.kind, state.clock, self.context(), why
        )
        return detector.State()

    def _readings(self, now: int) -> tuple[list[Reading], list[str]]:
        """Every few seconds: the readings of the detectors that had events, and the keys of readings that ended."""
        state = self._state
        state.unread = sorted({*state.unread, *self._views})
        if not state.unread or now - state.readings_at < READINGS_EVERY_MS:
            return [], []
        readings: list[Reading] = []
        gone: list[str] = []
        for detector in self._detectors.all:
            if detector.kind in state.unread:
                found = detector.readings(self._view(detector, now, now))
                new = [r for r in found if now - r.at <= _READINGS_FADE_MS]
                for reading in new:
                    reading.labels["cluster"] = self._cluster
                keys = [r.key() for r in new]
                before = state.reading_keys_of(detector.kind)
                if keys != before:
                    gone += set(before).difference(keys)
                    state.keep_reading_keys(detector.kind, keys)
                readings += new
        readings += cut.readings(self._cluster, state.topology.cut, now)
        profile, ended = state.profile.publish(self._cluster, state.topology, now)
        readings += profile
        gone += ended
        state.readings_at, state.unread = now, []
        return readings, sorted(gone)
