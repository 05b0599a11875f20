"""When a bucket steps a cluster, as of which time, and what it refuses, keeps and forgets."""

from typing import Any

import msgspec
import pytest

from detectors.engine import bucket
from detectors.engine.bucket import BucketIndex, BucketOutput, step
from detectors.engine.late_partitions import PartitionOrder
from detectors.engine.state import decode_state, encode_state
from detectors.events.event import Event, MetricEvent
from detectors.kinds.processes.taskmanager_lost import TaskManagerLost
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED
from tests.unit.detectors.changes import Played, live, silence
from tests.unit.detectors.streams import START, alone, log, metric

SECOND, HOUR, WEEK = 1_000, 3_600_000, 7 * 86_400_000
JOB = {"job": "a" * 32}


class Counted(MemoryStore):
    """Counts how often the state of each cluster is written."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[str] = []

    def put(self, cluster: str, state: bytes) -> None:
        self.puts.append(cluster)
        super().put(cluster, state)


class Bucket:
    """A bucket whose steps are at times after START; `front` is the most advanced partition."""

    def __init__(self, published: Any = PUBLISHED) -> None:
        self.index, self.store = BucketIndex(published=published), Counted()

    def step(self, until: int, *events: Event, front: int | None = -1) -> BucketOutput:
        ahead = START + until if front == -1 else None if front is None else START + front
        return step(self.index, self.store, events, START + until, front=ahead)

    def late(self) -> "Bucket":
        """The cluster's second partition is known to be 20 s late."""
        self.step(30 * SECOND, sample(30 * SECOND), front=30 * SECOND)
        self.step(31 * SECOND, sample(10 * SECOND, partition=7), front=31 * SECOND)
        assert self.index.orders["c"].wait() == 21 * SECOND
        self.store.puts.clear()
        return self


def sample(at: int, partition: int = 0) -> MetricEvent:
    return msgspec.structs.replace(metric("heap_used", at, 1.0), timestamp=START + at, partition=partition)


def of(cluster: str, at: int = 0, offset: int = 0) -> Event:
    return msgspec.structs.replace(log("tm_registered", at, offset, lag=0, tm="t"), cluster=cluster)


def test_a_clock_that_was_driven_ahead_is_set_back_for_every_cluster() -> None:
    ahead = {"c": START + 5, "d": START + 6}
    for counted_at, kept in ((90, 50), (30, 30)):
        index = BucketIndex(
            clock=100, front=120, counted_at=counted_at, deadlines=ahead, orders={"c": PartitionOrder()}
        )
        index.go_back(50)
        assert (index.clock, index.front, index.counted_at) == (50, 50, kept)
        assert (index.deadlines, index.orders) == ({"c": 0, "d": 0}, {})


def test_silences_leave_the_configuration_in_force() -> None:
    played = Played(live({"checkpoint_overdue": {"factor": 7.0}}))
    before = played.index.config_hash()
    played.change(silence(HOUR))
    assert played.index.config_hash() == before != Played().index.config_hash()
    assert played.index.published is not None


def test_settings_of_another_version_give_way_to_the_defaults_until_the_job_publishes_its_own() -> None:
    other = msgspec.structs.replace(PUBLISHED, hash="00000000", detectors={"no_such_kind": {}})
    output = Bucket(other).step(HOUR, log("checkpoint_expired", 0, checkpoint="1", **JOB))
    assert [(t.transition, t.cause) for t in output.transitions][:1] == [("opened", "checkpoint_overdue")]


@pytest.mark.parametrize(
    ("front", "catching_up", "learned"), [(31, False, True), (31, True, False), (None, False, False)]
)
def test_lags_are_learned_only_where_the_stream_is_read_as_it_comes(
    front: int | None, catching_up: bool, learned: bool
) -> None:
    own = Bucket()
    own.step(30 * SECOND, sample(30 * SECOND))
    own.index.catching_up = catching_up
    own.step(31 * SECOND, sample(10 * SECOND, 7), front=None if front is None else front * SECOND)
    assert bool(own.index.orders) is learned


def test_the_most_advanced_partition_stays_the_most_advanced_one() -> None:
    own = Bucket()
    for until, front, reached in ((10, 20, 20), (15, 15, 20), (25, 24, 25), (26, None, 26)):
        own.step(until, front=front)
        assert own.index.front == START + reached


def test_a_cluster_that_waits_for_a_late_partition_meets_its_deadlines_as_much_later() -> None:
    own = Bucket().late()
    own.index.deadlines["c"] = START + 60 * SECOND
    own.step(80 * SECOND)
    assert own.store.puts == []
    own.step(81 * SECOND)
    assert own.store.puts == ["c"]
    assert decode_state(own.store.get("c") or b"").clock == START + 60 * SECOND


