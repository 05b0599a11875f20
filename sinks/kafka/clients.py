"""The Kafka clients of delivery, made in one place with the options that matter."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Protocol

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaTimeoutError

from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.topics import TopicNames, ensure_topics

# In a row that bring nothing: however long a ledger is, it is read to its end.
_SILENT_POLLS = 60
_READ_ONE_POLLS = 10
_POLL_MS = 500
# A killed deliverer's partitions stay unread this long.
_SESSION_TIMEOUT_MS = 10_000
_WRITE_MS = 5_000
# The default of 30 s would add as much to every outage.
_RECONNECT_MS = 3_000
_METADATA_MAX_AGE_MS = 30_000
# What is read but not yet taken stays in memory, for each broker and consumer: the defaults are 1 and 50 MB.
_FETCH_PARTITION_BYTES, _FETCH_BYTES = 256 * 1024, 1024 * 1024


class Clients(Protocol):
    """What delivery needs of Kafka; tests have it in memory."""

    def group_consumer(self, lane: str) -> Any:
        """A KafkaConsumer that shares a lane's incidents with other deliverers; commits by hand."""

    def board_consumer(self) -> Any:
        """A KafkaConsumer that reads all incidents and readings from their beginning."""

    def producer(self) -> Any:
        """A KafkaProducer for the ledger."""

    def read_ledger(self, partition: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        """Keys and values of a partition of deliveries, from the beginning to what is there now."""

    def make_ledger(self) -> None:
        """Makes the topic of deliveries again when it is gone."""

    @property
    def ledgers_made(self) -> int:
        """How often this process has done so."""

    def read_incident(self, partition: int, offset: int) -> tuple[int, bytes] | None:
        """Offset and value of the incidents record at `offset`, or of the first after it that compaction has left."""


class KafkaClients:
    """The real ones. Making one raises kafka.errors.KafkaError when no broker answers, SecretError without secrets."""

    def __init__(self, access: KafkaAccess, topics: TopicNames) -> None:
        self._access = access
        self._topics = topics
        self.ledgers_made = 0
        self._making = threading.Lock()

    def group_consumer(self, lane: str) -> Any:
        return self._consumer(
            group_id=f"{self._topics.prefix}.delivery.{lane}",
            session_timeout_ms=_SESSION_TIMEOUT_MS,
        )

    def board_consumer(self) -> Any:
        consumer = self._consumer(group_id=None)
        consumer.subscribe([self._topics.incidents, self._topics.readings])
        return consumer

    def producer(self) -> Any:
        return KafkaProducer(
            **client_options(self._access),
            acks="all",
            allow_auto_create_topics=False,
            max_block_ms=_WRITE_MS,
            # A write that was given up must not land later.
            delivery_timeout_ms=_WRITE_MS,
            request_timeout_ms=_WRITE_MS,
            reconnect_backoff_max_ms=_RECONNECT_MS,
        )

    def read_ledger(self, partition: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        where = TopicPartition(self._topics.deliveries, partition)
        with closing(self._consumer(group_id=None)) as consumer:
            consumer.assign([where])
            end = consumer.end_offsets([where])[where]
            consumer.seek_to_beginning(where)
            silent = 0
            while (position := consumer.position(where)) < end:
                for record in consumer.poll(timeout_ms=_POLL_MS).get(where, ()):
                    yield record.key, record.value
                silent = 0 if consumer.position(where) > position else silent + 1
                if silent >= _SILENT_POLLS:
                    raise KafkaTimeoutError(f"{self._topics.deliveries}/{partition} could not be read to its end")

    def make_ledger(self) -> None:
        with self._making, closing(KafkaAdminClient(**client_options(self._access))) as admin:
            if self._topics.deliveries not in admin.list_topics():
                ensure_topics(admin, self._topics, self._topics.create)
                self.ledgers_made += 1

    def read_incident(self, partition: int, offset: int) -> tuple[int, bytes] | None:
        where = TopicPartition(self._topics.incidents, partition)
        with closing(self._consumer(group_id=None, max_poll_records=1)) as consumer:
            consumer.assign([where])
            consumer.seek(where, offset)
            for _ in range(_READ_ONE_POLLS):
                for record in consumer.poll(timeout_ms=_POLL_MS).get(where, ()):
                    return (record.offset, record.value) if record.value is not None else None
        return None

    def _consumer(self, **options: Any) -> Any:
        return KafkaConsumer(
            **client_options(self._access),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            # A topic made by reading it would have the wrong cleanup policy.
            allow_auto_create_topics=False,
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
            max_partition_fetch_bytes=_FETCH_PARTITION_BYTES,
            fetch_max_bytes=_FETCH_BYTES,
            reconnect_backoff_max_ms=_RECONNECT_MS,
            **options,
        )
