"""What the collector gets from the topics, with Kafka in memory."""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka.errors import KafkaTimeoutError
from prometheus_client import CollectorRegistry

from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.feed import CollectorFeed
from sinks.prometheus.http_server import PrometheusConfig, StatusServer
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
    kafka, board, stop = MemoryKafka(), IncidentCollector(), Event()

    def opens(incident: str) -> None:
        kafka.write(TOPICS.incidents, incident, msgspec.json.encode(make_transition(incident=incident)))

    def fails() -> None:
        raise KafkaTimeoutError("no broker")

    opens("before this process began")
    steps = iter([lambda: None, lambda: opens("first"), fails, lambda: opens("second"), stop.set])
    clients: Any = SimpleNamespace(board_consumer=lambda: Stepping(kafka, steps))
    reader = CollectorFeed(clients, TOPICS, board)
    with pytest.raises(KafkaTimeoutError):
        reader.run(stop)
    reader.run(stop)
    registry = CollectorRegistry()
    registry.register(board)
    labels = {"kind": "checkpoint_overdue", "severity": "warning"}
    assert registry.get_sample_value("flinkwatch_incidents_total", labels) == 2


def test_the_page_has_no_metrics_until_everything_that_was_there_at_the_start_is_read() -> None:
    """What comes meanwhile does not put it off, and a later outage takes nothing away."""
    kafka, board, stop = MemoryKafka(), IncidentCollector(), Event()
    kafka.write(TOPICS.incidents, "i", msgspec.json.encode(make_transition(incident="i")))
    held: list[str | None] = []

    def look() -> None:
        held.append(reader.incomplete())
        reader.next_check = 0.0

    def much_comes() -> None:
        look()
        for number in range(600):
            kafka.write(TOPICS.readings, f"r{number}", None, partition=1)

    def fails() -> None:
        look()
        raise KafkaTimeoutError("no broker")

    steps = iter([much_comes, look, fails])
    clients: Any = SimpleNamespace(board_consumer=lambda: Stepping(kafka, steps))
    reader = CollectorFeed(clients, TOPICS, board)
    assert reader.incomplete() is not None
    with pytest.raises(KafkaTimeoutError):
        reader.run(stop)
    assert [reason is None for reason in held] == [False, False, True]
    assert reader.problem() is not None
    assert reader.incomplete() is None


def test_metrics_answer_503_while_the_state_is_incomplete() -> None:
    page = StatusServer(PrometheusConfig(enabled=False))
    page.hold_metrics_while(lambda: "not completely read")
    status, _, body = page.answer("/metrics", "")
    assert (status, body) == (HTTPStatus.SERVICE_UNAVAILABLE, b"not completely read\n")
    assert page.answer("/-/healthy", "")[0] == HTTPStatus.OK
    page.hold_metrics_while(lambda: None)
    assert page.answer("/metrics", "")[0] == HTTPStatus.OK


def test_an_incident_is_one_series_whatever_its_cause_severity_and_job_do() -> None:
    board, registry = IncidentCollector(), CollectorRegistry()
    registry.register(board)
    changes: list[dict[str, Any]] = [
        {},
        {"cause": "late_barrier_acks"},
        {"severity": "critical"},
        {"job_name": "another name"},
    ]
    for seq, change in enumerate(changes, 1):
        board.show_incident("i", make_transition(incident="i", seq=seq, transition="updated", **change))
        found = [sample for metric in registry.collect() for sample in metric.samples]
        opened = [(s.labels, s.value) for s in found if s.name == "flinkwatch_incident_open"]
        assert opened == [({"incident": "i", "cluster": "prod-eu"}, 3 if "severity" in change else 2)]
        (about,) = (s.labels for s in found if s.name == "flinkwatch_incident_info")
        assert about["kind"] == change.get("cause", "checkpoint_overdue")
        assert about["job"] == change.get("job_name", "orders-enrichment")
