"""What the board is told of the topics, with Kafka in memory."""

from collections.abc import Callable, Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError
from prometheus_client import CollectorRegistry

from sinks.board_reader import BoardReader
from sinks.prometheus import Board
from tests.unit.sinks.memory_kafka import TOPICS, BoardConsumer, MemoryKafka
from tests.unit.sinks.samples import make_transition


class Stepping(BoardConsumer):
    """Before each poll the next step happens."""

    def __init__(self, kafka: MemoryKafka, steps: Iterator[Callable[[], None]]) -> None:
        super().__init__(kafka)
        self._steps = steps

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[Any, list[Any]]:
        next(self._steps)()
        return super().poll(timeout_ms, max_records)


def test_an_incident_that_opens_is_counted_once_also_when_kafka_was_away() -> None:
    kafka, board, stop = MemoryKafka(), Board(), Event()

    def opens(incident: str) -> None:
        kafka.write(TOPICS.incidents, incident, msgspec.json.encode(make_transition(incident=incident)))

    def fails() -> None:
        raise KafkaTimeoutError("no broker")

    opens("before this process began")
    steps = iter([lambda: None, lambda: opens("first"), fails, lambda: opens("second"), stop.set])
    clients: Any = SimpleNamespace(board_consumer=lambda: Stepping(kafka, steps))
    reader = BoardReader(clients, TOPICS, board)
    with pytest.raises(KafkaTimeoutError):
        reader.run(stop)
    reader.run(stop)
    registry = CollectorRegistry()
    registry.register(board)
    labels = {"kind": "checkpoint_overdue", "severity": "warning"}
    assert registry.get_sample_value("flinkwatch_incidents_total", labels) == 2
