"""How large a record may be, asked of a real broker."""

from unittest.mock import Mock

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaTimeoutError
from structlog.testing import capture_logs

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.topic_limits import largest_record
from tests.embedded.broker import Broker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def test_the_smallest_limit_of_the_topics_counts_and_a_record_of_that_size_is_taken(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    for topic, configs in {"limits.small": {"max.message.bytes": "50000"}, "limits.usual": {}}.items():
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})
    admin.close()
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    usual = largest_record(access, ["limits.usual"])
    with capture_logs() as logs:
        assert largest_record(access, ["limits.usual", "limits.small"]) == 50_000 - 512
    assert [(one["topic"], one["max_message_bytes"]) for one in logs] == [("limits.small", 50_000)]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=30_000_000)
    for topic, size in (("limits.small", 50_000 - 512), ("limits.usual", usual)):
        producer.send(topic, key=b"k" * 100, value=b"\x01" * (size - 100)).get(timeout=30)
    producer.close()


def test_without_a_broker_kafkas_default_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "KafkaAdminClient", Mock(side_effect=KafkaTimeoutError))
    with capture_logs() as logs:
        assert largest_record(KafkaAccess(bootstrap_servers="127.0.0.1:9"), ["a"]) == 1_048_588 - 512
    assert len(logs) == 1
