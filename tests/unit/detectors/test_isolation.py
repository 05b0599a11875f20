"""An event that makes a detector fail is lost alone."""

import random
from typing import Any

import msgspec
import pytest

from detectors.bucket import Index, Said, step
from detectors.engine import Engine, Step
from detectors.events.event import Event, LogEvent
from streaming.replay import MemoryStore
from tests.recorded import PUBLISHED, events
from tests.unit.detectors.streams import START, log


def told(*batches: list[Event]) -> Said:
    """What these batches say, one after the other."""
    index, store, every = Index(published=PUBLISHED), MemoryStore(), Said([], [], [], [], {})
    for batch in batches:
        said = step(index, store, batch, max(e.timestamp for e in batch))
        every.transitions.extend(said.transitions)
        every.defects.extend(said.defects)
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
    said = told(chance.sample([*good[:middle], *bad], middle + len(bad)), good[middle:])
    expected = told(good[:middle], good[middle:])
    assert expected.transitions
    assert said.transitions == expected.transitions
    assert sorted(d.event.offset for d in said.defects) == sorted(event.offset for event in bad)
    assert {d.error for d in said.defects} == {"ValueError: invalid literal for int() with base 10: 'soon'"}


def test_where_many_fail_they_are_not_looked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def counted(self: Engine, *args: Any) -> Step:
        nonlocal steps
        steps += 1
        return one(self, *args)

    one = Engine.step
    monkeypatch.setattr(Engine, "step", counted)
    bad = [spoilt(event) for event in events("late-barrier-acks")]
    said = told(bad)
    assert said.transitions == []
    assert sorted(d.event.offset for d in said.defects) == sorted(event.offset for event in bad)
    assert len(bad) > 200
    assert steps < 50


def test_another_cluster_is_not_touched() -> None:
    bad = log("checkpoint_triggered", 0, 1, checkpoint="not a number", job="a" * 32, epoch=str(START))
    good = msgspec.structs.replace(log("checkpoint_triggered", 0, 2, checkpoint="1", job="b" * 32), cluster="other")
    index, store = Index(published=PUBLISHED), MemoryStore()
    said = step(index, store, [bad, good], START + 1_000)
    assert [d.event for d in said.defects] == [bad]
    assert store.get("c") is None
    assert store.get("other") is not None
