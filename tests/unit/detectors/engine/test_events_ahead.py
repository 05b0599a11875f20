"""Events that are ahead of the clock, because another partition has not been read as far: folded at once, unless a
deadline comes before them."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from detectors.detector import View
from detectors.engine import bucket, late_partitions
from detectors.engine.late_partitions import BOUND_MS, PartitionLag, PartitionOrder, next_waiting
from detectors.engine.state import decode_state
from detectors.events.event import LogEvent
from detectors.kinds.telemetry.unread_records_lost import UnreadRecordsLost
from streaming.recordings.replay import MemoryStore
from tests.unit.detectors.arrivals import output
from tests.unit.detectors.engine.test_late_partitions import SHORT
from tests.unit.detectors.streams import START, alone, encoded, log


def event(at: int, offset: int = 0, cluster: str = "c") -> LogEvent:
    found = log("input_read_up", at, offset, lag=0, topic="flink.logs", partition="0")
    return msgspec.structs.replace(found, cluster=cluster)


class Cluster:
    """One cluster with one detector. `taken` has what the detector was given, in order and in ms; `due` is its
    deadline, which comes again every second with `again`, and `brought` the deadlines that events bring, by offset."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.index, self.store = bucket.BucketIndex(published=alone("unread_records_lost")), MemoryStore()
        self.taken: list[tuple[str, int]] = []
        self.due: int | None = None
        self.again = False
        self.brought: dict[int, int] = {}
        self.failing: int | None = None
        patched.setattr(UnreadRecordsLost, "fact", lambda _, *given: self._take(*given))
        patched.setattr(UnreadRecordsLost, "on_deadline", lambda _, view: self._on_deadline(view))
        patched.setattr(UnreadRecordsLost, "has_deadlines", True)
        patched.setattr(UnreadRecordsLost, "next_deadline", lambda *_: self.due and START + self.due)
        # A front that means something needs a batch before.
        self.step(0)

    def _take(self, view: View[Any, Any], *_: object) -> bool:
        if view.event.offset == self.failing:
            raise ValueError(view.event.offset)
        self.taken.append(("event", view.clock - START))
        self.due = self.brought.get(view.event.offset, self.due)
        return True

    def _on_deadline(self, view: View[Any, Any]) -> None:
        now = view.clock - START
        self.taken.append(("deadline", now))
        self.due = now + 100 if self.again else None

    def step(self, until: int, *events: LogEvent, front: int | None = None) -> list[tuple[str, int]]:
        """What the detector is given in a step; the most advanced partition is as new as the newest event."""
        newest = max([until, *(e.timestamp - START for e in events)]) if front is None else front
        self.taken.clear()
        bucket.step(self.index, self.store, [*events], START + until, front=START + newest)
        return [*self.taken]

    def waiting(self) -> list[int]:
        order = self.index.orders.get("c")
        return [e.timestamp - START for e in order.waiting] if order is not None else []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def due(cluster: Cluster, at: int) -> None:
    """A deadline that an event brings a second after the start."""
    cluster.brought[900] = at
    cluster.step(1_000, event(1_000, 900))


def test_without_a_deadline_before_it_an_event_ahead_is_taken_at_once(cluster: Cluster) -> None:
    due(cluster, 13_000)
    assert cluster.step(10_000, event(10_500), event(12_999, 1)) == [("event", 10_500), ("event", 12_999)]
    assert cluster.index.orders == {}
    assert cluster.index.clock == START + 10_000
    assert cluster.step(13_000) == [("deadline", 13_000)]


def test_an_event_after_a_deadline_waits_until_the_clock_has_met_it(cluster: Cluster) -> None:
    due(cluster, 11_500)
    assert cluster.step(10_000, event(10_500), event(12_000, 1)) == [("event", 10_500)]
    assert cluster.waiting() == [12_000]
    assert cluster.index.orders["c"].wait() == 0
    assert cluster.step(11_999) == []
    # The deadline is met at the next whole second, which is the event's.
    assert cluster.step(12_000) == [("deadline", 12_000), ("event", 12_000)]
    assert cluster.index.orders == {}


def test_once_the_deadline_is_met_the_event_no_longer_waits_for_its_own_time(cluster: Cluster) -> None:
    due(cluster, 11_000)
    assert cluster.step(10_000, event(40_000)) == []
    assert cluster.step(11_000) == [("deadline", 11_000), ("event", 40_000)]


def test_the_clusters_own_time_for_its_next_step_is_that_of_the_waiting_event(cluster: Cluster) -> None:
    due(cluster, 11_000)
    cluster.step(10_000, event(12_000))
    assert next_waiting(cluster.index.orders, "c") == START + 12_000
    assert cluster.index.deadlines["c"] == START + 11_000


