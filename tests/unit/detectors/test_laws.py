"""Laws of every detector in the registry, and of the engine that drives them."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.engine import fold
from detectors.engine.bucket import BucketIndex, step
from detectors.engine.engine import Engine
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event, LogEvent
from detectors.events.layouts import stack_line
from detectors.events.vocabulary.match import EVENT_TYPES
from detectors.flink.facts import FAILURE
from detectors.incident import Transition
from streaming.recordings.replay import MemoryStore
from tests.recorded import NAMES, PUBLISHED, events, records, summary, truth
from tests.unit.detectors.streams import (
    CHOICES,
    LABELS,
    METRICS,
    START,
    alone,
    encoded,
    fields_of,
    in_order,
    log,
    made_up,
    metric,
    run,
)

HEALTHY = tuple(n for n in NAMES if not truth(n))
# A line that is lost is made up for by a gauge only where metrics come more often than checkpoints take.
SCRAPED_OFTEN = tuple(
    n for n in HEALTHY if n not in ("plateau-healthy", "quiet-topic-healthy", "clock-skew-two-minutes")
)
SPOKEN = tuple(n for n in NAMES if len(records(n)) <= 2_000)
ONE_BY_ONE = ("", *(d.kind for d in DETECTORS))
"""Each detector alone, given mostly what it wants, so that a broken law names it; the empty name is all together."""

few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
many = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
scenario = st.sampled_from(NAMES)
spoken = st.sampled_from(SPOKEN)
cuts = st.lists(st.integers(0, 5_000), max_size=30)
each_detector = pytest.mark.parametrize("kind", ONE_BY_ONE)
later = st.integers(1, 400).map(lambda days: days * 86_400_000)


def stream_for(data: st.DataObject, kind: str) -> list[Event]:
    """A made-up stream of what a detector wants; of everything for all of them."""
    event_types = next((d.event_types for d in DETECTORS if d.kind == kind), frozenset())
    return data.draw(made_up(event_types))


def outline(transitions: list[Transition]) -> list[tuple[str, str, str]]:
    """What must not change when only arrival does: causes, entities and ends."""
    found = summary(transitions)
    return sorted((i["cause"], i["entity"].get("tm_id", "") or i["entity"].get("job_id", ""), i["end"]) for i in found)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)
def test_a_kind_is_named_as_its_module_and_wants_only_what_can_be_read(detector: type[Detector]) -> None:
    assert detector.__module__.endswith(f".{detector.kind}")
    assert detector.event_types <= EVENT_TYPES | {FAILURE} | METRICS
    assert (detector.__doc__ or "").strip()


@few
@given(scenario, cuts)
def test_the_same_is_reported_however_a_recording_is_cut_into_batches(name: str, at: list[int]) -> None:
    whole = in_order(events(name))
    assert encoded(run(whole, at)) == encoded(run(whole))


@each_detector
@many
@given(st.data(), cuts)
def test_the_same_is_reported_however_any_stream_is_cut_into_batches(
    kind: str, data: st.DataObject, at: list[int]
) -> None:
    stream = stream_for(data, kind)
    end = stream[-1].timestamp + 2_000_000
    whole = run(stream, (), end, alone(kind))
    assert encoded(run(stream, at, end, alone(kind))) == encoded(whole)


@each_detector
@many
@given(st.data(), st.sets(st.integers(0, 40)))
def test_state_survives_bytes_and_back_at_any_point(kind: str, data: st.DataObject, points: set[int]) -> None:
    engine = Engine(alone(kind).live().detectors)
    kept, stored = ClusterState(), ClusterState()
    for i, event in enumerate(stream_for(data, kind)):
        if i in points:
            stored = decode_state(encode_state(stored))
        one = fold.step(engine, "c", kept, [event], event.timestamp)
        other = fold.step(engine, "c", stored, [event], event.timestamp)
        assert encoded(one.transitions) == encoded(other.transitions)
    assert encode_state(kept) == encode_state(stored)


@each_detector
@many
@given(st.data())
def test_events_are_not_changed(kind: str, data: st.DataObject) -> None:
    stream = stream_for(data, kind)
    before = [msgspec.msgpack.encode(e) for e in stream]
    run(stream, published=alone(kind))
    assert [msgspec.msgpack.encode(e) for e in stream] == before


@each_detector
@many
@given(st.data())
def test_what_has_been_reported_is_not_changed_afterwards(kind: str, data: st.DataObject) -> None:
    index, store = BucketIndex(published=alone(kind)), MemoryStore()
    reported: list[Transition] = []
    then: list[bytes] = []
    for event in stream_for(data, kind):
        new = step(index, store, [event], event.timestamp).transitions
        reported += new
        then += encoded(new)
    assert encoded(reported) == then


@each_detector
@many
@given(st.data())
def test_after_a_step_nothing_is_due_any_more(kind: str, data: st.DataObject) -> None:
    """Else the engine would be called again at once, for ever."""
    engine, state = Engine(alone(kind).live().detectors), ClusterState()
    for event in stream_for(data, kind):
        fold.step(engine, "c", state, [event], event.timestamp)
        due = engine.next_step(state)
        assert due is None or due > event.timestamp


@each_detector
@many
@given(st.data())
def test_any_record_that_is_read_twice_changes_nothing(kind: str, data: st.DataObject) -> None:
    stream = stream_for(data, kind)
    end = stream[-1].timestamp + 2_000_000
    # The whole stack comes twice or not at all: it is one record where it is read twice.
    twice = [e for e in stream for _ in range(1 if isinstance(e, LogEvent) and e.event_type in STACK else 2)]
    assert encoded(run(twice, (), end, alone(kind))) == encoded(run(stream, (), end, alone(kind)))


@each_detector
@many
@given(st.data(), later)
def test_the_same_a_number_of_days_later_gives_the_same_days_later(kind: str, data: st.DataObject, days: int) -> None:
    stream = stream_for(data, kind)
    end = stream[-1].timestamp + 2_000_000
    then = run([moved(e, days) for e in stream], (), end + days, alone(kind))
    assert [without_time(t, days) for t in then] == [without_time(t, 0) for t in run(stream, (), end, alone(kind))]


@each_detector
@many
@given(st.data())
def test_whatever_is_reported_can_be_rendered_and_drawn(kind: str, data: st.DataObject) -> None:
    stream = stream_for(data, kind)
    for transition in run(stream, (), stream[-1].timestamp + 2_000_000, alone(kind)):
        tellable(transition)


STACK = (stack_line.THROWN, stack_line.FRAME)


def moved(event: Event, by: int) -> Event:
    """The same event later."""
    if isinstance(event, LogEvent):
        fields = dict(event.fields)
        if "epoch" in fields:
            fields["epoch"] = str(int(fields["epoch"]) + by)
        local = event.local_time + by if event.local_time >= 0 else event.local_time
        return msgspec.structs.replace(event, timestamp=event.timestamp + by, local_time=local, fields=fields)
    return msgspec.structs.replace(event, timestamp=event.timestamp + by, time=event.time + by)


def without_time(transition: Transition, by: int) -> tuple[Any, ...]:
    """All that must be the same `by` ms later: ids and texts of evidence may hold the time itself."""
    findings = [
        (f.kind, f.subject, f.severity, f.since - by, f.at - by, f.closed_at and f.closed_at - by)
        for f in transition.findings
    ]
    forecast = transition.forecast and (transition.forecast.what, transition.forecast.at - by)
    at = (transition.at - by, transition.opened_at - by)
    return transition.transition, transition.cause, transition.severity, at, findings, forecast


def tellable(transition: Transition) -> None:
    """What a message and a chart need."""
    assert 1 <= len(transition.evidence) <= 5
    assert len({(e.topic, e.partition, e.offset) for e in transition.evidence}) == len(transition.evidence)
    assert all(len(e.text) <= 500 for e in transition.evidence)
    assert transition.confidence in ("learning", "fair", "sure")
    assert transition.severity in ("warning", "critical")
    assert transition.summary
    assert "\n" not in transition.summary
    for forecast in (transition.forecast, *(f.forecast for f in transition.findings)):
        assert forecast is None or forecast.earliest <= forecast.at <= forecast.latest
    for series in (transition.series, *(f.series for f in transition.findings)):
        if series is not None:
            assert 1 <= len(series.points) <= 64
            assert [p[0] for p in series.points] == sorted(p[0] for p in series.points)
            assert all(math.isfinite(v) for _, v in (*series.points, *series.fit))
    assert transition.advice


@pytest.mark.parametrize("name", NAMES)
def test_each_transition_brings_evidence_a_series_that_can_be_drawn_and_a_forecast_in_its_range(name: str) -> None:
    for transition in run(in_order(events(name))):
        tellable(transition)


@few
@given(spoken, st.randoms(use_true_random=False))
def test_a_record_that_comes_twice_changes_nothing(name: str, chance: random.Random) -> None:
    whole = in_order(events(name))
    twice = [e for e in whole for _ in range(1 + (chance.random() < 0.3))]
    assert encoded(run(twice)) == encoded(run(whole))


@few
@given(spoken, st.randoms(use_true_random=False))
def test_a_record_sent_again_up_to_half_a_minute_later_changes_nothing(name: str, chance: random.Random) -> None:
    """A shipper that is not answered in time sends again: a new offset, a later timestamp, the same line."""
    whole = in_order(events(name))
    last = whole[-1].timestamp
    again = [
        msgspec.structs.replace(e, timestamp=min(e.timestamp + chance.randrange(30_000), last), offset=e.offset + 10**6)
        for e in whole
        if chance.random() < 0.2
    ]
    assert outline(run(in_order([*whole, *again]))) == outline(run(whole))


@few
@given(scenario, st.randoms(use_true_random=False))
def test_sources_that_lag_up_to_five_seconds_give_the_same_incidents(name: str, chance: random.Random) -> None:
    """Each source keeps its order, as Kafka does, but each has its own delay, which varies."""
    delay: dict[str, int] = {}
    latest: dict[str, int] = {}
    shifted: list[Event] = []
    for event in in_order(events(name)):
        if event.source not in delay or chance.random() < 0.05:
            delay[event.source] = chance.randrange(5_000)
        at = max(event.timestamp + delay[event.source], latest.get(event.source, 0))
        latest[event.source] = at
        shifted.append(msgspec.structs.replace(event, timestamp=at, offset=len(shifted)))
    end = max(e.timestamp for e in events(name)) + 5_000
    assert outline(run(in_order(shifted), until=end)) == outline(run(in_order(events(name)), until=end))


@pytest.mark.parametrize("name", SCRAPED_OFTEN)
def test_nothing_is_found_in_a_healthy_recording_even_when_one_line_in_twenty_is_lost(name: str) -> None:
    for seed in range(3):
        chance = random.Random(seed)
        kept = [e for e in in_order(events(name)) if chance.random() > 0.05]
        assert run(kept) == [], seed


def _large_cluster() -> list[Event]:
    """Ten jobs with eight tasks of fifty subtasks on fifty TaskManagers, three checkpoints each, and two losses."""
    found: list[Event] = []
    for t in range(50):
        found.append(log("tm_started", 0, len(found), f"flink-taskmanager-1-{t}", tm=f"flink-taskmanager-1-{t}"))
        found.append(log("tm_registered", 100, len(found), tm=f"flink-taskmanager-1-{t}"))
    for j in range(10):
        job = f"{j:032x}"
        found.append(log("job_state", 200, len(found), job=job, name=f"orders-{j}", state="RUNNING"))
        for t in range(50):
            place = {"tm": f"flink-taskmanager-1-{t}", "host": f"10.0.0.{t}", "attempt": f"{j:032x}_{j:032x}_{t}_0"}
            task = {"task": f"Source: orders-{j} -> map", "subtask": str(t), "parallelism": "50"}
            found.append(log("task_deploying", 300, len(found), **task, **place))
            found.append(metric("records_in", 300, 5.0, len(found), job_id=job, tm_id=place["tm"].replace("-", "_")))
        for n in range(80):
            fields = {"checkpoint": str(n), "job": job}
            found.append(log("checkpoint_triggered", 1_000 + n * 60_000, len(found), **fields, epoch=str(START)))
            if n < 78:
                took = {"duration": "1200", "bytes": "1"}
                found.append(log("checkpoint_completed", 2_000 + n * 60_000, len(found), **fields, **took))
        found.append(log("checkpoint_expired", 5_300_000, len(found), checkpoint="79", job=job))
    found.append(log("tm_unreachable", 5_310_000, len(found), tm="flink-taskmanager-1-7"))
    return in_order(found)


def _state_after(stream: list[Event]) -> bytes:
    store = MemoryStore()
    index = BucketIndex(published=PUBLISHED)
    for start in range(0, len(stream), 5_000):
        batch = stream[start : start + 5_000]
        assert step(index, store, batch, batch[-1].timestamp).defects == []
    state = store.get("c")
    assert state is not None
    return state


def test_a_cluster_of_ten_jobs_and_fifty_taskmanagers_is_kept_in_fifty_kilobytes() -> None:
    assert len(_state_after(_large_cluster())) < 50_000


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("job", 10_000),
        ("tm", 10_000),
        *(pytest.param(what, 100_000, marks=pytest.mark.slow) for what in ("attempt", "source", "task")),
    ],
)
def test_ids_without_end_do_not_make_the_state_grow_without_end(what: str, count: int) -> None:
    """Every map is full long before; a hundred thousand jobs would only take longer."""

    def stream(first: int, count: int) -> list[Event]:
        wanted_types = {
            "job": ("job_state", "checkpoint_triggered", "checkpoint_expired"),
            "tm": ("tm_registered", "tm_unreachable", "tm_closed", "rpc_gated"),
            "attempt": ("task_state", "checkpoint_acked_late", "checkpoint_abort_noticed"),
            "source": ("tm_started", "process_version", "checkpoint_triggered"),
            "task": ("task_deploying", "task_state"),
        }[what]
        found: list[Event] = []
        for n in range(first, first + count):
            hexed = f"{n:032x}"
            fields = {
                "job": hexed if what == "job" else "a" * 32,
                "tm": f"tm-{n}" if what == "tm" else "tm-1",
                "attempt": hexed,
                "task": f"map-{n}" if what == "task" else "map",
                "checkpoint": str(n),
                "address": f"tm-{n}:1",
                "host": "h",
                "subtask": "1",
                "state": "RUNNING",
                "name": f"job-{n}",
                "reason": "Container exited with a non-zero exit code 1",
                "version": "1.20.5",
                "what": "TaskManager",
                "epoch": str(START + n),
            }
            source = f"source-{n}" if what == "source" else "jm"
            found.append(log(wanted_types[n % len(wanted_types)], n, n, source, **fields))
        return found

    half = len(_state_after(stream(0, count // 3)))
    whole = len(_state_after(stream(0, count)))
    assert whole < 1.25 * half + 5_000
    assert whole < 500_000


def _everything_new(event_types: frozenset[str], count: int) -> list[Event]:
    """Lines and samples that a detector wants, none of whose ids was ever seen before."""
    lines = [(m, f) for m in sorted(EVENT_TYPES & event_types) for f in fields_of(m)]
    names = sorted(METRICS & event_types)
    found: list[Event] = []
    for n in range(count):
        at = n * 200
        if names and (n % 2 or not lines):
            labels = {k: f"{v[0]}-{n}" for k, v in LABELS.items()}
            found.append(metric(names[n // 2 % len(names)], at, float(n), n, **labels))
            continue
        event_type, fields = lines[n // 2 % len(lines)]
        history = {k: f"{CHOICES[k][0]}-{n}" if k in IDS else CHOICES.get(k, (str(n),))[0] for k, _ in fields}
        hexed = {k: f"{n:032x}" for k in ("job", "attempt", "failed") if k in history}
        found.append(log(event_type, at, n, f"source-{n}", **{**history, **hexed}))
    return found


IDS = ("name", "tm", "container", "host", "node", "address", "task", "job", "attempt", "failed")


@pytest.mark.slow
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)
def test_nothing_is_kept_of_everything_for_ever(detector: type[Detector]) -> None:
    """Every map of every detector is bounded: ids that never come again push each other out."""
    store, index = MemoryStore(), BucketIndex(published=alone(detector.kind))
    stream, sizes = in_order(_everything_new(detector.event_types, 20_000)), []
    for start in range(0, len(stream), 5_000):
        batch = stream[start : start + 5_000]
        assert step(index, store, batch, batch[-1].timestamp).defects == []
        sizes.append(len(store.get("c") or b""))
    _, half, _, whole = sizes
    assert whole < 1.25 * half + 5_000
    assert whole < 500_000


def _steady(source: str, ahead: int, minutes: int) -> list[Event]:
    """Checkpoints of a second, one a minute, of a source whose producer's clock is `ahead` ms ahead."""
    found: list[Event] = []
    for n in range(minutes):
        fields = {"checkpoint": str(n), "job": source[0] * 32}
        epoch = str(START + n * 60_000)
        found.append(log("checkpoint_triggered", n * 60_000, n, source, 100 + ahead, **fields, epoch=epoch))
        took = {"duration": "1000", "bytes": "1"}
        found.append(log("checkpoint_completed", n * 60_000 + 1_000, n, source, 100 + ahead, **fields, **took))
    return found


def test_partitions_that_are_read_ahead_make_nothing_overdue() -> None:
    """The clock is the stream's; an event that is an hour ahead of it is no reason for anybody's deadline."""
    good, ahead = _steady("b", 0, 30), _steady("a", 3_600_000, 30)
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    for n in range(30):
        batch = [*good[2 * n : 2 * n + 2], *ahead[2 * n : 2 * n + 2]]
        until = max(e.timestamp for e in good[2 * n : 2 * n + 2])
        assert step(index, store, batch, until).transitions == []
