"""Lines that a shipper reads late and in one go are judged by their own times, and what they show is reported."""

import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.engine import bucket, fold
from detectors.engine.engine import Engine
from detectors.engine.late_lines import LONGEST_MS, QUIET_MS, LateLines
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.event import Event, LogEvent
from detectors.incident import LateArrival, Transition
from detectors.kinds.checkpoints.checkpoint_overdue import CheckpointOverdue
from streaming.recordings.replay import MemoryStore
from tests.recorded import events
from tests.unit.detectors.story import HOUR, KINDS, MINUTE, SECOND, USER, Story, ms, story
from tests.unit.detectors.streams import SOURCES, START, alone, encoded, in_order, log, made_up, run

TM, OTHER = "tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb"
LATE = ("2 min", "20 min", "3 h")


def zoned(events: list[Event]) -> list[Event]:
    return [msgspec.structs.replace(e, zoned=True) if isinstance(e, LogEvent) else e for e in events]


def at_once(stream: list[Event], by: int) -> list[Event]:
    """The same with all lines in the one second of Kafka that is so long after the last of them."""
    end = max(e.timestamp for e in stream) + by
    return [msgspec.structs.replace(e, timestamp=end) if isinstance(e, LogEvent) else e for e in stream]


def with_live_host(stream: list[Event]) -> list[Event]:
    """Another host, on another partition, whose lines are on time all the while."""
    end = max(e.timestamp for e in stream) - START
    task = {"task": "x", "subtask": "1", "parallelism": "2", "attempt": "9" * 32, "before": "DEPLOYING"}
    live = [log("task_state", at, 10**6 + at, "tm-9", state="RUNNING", **task) for at in range(0, end + MINUTE, 30_000)]
    return in_order([*stream, *(msgspec.structs.replace(e, partition=9, zoned=True) for e in live)])


def reported(stream: list[Event], kinds: tuple[str, ...], cuts: tuple[int, ...] = ()) -> list[Transition]:
    return run(in_order(stream), cuts, max(e.timestamp for e in stream) + 10 * MINUTE, alone(*kinds))


def restart_loop() -> Story:
    told = story("restart_loop").job().runs()
    for _ in range(8):
        told.gap("15 s").restart(USER)
    return told


def expired() -> Story:
    told = story("checkpoint_overdue").job().runs().checkpoints(3, "10 s")
    for _ in range(3):
        told.triggered().gap("10 min").expired().gap("5 s")
    return told


def hung() -> Story:
    """Overdue for two minutes: only a deadline between the lines shows it."""
    told = story("checkpoint_overdue").job().runs().checkpoints(8, "20 s")
    return told.triggered().gap("150 s").completed(lasting="150 s").gap("20 s").checkpoints(3, "20 s")


def loss() -> Story:
    told = story("taskmanager_lost").job().runs().line("tm_registered", tm=TM).checkpoints(3, "10 s")
    return told.line("tm_timed_out", tm=TM).gap("40 s").line("tm_registered", tm=OTHER).checkpoints(3, "20 s")


STORIES = {"restart_loop": restart_loop, "expired": expired, "hung": hung, "loss": loss}


@pytest.mark.parametrize("live", [False, True], ids=["alone", "with a live host"])
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("name", STORIES)
def test_what_happened_in_an_outage_is_reported_as_it_happened(name: str, late: str, live: bool) -> None:
    told = STORIES[name]()
    stream = zoned(told.events)
    on_time = [t for t in reported(stream, told.kinds) if t.transition == "opened"]
    shipped = at_once(stream, ms(late))
    found = [t for t in reported(with_live_host(shipped) if live else shipped, told.kinds) if t.transition == "opened"]
    assert [(t.cause, t.findings[0].since) for t in found] == [(t.cause, t.findings[0].since) for t in on_time]
    arrived = max(e.timestamp for e in shipped)
    assert all(arrived < t.at <= arrived + LONGEST_MS + SECOND for t in found)
    assert [t.late.arrived for t in found if t.late is not None] == [arrived]
    assert all(t.late is None for t in on_time)


def test_it_is_said_when_the_lines_were_written_and_when_they_were_read() -> None:
    told = loss()
    last = reported(at_once(zoned(told.events), 2 * HOUR), told.kinds)[-1]
    lost = START + ms("30 s")
    arrived = START + ms("70 s") + ms("40 s") + 200 + 2 * HOUR
    assert (last.transition, last.late) == ("resolved", LateArrival(lost, lost, arrived))


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize(
    "name", ["restart-loop", "job-missing", "savepoint-failed", "checkpoint-hung-then-done", "taskmanager-killed"]
)
def test_a_recording_whose_log_is_read_at_once_shows_the_same_causes(name: str, late: str) -> None:
    """The metrics are on time. That the log is silent until then is another matter."""
    found = reported(at_once(list(events(name)), ms(late)), tuple(k for k in KINDS if k != "telemetry_lost"))
    on_time = reported(list(events(name)), tuple(k for k in KINDS if k != "telemetry_lost"))
    causes = [[t.cause for t in ts if t.transition == "opened"] for ts in (found, on_time)]
    assert causes[0] == causes[1] != []