def test_older_events_that_arrive_while_it_waits_are_taken_before_it(cluster: Cluster) -> None:
    due(cluster, 11_000)
    cluster.step(10_000, event(11_100))
    assert cluster.step(10_700, event(10_600, 1), event(11_300, 2)) == [("event", 10_600)]
    events = [("event", at) for at in (11_020, 11_100, 11_300)]
    assert cluster.step(11_050, event(11_020, 3)) == [("deadline", 11_000), *events]


def test_an_event_waits_no_longer_than_until_the_clock_reaches_it(cluster: Cluster) -> None:
    """A detector with a deadline in every second keeps none of them."""
    cluster.again = True
    due(cluster, 10_100)
    assert cluster.step(10_000, event(15_000)) == []
    for second in (11_000, 12_000, 13_000, 14_000):
        assert cluster.step(second) == [("deadline", second)]
    assert cluster.step(15_000) == [("deadline", 15_000), ("event", 15_000)]


def test_a_deadline_that_an_event_ahead_brings_is_met_after_it(cluster: Cluster) -> None:
    """Also if its time has passed: as if the clock had reached the event."""
    cluster.brought[7] = 10_000
    assert cluster.step(10_600, event(11_200, 7)) == [("event", 11_200)]
    assert cluster.step(11_100) == []
    assert cluster.step(12_000) == [("deadline", 12_000)]


def test_a_deadline_that_an_event_ahead_brings_holds_back_the_next_one(cluster: Cluster) -> None:
    cluster.brought[7] = 11_500
    assert cluster.step(10_000, event(10_500, 7), event(13_000, 1)) == [("event", 10_500)]
    assert cluster.waiting() == [13_000]
    assert cluster.step(13_000) == [("deadline", 12_000), ("event", 13_000)]


def test_the_last_event_is_never_a_late_one(cluster: Cluster) -> None:
    cluster.step(10_600, event(11_200, 7))
    cluster.step(10_900, event(10_800, 8))
    assert decode_state(cluster.store.get("c") or b"").last_event == START + 11_200


@pytest.mark.parametrize("backlog", [True, False])
def test_in_a_backlog_nothing_waits(cluster: Cluster, backlog: bool) -> None:
    due(cluster, 11_000)
    cluster.index.catching_up = backlog
    assert cluster.step(10_000, event(12_000)) == ([("event", 12_000)] if backlog else [])


@pytest.mark.parametrize(("ahead", "waits"), [(BOUND_MS, True), (BOUND_MS + 1, False)])
def test_with_an_event_far_ahead_nothing_waits_so_that_the_order_stays(
    cluster: Cluster, ahead: int, waits: bool
) -> None:
    """It comes from a producer whose clock is wrong; its cluster would wait for as long as that is."""
    due(cluster, 11_000)
    taken = cluster.step(10_000, event(12_000), event(10_000 + ahead, 1))
    assert taken == ([] if waits else [("event", 12_000), ("event", 70_000)])
    assert cluster.waiting() == ([12_000, 10_000 + ahead] if waits else [])


def test_without_room_nothing_waits(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that wait in other clusters of the bucket count as well."""
    monkeypatch.setattr(late_partitions, "_MOST_WAITING", 3)
    cluster.index.orders["d"] = PartitionOrder({"t/0": PartitionLag(5_000)}, [event(50_000, n, "d") for n in range(2)])
    due(cluster, 11_000)
    assert cluster.step(10_000, event(12_000)) == []
    assert cluster.step(10_100, event(12_001, 1)) == [("event", 12_000), ("event", 12_001)]
    assert cluster.waiting() == []


def test_in_a_batch_with_an_event_that_fails_nothing_waits(cluster: Cluster) -> None:
    due(cluster, 11_000)
    cluster.failing = 5
    assert cluster.step(10_000, event(10_000, 5), event(12_000)) == [("event", 12_000)]


def test_a_cluster_is_not_forgotten_while_an_event_of_it_waits(cluster: Cluster) -> None:
    week = 7 * 86_400_000
    due(cluster, week + 1_500)
    assert cluster.step(week + 1_000, event(week + 2_000)) == []
    assert cluster.step(week + 2_000) == [("deadline", week + 2_000), ("event", week + 2_000)]


def test_events_that_wait_are_not_lost_when_the_clock_goes_back(cluster: Cluster) -> None:
    due(cluster, 11_000)
    cluster.step(10_000, event(12_000))
    cluster.index.go_back(START - 200_000)
    assert cluster.step(-200_000) == [("event", -140_000)]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@example("savepoint-missing-2.3.0", 700, 700)
@example("heap-exhausted-2.3.0", 40_000, 40_000)
@given(st.sampled_from(SHORT), st.sampled_from([700, 2_000, 10_000, 40_000]), st.integers(0, 10**6))
def test_the_same_is_reported_wherever_the_stream_is_cut(name: str, most: int, seed: int) -> None:
    """All of it, without any lag: partitions are read unequally far in every batch."""
    chance = Random(seed)
    cut = iter(lambda: chance.randint(1, most), 0)
    assert encoded(output(name, {}, cut, 5_000)) == encoded(output(name, {}, known_for=5_000))
