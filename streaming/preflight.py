"""Before the query starts: are the brokers there, are the topics right, is the configuration published.

Everything that would fail an hour later with a stack trace fails here, with a sentence.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from detectors.settings import CONFIG_KEY, Published, encode_published, publish, read_published
from sinks.kafka_access import KafkaAccess, client_options
from sinks.secret import SecretError
from sinks.topics import TopicsError, ensure_topics
from streaming.errors import PreflightError
from streaming.settings import Settings

_LATEST, _EARLIEST = -1, -2
_WAIT_MS = 10_000


def check_topics(settings: Settings) -> dict[str, int]:
    """Partition counts of the input topics; flinkwatch's own are made when missing and allowed.

    Raises PreflightError.
    """
    kafka = settings.kafka
    with _brokers(kafka.access) as admin:
        try:
            ensure_topics(admin, kafka.topics, kafka.topics.create)
        except TopicsError as error:
            raise PreflightError(str(error)) from error
        known = set(admin.list_topics())
        missing = [t for t in (*kafka.logs, *kafka.metrics) if t not in known]
        if missing:
            raise PreflightError(
                f"Kafka has no topic {', '.join(missing)} (kafka.logs and kafka.metrics): these are "
                f"written by your log shipper "
                f"and metrics agent. Topics there: "
                f"{', '.join(sorted(t for t in known if not t.startswith('__'))) or 'none'}"
            )
        wanted = [*kafka.logs, *kafka.metrics, kafka.topics.config, kafka.topics.pulse]
        return {t["name"]: len(t["partitions"]) for t in admin.describe_topics(wanted)}


def starting_offsets(settings: Settings, partitions: dict[str, int]) -> dict[str, dict[str, int]]:
    """Where a query without a checkpoint begins: the configuration from its first record, the pulse from now."""
    kafka = settings.kafka
    begin = dict.fromkeys(
        (*kafka.logs, *kafka.metrics), _EARLIEST if settings.streaming.starting_offsets == "earliest" else _LATEST
    )
    begin |= {kafka.topics.config: _EARLIEST, kafka.topics.pulse: _LATEST}
    return {topic: {str(p): where for p in range(partitions[topic])} for topic, where in begin.items()}


def publish_settings(settings: Settings, by: str) -> Published:
    """Publish the detectors' settings unless the newest ones published are the same; what is in force afterwards."""
    kafka = settings.kafka
    last = _last_published(kafka.access, kafka.topics.config)
    new = publish(settings.live, int(time.time() * 1000), by)
    if last is not None and last.hash == new.hash:
        return last
    with closing(KafkaProducer(**client_options(kafka.access), allow_auto_create_topics=False)) as producer:
        producer.send(kafka.topics.config, key=CONFIG_KEY, value=encode_published(new)).get(timeout=_WAIT_MS / 1000)
    return new


def _last_published(access: KafkaAccess, topic: str) -> Published | None:
    consumer = KafkaConsumer(**client_options(access), enable_auto_commit=False, allow_auto_create_topics=False)
    with closing(consumer):
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        last = None
        while consumer.position(partition) < end:
            for record in consumer.poll(timeout_ms=1_000).get(partition, ()):
                if record.key == CONFIG_KEY and record.value is not None:
                    last = _published(record.value) or last
        return last


def _published(value: bytes) -> Published | None:
    """None for settings of another version: those of the file are published over them."""
    try:
        return read_published(value)
    except ValueError:
        return None


@contextmanager
def _brokers(access: KafkaAccess) -> Iterator[Any]:
    try:
        admin = KafkaAdminClient(**client_options(access))
    except SecretError as error:
        raise PreflightError(f"kafka.access: {error}") from error
    except KafkaError as error:
        raise PreflightError(
            f"no Kafka broker answers at {access.bootstrap_servers} (kafka.access): {error}"
        ) from error
    with closing(admin):
        yield admin