@pytest.mark.parametrize(
    "name", ["healthy-steady", "plateau-healthy", "taskmanager-stopped", "rolling-restart-without-spare-slots"]
)
@pytest.mark.parametrize("late", LATE)
def test_nothing_is_found_in_a_healthy_log_that_is_read_at_once(name: str, late: str) -> None:
    assert reported(at_once(list(events(name)), ms(late)), tuple(k for k in KINDS if k != "telemetry_lost")) == []


def test_the_lines_of_two_hosts_are_taken_in_the_order_in_which_they_were_written() -> None:
    """The host's own log says that it was stopped. It is shipped after the log that misses it."""
    told = story("taskmanager_lost").job().runs().line("tm_registered", tm=TM).checkpoints(3, "10 s")
    told.by("tm-1").line("tm_started", tm=TM).line("process_signalled", signal="15")
    told.by("jm").line("tm_unreachable", at="33 s", tm=TM).gap("70 s").checkpoints(3, "10 s")
    lines = at_once(zoned(told.events), 20 * MINUTE)
    later = [msgspec.structs.replace(e, timestamp=e.timestamp + 3_000 * (e.source == "tm-1")) for e in lines]
    assert reported(zoned(told.events), told.kinds) == reported(later, told.kinds) == []


def test_a_backlog_that_comes_in_pieces_is_one_as_long_as_no_piece_takes_long() -> None:
    """What is missing may come with the next piece: the loss is known only once its end has come too."""
    told = story("taskmanager_lost").job().runs().line("tm_registered", tm=TM).checkpoints(3, "10 s")
    told.line("tm_unreachable", tm=TM).gap("1 s").line("tm_closed", tm=TM, reason="The TaskExecutor is shutting down.")
    first, *rest = at_once(zoned(told.events), HOUR)
    stream = [first, *(msgspec.structs.replace(e, timestamp=e.timestamp + 2_000 * i) for i, e in enumerate(rest))]
    assert reported(stream, told.kinds) == []


def test_silence_is_judged_by_arrival() -> None:
    """The last line of what was read late is no older than its arrival: what it began is not overdue at once."""
    told = story("checkpoint_overdue").job().runs().checkpoints(8, "20 s").triggered()
    stream = at_once(zoned(told.events), 3 * HOUR)
    arrived = stream[-1].timestamp
    opened = [t.at - arrived for t in reported(stream, told.kinds) if t.transition == "opened"]
    assert len(opened) == 1
    assert CheckpointOverdue.Config().min_age + QUIET_MS <= opened[0] < 10 * MINUTE


def source(delays: list[int], every: int = 10_000) -> list[bool]:
    """Whether each line of a source waits that is so late."""
    late, zones, waits = LateLines(), TimeZoneOffsets(), []
    for n, delay in enumerate(delays):
        clock = START + n * every
        if (due := late.due()) is not None and due <= clock:
            late.take(zones, due)
        line = msgspec.structs.replace(log("checkpoint_expired", n * every - delay, n, lag=delay), zoned=True)
        waits.append(late.wait(line, line.local_time, clock, zones))
    return waits


