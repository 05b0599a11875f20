"""Laws of the model of a cluster: what detectors get of it does not depend on where it was stored; it is bounded."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.events.event import Event, LogEvent
from detectors.flink.facts import Fact, fact_of
from detectors.flink.topology import Topology
from tests.unit.detectors.streams import log, made_up


def fold(model: Topology, event: Event) -> Fact | bool | None:
    """The fact that is new in a line, or whether samples have named a job."""
    if isinstance(event, LogEvent):
        fact = fact_of(event)
        return None if fact is None else model.update(event, fact, event.timestamp, event.local_time)
    return model.measure({s.name: [s] for s in event.samples}, event.time)


@given(made_up(most=80), st.sets(st.integers(0, 80)))
def test_a_model_that_was_stored_gives_the_same_facts(stream: list[Event], points: set[int]) -> None:
    kept, stored = Topology(), Topology()
    for number, event in enumerate(stream):
        if number in points:
            stored = msgspec.msgpack.decode(msgspec.msgpack.encode(stored), type=Topology)
        assert fold(kept, event) == fold(stored, event)
    assert msgspec.msgpack.encode(kept) == msgspec.msgpack.encode(stored)


@pytest.mark.parametrize(
    ("event_type", "field"),
    [
        ("job_state", "job"),
        ("checkpoint_triggered", "job"),
        ("checkpoint_triggered", "checkpoint"),
        ("tm_registered", "tm"),
        ("task_state", "attempt"),
    ],
)
def test_a_hundred_thousand_of_anything_are_kept_in_a_bounded_model(event_type: str, field: str) -> None:
    fields = {"job": "a" * 32, "checkpoint": "7", "tm": "tm-1:6122-a", "attempt": "c" * 32, "epoch": "1700000000000"}
    fields |= {"state": "RUNNING", "before": "CREATED", "task": "map", "subtask": "1"}
    model, sizes = Topology(), []
    for number in range(100_000):
        own = str(number) if field == "checkpoint" else f"{number:032x}"
        fold(model, log(event_type, number * 3_000, number, **fields | {field: own}))
        if number in (20_000, 99_999):
            sizes.append(len(msgspec.msgpack.encode(model)))
    assert sizes[1] <= 1.1 * sizes[0] < 200_000, sizes
