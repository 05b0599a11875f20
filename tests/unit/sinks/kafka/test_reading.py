"""Reading to the present end, with a consumer that gives what a test says."""

from itertools import chain, repeat
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from sinks.kafka import reading
from sinks.kafka.access import KafkaAccess
from sinks.kafka.clients import Clients
from sinks.kafka.reading import follow, newest_values, read_to_end
from sinks.kafka.topics import TopicNames

LEDGER = TopicPartition("flinkwatch.deliveries", 0)


class Consumer:
    """Each poll gives what `polls` says: so many records, of which `missing` never come."""

    def __init__(self, polls: list[int], missing: int = 0) -> None:
        self._end = sum(polls) + missing
        self._polls = chain(polls, repeat(0))
        self._position = 0

    def __call__(self, **_: Any) -> "Consumer":
        return self

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {LEDGER.partition} if topic == LEDGER.topic else None

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert partitions == [LEDGER]

    def end_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {LEDGER: self._end}

    def seek_to_beginning(self, _: TopicPartition) -> None:
        self._position = 0

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._position = offset

    def position(self, _: TopicPartition) -> int:
        return self._position

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        begin = self._position
        self._position += next(self._polls)
        return {LEDGER: [SimpleNamespace(key=b"%d" % n, value=b"v") for n in range(begin, self._position)]}

    def close(self) -> None:
        """Nothing is held."""


def log_records(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> list[tuple[bytes | None, bytes | None]]:
    monkeypatch.setattr("sinks.kafka.clients.KafkaConsumer", consumer)
    return list(Clients(KafkaAccess(bootstrap_servers="localhost:9092"), TopicNames()).read_notification_log(0))


def test_a_notification_log_is_read_to_its_end_however_many_polls_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = log_records(monkeypatch, Consumer([500, 0, 0] * 200))
    assert len(read) == 100_000
    assert read[-1] == (b"99999", b"v")


def test_brokers_that_stop_sending_are_an_error_and_not_half_a_notification_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_SILENT_S", 0.05)
    with pytest.raises(KafkaTimeoutError, match=r"flinkwatch\.deliveries/0"):
        log_records(monkeypatch, Consumer([500], missing=1))


def test_each_poll_that_brings_something_begins_the_silence_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def seconds() -> float:
        now[0] += 10
        return now[0]

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=seconds))
    assert len(list(read_to_end(Consumer([1] * 50), [LEDGER]))) == 50
    with pytest.raises(KafkaTimeoutError, match="waited 100 s"):
        list(read_to_end(Consumer([1] * 50), [LEDGER], within_s=100))


def test_reading_may_begin_in_the_middle() -> None:
    records = list(read_to_end(Consumer([0, 2, 3]), [LEDGER], {LEDGER: 3}))
    assert [record.key for record in records] == [b"3", b"4"]


@pytest.mark.parametrize("end", [0, 3])
def test_nothing_is_waited_for_at_the_end_and_in_a_topic_that_does_not_exist(end: int) -> None:
    assert list(read_to_end(Consumer([end]), [LEDGER], {LEDGER: end})) == []
    assert newest_values(Consumer([1]), "no.such.topic") == {}


def test_of_a_compacted_topic_the_newest_value_of_each_key_counts_and_deleted_keys_are_left_out() -> None:
    written = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (None, b"3"), (b"none", None)]
    records = [SimpleNamespace(key=key, value=value) for key, value in written]
    consumer = Consumer([len(records)])
    poll = consumer.poll
    consumer.poll = lambda timeout_ms: dict.fromkeys(poll(timeout_ms), records)  # type: ignore[method-assign]
    assert newest_values(consumer, LEDGER.topic) == {b"a": b"2", b"": b"3"}


def test_following_gives_each_poll_until_it_is_stopped() -> None:
    stop = Event()
    given = []
    for records in follow(Consumer([2, 0, 1]), stop):
        given.append(len(records))
        if len(given) == 3:
            stop.set()
    assert given == [2, 0, 1]