def test_a_deadline_is_met_at_its_time_and_not_before() -> None:
    own = Bucket()
    own.step(SECOND, of("c"))
    own.index.deadlines["c"] = START + 60 * SECOND
    own.store.puts.clear()
    own.step(60 * SECOND - 1)
    assert own.store.puts == []
    own.step(60 * SECOND)
    assert own.store.puts == ["c"]


def test_the_next_step_of_a_cluster_is_when_its_oldest_waiting_event_is_taken_or_before() -> None:
    own = Bucket().late()
    own.step(40 * SECOND, sample(39 * SECOND), sample(38 * SECOND))
    assert own.index.deadlines["c"] <= START + 38 * SECOND
    for until in range(41, 60):
        own.step(until * SECOND)
    assert own.index.orders["c"].waiting == [sample(39 * SECOND)]
    own.step(60 * SECOND)
    assert own.index.orders["c"].waiting == []


def test_a_change_has_the_time_of_a_cluster_that_waits() -> None:
    """Its clock is at 30 s and that of the bucket at 31 s."""
    own = Bucket(alone("checkpoint_overdue"))
    own.step(0, log("checkpoint_expired", -SECOND, checkpoint="1", lag=0, **JOB))
    own.late()
    own.index.configure(alone("restart_loop"), [])
    own.step(50 * SECOND)
    output = own.step(HOUR)
    (last,) = [t for t in output.transitions if t.transition == "resolved"]
    assert last.ended_at == START + 30 * SECOND


@pytest.mark.parametrize(
    ("known", "new", "refused"), [(2, 1, []), (2, 2, ["n1"]), (3, 1, ["n0"]), (4, 2, ["n0", "n1"]), (0, 4, ["n3"])]
)
def test_new_clusters_beyond_the_limit_are_refused_with_their_first_event(
    monkeypatch: pytest.MonkeyPatch, known: int, new: int, refused: list[str]
) -> None:
    own = Bucket()
    own.step(0, *(of(f"k{n}") for n in range(known)))
    monkeypatch.setattr(bucket, "MAX_CLUSTERS", 3)
    events = [of(f"n{n}", offset) for n in range(new) for offset in (1, 2)]
    output = own.step(SECOND, *events)
    assert output.refused == {name: (2, of(name, 1)) for name in refused}
    assert all((own.store.get(f"n{n}") is None) is (f"n{n}" in refused) for n in range(new))


def test_a_cluster_whose_only_event_fails_is_asked_again_with_its_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Bucket()
    lost = log("tm_unreachable", 0, tm="t", lag=0)
    with monkeypatch.context() as broken:
        broken.setattr(TaskManagerLost, "fact", lambda *_: 1 / 0)
        output = own.step(0, lost)
    assert [(d.event, d.error) for d in output.defects] == [(lost, "ZeroDivisionError: division by zero")]
    assert own.index.deadlines == {}
    own.step(SECOND, of("c", SECOND))
    assert list(own.index.deadlines) == ["c"]


def test_a_cluster_whose_event_fails_while_another_waits_is_asked_when_that_one_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = Bucket().late()
    with monkeypatch.context() as broken:
        broken.setattr(TaskManagerLost, "fact", lambda *_: 1 / 0)
        own.step(40 * SECOND, log("tm_unreachable", 5 * SECOND, tm="t", lag=0), sample(39 * SECOND))
    assert own.index.deadlines["c"] == START + 39 * SECOND
    assert own.index.orders["c"].waiting == [sample(39 * SECOND)]


def test_a_cluster_that_is_forgotten_takes_all_that_is_published_and_kept_of_it_along() -> None:
    own = Bucket(live({"incidents": {"forget_after": "1h"}}))
    shown = own.step(0, log("checkpoint_triggered", 0, checkpoint="1", epoch=str(START), lag=0, **JOB)).readings
    own.late()
    shown += own.step(60 * SECOND, sample(39 * SECOND)).readings
    state = decode_state(own.store.get("c") or b"")
    state.topology.cut = {"jobs": 3}
    own.store.put("c", encode_state(state))
    output = own.step(2 * HOUR)
    assert own.store.get("c") is None
    assert (own.index.deadlines, own.index.orders) == ({}, {})
    keys = {r.key() for r in shown}
    assert keys
    assert {*keys, "cluster_entries_cut_total|cluster=c|what=jobs"} <= set(output.removed)
    assert output.readings == []
