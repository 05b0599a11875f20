"""Follows a topic in a thread of its own, and tries again whenever Kafka cannot be reached."""

from contextlib import closing
from typing import Any

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import follow, partitions_of
from sinks.secret import SecretError
from streaming.threads import Background

log = structlog.get_logger()

_RETRY_S = 5.0


class TopicFollower(Background):
    """Calls `take` for each new record, `_begin` before the first one and `polled` after each answer of the broker."""

    def __init__(self, name: str, access: KafkaAccess, topic: str) -> None:
        super().__init__(name, ends_within_s=5.0)
        self._access = access
        self._topic = topic

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the topic."""
        raise NotImplementedError

    def _begin(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Position the consumer where `take` should begin; the partitions are assigned to it."""
        consumer.seek_to_end(*partitions)

    def _take(self, record: Any) -> None:
        """Take a record with its place in Kafka, if the key and the value are not enough."""
        self.take(record.key, record.value)

    def polled(self) -> None:
        """Called after each poll, with records or without."""

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaError, SecretError) as error:
                log.debug("cannot read a topic, trying again", topic=self._topic, error=str(error))
                self._stop.wait(_RETRY_S)

    def _follow(self) -> None:
        with closing(clients.consumer(self._access)) as consumer:
            partitions = partitions_of(consumer, self._topic)
            if not partitions:
                self._stop.wait(_RETRY_S)
                return
            consumer.assign(partitions)
            self._begin(consumer, partitions)
            for records in follow(consumer, self._stop):
                for record in records:
                    self._take(record)
                self.polled()
