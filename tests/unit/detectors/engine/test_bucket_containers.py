"""Samples of containers alone make no cluster: a kubelet's page may name anything."""

import pytest

from detectors.engine import bucket
from detectors.engine.state import decode_state
from detectors.events.event import Event, MetricEvent, Sample
from streaming.recordings.replay import MemoryStore
from tests.unit.detectors.streams import START, log, metric

LABELS = {"pod": "orders-taskmanager-1-1", "container": "flink-main-container", "app": "orders"}


def container(at: int, cluster: str = "c") -> MetricEvent:
    time = START + at
    sample = Sample("container_memory", LABELS, 1e9)
    return MetricEvent(cluster, "node-7", "node-7", time, time, "flink.metrics", 0, at, [sample])


def clusters(*batches: list[Event]) -> set[str]:
    """The clusters of a bucket after these batches."""
    index, store = bucket.BucketIndex(), MemoryStore()
    for batch in batches:
        bucket.step(index, store, batch, max(e.timestamp for e in batch))
    return set(index.deadlines)


def test_a_container_makes_no_cluster() -> None:
    assert clusters([container(0)], [container(1_000, "d")]) == set()


@pytest.mark.parametrize("first", [log("job_state", 500, job="a" * 32, name="x", before="CREATED", state="RUNNING")])
def test_a_line_of_flink_makes_one_and_containers_join_it(first: Event) -> None:
    assert clusters([container(0), first, container(1_000)]) == {"c"}
    assert clusters([container(0)], [first], [container(1_000)]) == {"c"}


def test_what_comes_before_the_first_line_of_flink_is_dropped_however_the_stream_is_cut() -> None:
    stream: list[Event] = [container(0), container(10), metric("heap_used", 500, 1e8, tm_id="t"), container(1_000)]
    ends = []
    for cut in range(1, len(stream) + 1):
        index, store = bucket.BucketIndex(), MemoryStore()
        for batch in (stream[:cut], stream[cut:]):
            bucket.step(index, store, batch, max((e.timestamp for e in batch), default=START + 1_000))
        state = decode_state(store.get("c") or b"")
        ends.append(bytes(state.detectors["memory_limit_kill"]))
    assert len(set(ends)) == 1
