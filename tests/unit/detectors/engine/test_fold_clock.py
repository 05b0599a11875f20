"""The clock of a cluster and of a bucket: it does not run back for a late record, nor ahead for one from the future."""

from typing import Any

import pytest

from detectors.detector import View
from detectors.engine import bucket, fold
from detectors.engine.engine import Engine
from detectors.engine.host_clock import FAR_MS
from detectors.engine.state import ClusterState, decode_state
from detectors.kinds.processes.taskmanager_lost import TaskManagerLost
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED
from tests.unit.detectors.changes import Played, live
from tests.unit.detectors.streams import START, alone, log


def engine() -> Engine:
    return Engine(alone("").live().detectors)


def test_the_clock_of_a_cluster_does_not_run_back() -> None:
    state = ClusterState()
    fold.step(engine(), "c", state, [log("tm_registered", 0, tm="t")], START + 100_000)
    output = fold.step(engine(), "c", state, [log("tm_unreachable", 10_000, 1, tm="t")], START + 50_000)
    assert state.clock == START + 100_000
    later = fold.step(engine(), "c", state, [], START + 130_000)
    times = [t.at for t in (*output.transitions, *later.transitions)]
    assert times
    assert min(times) >= START + 100_000


def test_the_clock_of_a_bucket_does_not_run_back() -> None:
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    bucket.step(index, store, [log("tm_registered", 0, tm="t")], START + 100_000)
    bucket.step(index, store, [], START + 50_000, front=START + 50_000)
    assert (index.clock, index.front) == (START + 100_000, START + 100_000)
    stood = index.clock
    for at in (40_000, 90_000, 99_999):
        bucket.step(index, store, [log("tm_registered", at, tm="u")], START + at)
        assert index.clock == stood


def test_only_a_clock_that_was_driven_far_ahead_goes_back() -> None:
    state = ClusterState()
    for ahead, stays in ((FAR_MS, True), (FAR_MS + 1, False)):
        state.clock = START + 200_000 + ahead
        fold.step(engine(), "c", state, [], START + 200_000)
        assert (state.clock == START + 200_000 + ahead) == stays


@pytest.mark.parametrize("ahead", [59_000, 61_000, 3_600_000])
def test_a_record_from_the_future_gives_detectors_a_clock_a_minute_ahead_at_most(
    monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    clocks: list[int] = []

    def fact(_: object, view: View[Any, Any], *__: object) -> None:
        clocks.append(view.clock)

    monkeypatch.setattr(TaskManagerLost, "fact", fact)
    state = ClusterState()
    early = log("tm_unreachable", ahead, tm="t", lag=0)
    fold.step(engine(), "c", state, [early], START)
    assert clocks == [START + min(ahead, 60_000)]
    assert state.clock == START


def test_a_record_from_the_future_counts_as_data_of_now() -> None:
    state = ClusterState()
    fold.step(engine(), "c", state, [log("tm_registered", 61_000, tm="t", lag=0)], START)
    assert state.last_event == START


def test_a_step_without_events_does_not_put_off_the_next_readings() -> None:
    state = ClusterState()
    begun = log("checkpoint_triggered", 0, job="a" * 32, checkpoint="1", epoch=str(START))
    assert fold.step(engine(), "c", state, [begun], START).readings
    assert not fold.step(engine(), "c", state, [], START + 15_000).readings
    again = log("checkpoint_triggered", 16_000, 1, job="a" * 32, checkpoint="2", epoch=str(START + 16_000))
    assert fold.step(engine(), "c", state, [again], START + 16_000).readings


def test_a_clock_that_goes_back_takes_what_was_reported_and_published_ahead_of_it_along() -> None:
    ahead, state = 2 * FAR_MS, ClusterState()
    begun = log("checkpoint_triggered", 0, job="a" * 32, checkpoint="1", epoch=str(START))
    fold.step(engine(), "c", state, [begun, log("tm_registered", 0, 1, tm="t")], START + 10_000)
    fold.step(engine(), "c", state, [log("tm_unreachable", ahead, 2, tm="t", lag=0)], START + ahead + 60_000)
    assert state.incidents
    kinds = set(state.detectors)
    back = START + 70_000
    fold.step(engine(), "c", state, [], back)
    assert set(state.detectors) == kinds
    assert (state.clock, state.last_event, state.readings_at) == (back, back, back)
    for one in state.incidents:
        assert max(one.opened_at, one.reported_at, *(f.at for f in one.findings)) <= back
    assert engine().next_step(state) <= back + 10_000
    assert fold.step(engine(), "c", state, [], back + 10_000).readings
    output = fold.step(engine(), "c", state, [], back + 900_000).transitions
    assert {t.at for t in output if t.transition == "stale"} == {back + 900_000}


def test_a_detector_that_is_switched_off_has_no_deadline_left() -> None:
    played = Played(live())
    played.take(log("tm_registered", 0, tm="t"), log("tm_unreachable", 1, 1, tm="t"))
    assert TaskManagerLost.kind in decode_state(played.store.get("c") or b"").deadlines
    played.change(live({TaskManagerLost.kind: {"enabled": False}}))
    played.take(until=2)
    assert TaskManagerLost.kind not in decode_state(played.store.get("c") or b"").deadlines