def test_a_source_that_is_always_late_by_as_much_waits_once() -> None:
    """A host whose clock is wrong, or a shipper that is an hour behind: until it is known, for a minute at most."""
    for delay in (HOUR, -HOUR):
        waits = source([delay] * 30)
        assert waits[0]
        assert not any(waits[LONGEST_MS // 10_000 + 1 :])
    assert not any(source([n % 50 * SECOND for n in range(30)]))


@pytest.mark.parametrize("year", [-54 * 365, 76 * 365], ids=["1970", "2099"])
def test_a_time_that_is_far_away_makes_no_line_wait(year: int) -> None:
    assert not any(source([0, -year * 24 * HOUR, 0, -year * 24 * HOUR]))


def test_what_waits_is_bounded() -> None:
    index, store = bucket.BucketIndex(published=alone("checkpoint_overdue")), MemoryStore()
    lines = [log("checkpoint_triggered", n, n, lag=HOUR - n, checkpoint=str(n), job="a" * 32) for n in range(12_000)]
    stream = [msgspec.structs.replace(e, zoned=True) for e in lines]
    assert bucket.step(index, store, stream, START + HOUR).defects == []
    assert len(store.get("c") or b"") < 500_000


def test_while_lines_wait_nothing_is_due_and_then_all_is() -> None:
    told = hung()
    stream = at_once(zoned(told.events), HOUR)
    index, store = bucket.BucketIndex(published=alone(*told.kinds)), MemoryStore()
    arrived = stream[-1].timestamp
    assert bucket.step(index, store, stream, arrived).transitions == []
    assert arrived < index.deadlines["c"] <= arrived + QUIET_MS + SECOND
    assert bucket.step(index, store, [], index.deadlines["c"] - 1).transitions == []
    opened = bucket.step(index, store, [], index.deadlines["c"]).transitions
    assert [t.transition for t in opened] == ["opened"]


def test_a_late_line_that_makes_a_detector_fail_is_lost_alone() -> None:
    told = hung()
    stream = at_once(zoned(told.events), HOUR)
    bad = log("checkpoint_completed", 0, 10**6, job="a" * 32, checkpoint="3", duration="soon", bytes="1")
    bad = msgspec.structs.replace(bad, timestamp=stream[-1].timestamp, zoned=True)
    index, store = bucket.BucketIndex(published=alone(*told.kinds)), MemoryStore()
    steps = [bucket.step(index, store, in_order([*stream, bad]), bad.timestamp)]
    steps += [bucket.step(index, store, [], bad.timestamp + after * SECOND) for after in range(5, 300, 5)]
    assert [d.event.offset for s in steps for d in s.defects] == [10**6]
    assert [t.transition for s in steps for t in s.transitions] == ["opened", "resolved"]


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(sorted(STORIES)),
    st.sampled_from(LATE),
    st.lists(st.integers(0, 500), max_size=10),
    st.randoms(use_true_random=False),
)
def test_the_same_is_reported_wherever_the_stream_is_cut(
    name: str, late: str, cuts: list[int], chance: random.Random
) -> None:
    """The backlog takes its shipper some seconds, and another host writes meanwhile."""
    told = STORIES[name]()
    lines = at_once(zoned(told.events), ms(late))
    pace = chance.choice((0, 40, 400))
    stream = with_live_host([msgspec.structs.replace(e, timestamp=e.timestamp + n * pace) for n, e in enumerate(lines)])
    assert encoded(reported(stream, told.kinds, tuple(cuts))) == encoded(reported(stream, told.kinds))


@pytest.mark.parametrize("name", STORIES)
def test_lines_that_are_read_twice_change_nothing(name: str) -> None:
    told = STORIES[name]()
    stream = at_once(zoned(told.events), HOUR)
    twice = [e for e in stream for _ in range(1 if e.event_type in ("thrown", "frame") else 2)]  # type: ignore[union-attr]
    assert encoded(reported(twice, told.kinds)) == encoded(reported(stream, told.kinds))


few = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
each_detector = pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)


def shipped_late(stream: list[Event], chance: random.Random) -> list[Event]:
    """The lines of some sources are read in one go, up to hours late; a few print times that cannot be."""
    found: list[Event] = []
    delays = {source: chance.choice((0, 0, 90_000, 20 * MINUTE, 3 * HOUR)) for source in SOURCES}
    every = {source: chance.choice((1_000, 3 * MINUTE, HOUR)) for source in SOURCES}
    for event in stream:
        if not isinstance(event, LogEvent) or not delays[event.source]:
            found.append(event)
            continue
        step = every[event.source]
        late = event.timestamp - event.timestamp % step + step + delays[event.source]
        wrong = chance.choice((0, 4_070_908_800_000)) if chance.random() < 0.05 else event.local_time
        zone = chance.random() < 0.9
        found.append(msgspec.structs.replace(event, timestamp=late, local_time=wrong, zoned=zone))
    return in_order(found)


@each_detector
@few
@given(st.data(), st.lists(st.integers(0, 5_000), max_size=30), st.randoms(use_true_random=False))
def test_the_same_is_reported_of_any_late_stream_however_it_is_cut(
    detector: type[Detector], data: st.DataObject, cuts: list[int], chance: random.Random
) -> None:
    """And what is reported is in order of time, and nothing fails."""
    stream = shipped_late(data.draw(made_up(detector.event_types)), chance)
    whole = reported(stream, (detector.kind,))
    assert encoded(reported(stream, (detector.kind,), tuple(cuts))) == encoded(whole)
    times = [t.at for t in whole]
    assert times == sorted(times)


@pytest.mark.slow
@each_detector
@few
@given(st.data(), st.randoms(use_true_random=False))
def test_after_a_step_with_late_lines_nothing_is_due_any_more(
    detector: type[Detector], data: st.DataObject, chance: random.Random
) -> None:
    engine, kept, stored = Engine(alone(detector.kind).live().detectors), ClusterState(), ClusterState()
    for event in shipped_late(data.draw(made_up(detector.event_types)), chance):
        fold.step(engine, "c", kept, [event], event.timestamp)
        assert engine.next_step(kept) > event.timestamp
        stored = decode_state(encode_state(stored))
        fold.step(engine, "c", stored, [event], event.timestamp)
    assert encode_state(kept) == encode_state(stored)
