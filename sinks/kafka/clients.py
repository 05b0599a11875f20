"""Makes every Kafka client of flinkwatch, so that all have the options that matter. No other module makes one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.reading import read_to_end
from sinks.kafka.topics import TopicNames, ensure_topics

# The client's default of 30 s would add as much to every outage.
_RECONNECT_MS = 2_000
_CONNECT_MS = 30_000
_READ_ONE_POLLS = 10
_POLL_MS = 500
# The partitions of a deliverer that was killed are not read for this long.
_SESSION_TIMEOUT_MS = 10_000
_WRITE_MS = 5_000
_WRITE_LIMITS = ("max_block_ms", "delivery_timeout_ms", "request_timeout_ms")
_METADATA_MAX_AGE_MS = 30_000
# Records that are fetched and not yet taken stay in memory, for each broker and consumer. The defaults are 1 and 50 MB.
_FETCH_PARTITION_BYTES, _FETCH_BYTES = 256 * 1024, 1024 * 1024
_CONNECTIONS = KafkaConsumer.DEFAULT_CONFIG["kafka_client"]


def consumer(access: KafkaAccess, *, group: str | None = None, connect_ms: int = _CONNECT_MS, **options: Any) -> Any:
    """A KafkaConsumer that commits only on request, and creates no topic.

    Raises kafka.errors.KafkaError when no broker answers within `connect_ms`, SecretError without a secret.
    """
    with _closed_on_failure() as network:
        return KafkaConsumer(
            **client_options(access),
            kafka_client=network,
            group_id=group,
            bootstrap_timeout_ms=connect_ms,
            enable_auto_commit=False,
            # A topic made by reading it would have the wrong cleanup policy.
            allow_auto_create_topics=False,
            reconnect_backoff_max_ms=_RECONNECT_MS,
            **options,
        )


def producer(access: KafkaAccess, *, within_ms: int | None = None, connect_ms: int = _CONNECT_MS) -> Any:
    """A KafkaProducer that waits for all replicas, and creates no topic.

    A write that is not done `within_ms` has failed, and does not land later. Raises as `consumer` does.
    """
    limits = {} if within_ms is None else dict.fromkeys(_WRITE_LIMITS, within_ms)
    with _closed_on_failure() as network:
        return KafkaProducer(
            **client_options(access),
            kafka_client=network,
            bootstrap_timeout_ms=connect_ms,
            acks="all",
            allow_auto_create_topics=False,
            reconnect_backoff_max_ms=_RECONNECT_MS,
            **limits,
        )


def admin(access: KafkaAccess, *, connect_ms: int = _CONNECT_MS, **options: Any) -> Any:
    """A KafkaAdminClient. Raises as `consumer` does."""
    with _closed_on_failure() as network:
        return KafkaAdminClient(
            **client_options(access), kafka_client=network, bootstrap_timeout_ms=connect_ms, **options
        )


@contextmanager
def _closed_on_failure() -> Iterator[Callable[..., Any]]:
    """Opens a client's connections, and closes them if the client cannot be made.

    kafka-python would leave a thread and its sockets behind, once for each attempt of an outage.
    """
    opened: list[Any] = []

    def network(**configuration: Any) -> Any:
        opened.append(_CONNECTIONS(**configuration))
        return opened[-1]

    try:
        yield network
    except BaseException:
        for each in opened:
            each.close()
        raise


class Clients:
    """What delivery needs of Kafka. Each method raises KafkaError without a broker, SecretError without a secret."""

    def __init__(self, access: KafkaAccess, topics: TopicNames) -> None:
        self._access = access
        self._topics = topics
        self._making = threading.Lock()
        self.notification_logs_created = 0
        """How often this process has created the topic of the notification log again."""

    def group_consumer(self, receiver: str) -> Any:
        """A KafkaConsumer that shares a receiver's incidents with other deliverers."""
        group = f"{self._topics.prefix}.delivery.{receiver}"
        return self._consumer(group=group, session_timeout_ms=_SESSION_TIMEOUT_MS)

    def board_consumer(self) -> Any:
        """A KafkaConsumer that reads all incidents and readings from their beginning."""
        made = self._consumer()
        made.subscribe([self._topics.incidents, self._topics.readings])
        return made

    def feedback_consumer(self) -> Any:
        """A KafkaConsumer at the beginning of people's feedback and of the configuration topic."""
        made = self._consumer()
        made.assign([TopicPartition(topic, 0) for topic in (self._topics.feedback, self._topics.config)])
        made.seek_to_beginning()
        return made

    def write_record(self, topic: str, key: bytes, value: bytes) -> None:
        """Writes one record; returns when the brokers have it."""
        with closing(self.producer()) as made:
            made.send(topic, key=key, value=value).get(timeout=2 * _WRITE_MS / 1000)

    def site_consumer(self) -> Any:
        """A KafkaConsumer that reads all incidents, notification logs and configurations from their beginning."""
        made = self._consumer()
        made.subscribe([self._topics.incidents, self._topics.deliveries, self._topics.config])
        return made

    def reader(self) -> Any:
        """A KafkaConsumer without partitions, to read topics once."""
        return self._consumer()

    def producer(self) -> Any:
        return producer(self._access, within_ms=_WRITE_MS)

    def read_notification_log(self, partition: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Keys and values of a partition of the notification log, from its beginning to its present end."""
        with closing(self._consumer()) as reader:
            for record in read_to_end(reader, [TopicPartition(self._topics.deliveries, partition)]):
                yield record.key, record.value

    def create_notification_log(self) -> None:
        """Creates the topic of the notification log again if it was deleted."""
        with self._making, closing(admin(self._access)) as client:
            if self._topics.deliveries not in client.list_topics():
                ensure_topics(client, self._topics, self._topics.create)
                self.notification_logs_created += 1

    def read_incident(self, partition: int, offset: int) -> tuple[int, bytes] | None:
        """Offset and value of the incidents record at `offset`, or of the first after it that compaction has left."""
        where = TopicPartition(self._topics.incidents, partition)
        with closing(self._consumer(max_poll_records=1)) as reader:
            reader.assign([where])
            reader.seek(where, offset)
            for _ in range(_READ_ONE_POLLS):
                for record in reader.poll(timeout_ms=_POLL_MS).get(where, ()):
                    return (record.offset, record.value) if record.value is not None else None
        return None

    def _consumer(self, **options: Any) -> Any:
        return consumer(
            self._access,
            auto_offset_reset="earliest",
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
            max_partition_fetch_bytes=_FETCH_PARTITION_BYTES,
            fetch_max_bytes=_FETCH_BYTES,
            **options,
        )
