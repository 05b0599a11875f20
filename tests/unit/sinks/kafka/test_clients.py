"""What delivery reads from Kafka, with a consumer that gives what a test says."""

from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from sinks.kafka.access import KafkaAccess
from sinks.kafka.clients import KafkaClients
from sinks.kafka.topics import TopicNames

LEDGER = TopicPartition("flinkwatch.deliveries", 0)


class LedgerConsumer:
    """Each poll gives what `polls` says: so many records, of which `missing` never come."""

    def __init__(self, polls: list[int], missing: int = 0) -> None:
        self._end = sum(polls) + missing
        self._polls = chain(polls, repeat(0))
        self._position = 0

    def __call__(self, **_: Any) -> "LedgerConsumer":
        return self

    def assign(self, _: list[TopicPartition]) -> None:
        """Only the ledger is asked for."""

    def end_offsets(self, _: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {LEDGER: self._end}

    def seek_to_beginning(self, _: TopicPartition) -> None:
        self._position = 0

    def position(self, _: TopicPartition) -> int:
        return self._position

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        begin = self._position
        self._position += next(self._polls)
        return {LEDGER: [SimpleNamespace(key=b"%d" % n, value=b"v") for n in range(begin, self._position)]}

    def close(self) -> None:
        """Nothing is held."""


def read_ledger(monkeypatch: pytest.MonkeyPatch, consumer: LedgerConsumer) -> list[tuple[bytes | None, bytes | None]]:
    monkeypatch.setattr("sinks.kafka.clients.KafkaConsumer", consumer)
    return list(KafkaClients(KafkaAccess(bootstrap_servers="localhost:9092"), TopicNames()).read_ledger(0))


def test_a_ledger_is_read_to_its_end_however_many_polls_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_ledger(monkeypatch, LedgerConsumer([500, 0, 0] * 200))
    assert len(read) == 100_000
    assert read[-1] == (b"99999", b"v")


def test_brokers_that_stop_sending_are_an_error_and_not_half_a_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaTimeoutError, match=r"flinkwatch\.deliveries/0"):
        read_ledger(monkeypatch, LedgerConsumer([500], missing=1))
