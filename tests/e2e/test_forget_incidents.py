"""Incidents that ended long ago are deleted from a real topic with several partitions; the others stay."""

import time
from contextlib import closing

import msgspec
import pytest
from kafka import KafkaProducer
from kafka.admin import NewTopic

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import newest_values
from streaming.job.followers.forget_incidents import ForgetIncidents
from tests.embedded.broker import Broker
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

TOPIC = "forget.incidents"
DAY_MS = 86_400_000


def test_what_ended_two_weeks_ago_is_deleted_whatever_its_partition(broker: Broker) -> None:
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    long_ago = round(time.time() * 1000) - 15 * DAY_MS
    with closing(clients.admin(access)) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, 1)])
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number, change in enumerate(("resolved", "resolved", "resolved", "updated")):
            found = make_transition(incident=str(number), transition=change, at=long_ago)
            key = str(number).encode()
            producer.send(TOPIC, key=key, value=msgspec.json.encode(found), partition=number % 3).get(30)

    def kept() -> list[bytes]:
        with closing(clients.consumer(access)) as consumer:
            return sorted(newest_values(consumer, TOPIC))

    forget = ForgetIncidents(access, TOPIC)
    forget.start()
    deadline = time.monotonic() + 120
    while kept() != [b"3"]:
        assert time.monotonic() < deadline, kept()
        time.sleep(0.2)
    forget.stop()
