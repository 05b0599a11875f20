"""Checks the brokers and topics before the query starts.

A problem that would fail the query later with a stack trace is reported here in one sentence.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import structlog
from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.topics import TopicsError, ensure_topics, topic_hints
from streaming.configuration.settings import Settings
from streaming.errors import PreflightError, TopicMissingError

log = structlog.get_logger()

_LATEST, _EARLIEST = -1, -2


def check_topics(settings: Settings) -> dict[str, int]:
    """Partition counts of the input topics. Creates flinkwatch's own topics if missing and kafka.topics.create is set.

    Raises PreflightError.
    """
    kafka = settings.kafka
    with _brokers(kafka.access) as admin:
        try:
            ensure_topics(admin, kafka.topics, kafka.topics.create)
        except TopicsError as error:
            raise PreflightError(str(error)) from error
        for hint in topic_hints(admin, kafka.topics):
            log.warning("a topic could be set up better", hint=hint)
        known = set(admin.list_topics())
        missing = [t for t in (*kafka.logs, *kafka.metrics) if t not in known]
        if missing:
            raise TopicMissingError(
                f"Kafka has no topic {', '.join(missing)} (kafka.logs and kafka.metrics). Your log shipper and "
                f"metrics agent write these topics. Existing topics: "
                f"{', '.join(sorted(t for t in known if not t.startswith('__'))) or 'none'}"
            )
        wanted = [*kafka.logs, *kafka.metrics, kafka.topics.config, kafka.topics.heartbeat]
        return {t["name"]: len(t["partitions"]) for t in admin.describe_topics(wanted)}


def starting_offsets(settings: Settings, partitions: dict[str, int]) -> dict[str, dict[str, int]]:
    """Where a query without a checkpoint starts: at the first configuration record and at the next heartbeat."""
    kafka = settings.kafka
    begin = dict.fromkeys(
        (*kafka.logs, *kafka.metrics), _EARLIEST if settings.streaming.starting_offsets == "earliest" else _LATEST
    )
    begin |= {kafka.topics.config: _EARLIEST, kafka.topics.heartbeat: _LATEST}
    return {topic: {str(p): where for p in range(partitions[topic])} for topic, where in begin.items()}


@contextmanager
def _brokers(access: KafkaAccess) -> Iterator[Any]:
    with explained(access, PreflightError):
        admin = clients.admin(access)
    with closing(admin):
        try:
            yield admin
        except KafkaError as error:
            # Often the address that the broker advertises is wrong, which differs from the one used to connect.
            raise PreflightError(
                f"Kafka at {access.bootstrap_servers} accepted a connection and then failed (are the addresses that "
                f"its brokers advertise reachable from this host?): {error}"
            ) from error
