"""The newest records come first, in chunks, and only so many."""

from types import SimpleNamespace

import pytest
from kafka import TopicPartition

from streaming.inspection import newest_records as module
from streaming.inspection.newest_records import newest_records
from tests.unit.streaming.memory_broker import MemoryBroker


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 4)


def offsets(broker: MemoryBroker, most: int) -> list[tuple[int, int]]:
    return [(r.partition, r.offset) for r in newest_records(broker.consumer(None), "t", most, within_s=60)]


def written(*counts: int) -> MemoryBroker:
    broker = MemoryBroker()
    broker.create("t", partitions=len(counts))
    for partition, count in enumerate(counts):
        for n in range(count):
            broker.write("t", b"%d" % n, partition=partition)
    return broker


def test_a_chunk_is_in_order_and_the_newest_chunk_comes_first() -> None:
    assert offsets(written(10), 8) == [(0, n) for n in (6, 7, 8, 9, 2, 3, 4, 5)]


def test_all_partitions_are_read_alike() -> None:
    assert sorted(offsets(written(10, 10), 8)) == [(p, n) for p in (0, 1) for n in (6, 7, 8, 9)]


def test_a_short_partition_ends_at_its_beginning() -> None:
    broker = written(10, 1, 0)
    broker.first[TopicPartition("t", 0)] = 8
    assert sorted(offsets(broker, 100)) == [(0, 8), (0, 9), (1, 0)]


def test_reading_ends_in_time_but_never_without_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=iter((0, 61)).__next__))
    assert offsets(written(10), 10) == [(0, n) for n in (6, 7, 8, 9)]


def test_a_topic_that_does_not_exist_has_no_records() -> None:
    assert offsets(MemoryBroker(), 10) == []
