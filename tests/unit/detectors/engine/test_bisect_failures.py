"""An event that makes a detector fail is lost alone."""

import random
from typing import Any

import msgspec
import pytest

from detectors.engine import fold
from detectors.engine.bucket import BucketIndex, BucketOutput, step
from detectors.engine.fold import StepOutput
from detectors.engine.state import decode_state
from detectors.events.event import Event, LogEvent
from detectors.settings.live import LiveSettings, publish
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, events
from tests.unit.detectors.streams import START, in_order, log


def output_of(*batches: list[Event]) -> BucketOutput:
    """The output of these batches, one after the other."""
    index, store, every = BucketIndex(published=PUBLISHED), MemoryStore(), BucketOutput([], [], [], [], {}, [], [])
    for batch in batches:
        output = step(index, store, batch, max(e.timestamp for e in batch))
        every.transitions.extend(output.transitions)
        every.defects.extend(output.defects)
    return every


def spoilt(like: Event) -> Event:
    """An event that arrives with another one, and in which a number is none."""
    found = log("checkpoint_completed", 0, 1, job="a" * 32, checkpoint="3", duration="soon", bytes="1")
    assert isinstance(found, LogEvent)
    places = {name: getattr(like, name) for name in ("cluster", "source", "timestamp", "topic", "partition", "offset")}
    return msgspec.structs.replace(found, **places)


@pytest.mark.parametrize("seed", range(5))
def test_all_others_are_taken_as_if_it_had_never_come(seed: int) -> None:
    good = [*events("late-barrier-acks")]
    chance, middle = random.Random(seed), len(good) // 2
    bad = [spoilt(event) for event in chance.sample(good[:middle], 1 + seed)]
    output = output_of(chance.sample([*good[:middle], *bad], middle + len(bad)), good[middle:])
    expected = output_of(good[:middle], good[middle:])
    assert expected.transitions
    assert output.transitions == expected.transitions
    assert sorted(d.event.offset for d in output.defects) == sorted(event.offset for event in bad)
    assert {d.error for d in output.defects} == {"ValidationError: Expected `int`, got `str` - at `$.duration`"}


def test_where_many_fail_they_are_not_looked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def counted(*args: Any) -> StepOutput:
        nonlocal steps
        steps += 1
        return one(*args)

    one = fold.step
    monkeypatch.setattr(fold, "step", counted)
    bad = [spoilt(event) for event in events("late-barrier-acks")]
    output = output_of(bad)
    assert output.transitions == []
    assert sorted(d.event.offset for d in output.defects) == sorted(event.offset for event in bad)
    assert len(bad) > 200
    assert steps < 50


def test_another_cluster_is_not_touched() -> None:
    bad = log("checkpoint_triggered", 0, 1, checkpoint="not a number", job="a" * 32, epoch=str(START))
    good = msgspec.structs.replace(log("checkpoint_triggered", 0, 2, checkpoint="1", job="b" * 32), cluster="other")
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    output = step(index, store, [bad, good], START + 1_000)
    assert [d.event for d in output.defects] == [bad]
    assert store.get("c") is None
    assert store.get("other") is not None


ENDED_BY_THE_CLOCK = ("checkpoint-hung-then-done", "taskmanager-frozen", "taskmanager-silent", "memory-limit-kill")


@pytest.mark.parametrize("name", ENDED_BY_THE_CLOCK)
def test_deadlines_within_the_batch_are_met_at_their_time(name: str) -> None:
    """The clock of the first half is that of its last event: what the second half brings in time is in time."""
    good = in_order(events(name))
    expected = output_of(good)
    assert expected.transitions
    for place in (0, len(good) // 3, len(good) - 1):
        assert output_of([*good, spoilt(good[place])]).transitions == expected.transitions


def test_an_event_ahead_of_the_clock_does_not_drive_it_where_a_batch_is_halved() -> None:
    good = in_order(events("late-barrier-acks"))
    half = len(good) // 2
    until = good[half].timestamp
    ahead = msgspec.structs.replace(good[0], timestamp=until + 3_600_000, offset=10**6)
    clocks = []
    for bad in ([], [spoilt(ahead)], [spoilt(good[3])]):
        index, store = BucketIndex(published=PUBLISHED), MemoryStore()
        first = step(index, store, [*good[: half + 1], ahead, *bad], until).transitions
        rest = step(index, store, good[half + 1 :], good[-1].timestamp).transitions
        clocks.append((first, rest, decode_state(store.get(good[0].cluster) or b"").clock))
    assert clocks[1] == clocks[2] == clocks[0]
    assert clocks[0][0] + clocks[0][1]


@pytest.mark.parametrize("name", ["late-barrier-acks", "taskmanager-killed-2.3.0", "heap-exhausted-2.3.0"])
def test_the_series_that_are_shown_are_those_that_the_state_holds(name: str) -> None:
    """Also where a series ends in one half of a batch and comes again in the other."""
    stream = in_order(events(name))
    index, store, shown = BucketIndex(published=PUBLISHED), MemoryStore(), set[str]()
    for start in range(0, len(stream), 60):
        batch = stream[start : start + 60]
        output = step(index, store, [*batch, spoilt(batch[len(batch) // 2])], batch[-1].timestamp)
        shown = (shown | {r.key() for r in output.readings}) - set(output.removed)
        assert shown == set(decode_state(store.get(stream[0].cluster) or b"").reading_keys())
    assert shown


def test_series_that_a_change_of_the_configuration_ends_end_also_in_a_batch_that_is_halved() -> None:
    stream = in_order(events("late-barrier-acks"))
    half = len(stream) * 8 // 10
    off = publish(LiveSettings.model_validate({"detectors": {"heap_exhaustion": {"enabled": False}}}), 1, "tests")
    index, store = BucketIndex(published=PUBLISHED), MemoryStore()
    before = step(index, store, stream[:half], stream[half - 1].timestamp)
    index.configure(off, ())
    output = step(index, store, [*stream[half:], spoilt(stream[-1])], stream[-1].timestamp)
    ended = {r.key() for r in before.readings if r.name == "gc_time_ratio"}
    assert ended
    assert ended <= set(output.removed)
