"""Deletes incidents from the incidents topic two weeks after they ended, so that the topic does not grow for ever.

A tombstone goes to the partition of the record that it deletes: the number of partitions may have changed since.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any

import structlog
from kafka import TopicPartition

from detectors.incident import decode_transition
from detectors.values.bounded import put_bounded
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import read_to_end
from streaming.job.followers.topic_follower import TopicFollower

log = structlog.get_logger()

_KEEP_MS = 14 * 86_400_000
_EVERY_S = 3_600.0
_WRITE_S = 30.0
_MAX_ENDED = 200_000

Place = tuple[int, bytes]
"""Partition and key of a record."""


class ForgetIncidents(TopicFollower):
    """Knows when each incident ended, and once an hour deletes those that ended long ago."""

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__("forget incidents", access, topic)
        self._clock = clock
        self._ended: dict[Place, int] = {}
        self._next = 0.0

    def note(self, place: Place, value: bytes | None) -> None:
        """Take a record: the newest one of an incident says whether it has ended, and when."""
        try:
            found = None if value is None else decode_transition(value)
        except UndecodableError:
            found = None
        if found is not None and found.transition == "resolved":
            put_bounded(self._ended, place, found.at, _MAX_ENDED)
        else:
            self._ended.pop(place, None)

    def forgotten(self) -> list[Place]:
        """The incidents to delete now. They are known no longer."""
        before = int(self._clock() * 1000) - _KEEP_MS
        found = [place for place, at in self._ended.items() if at < before]
        for place in found:
            del self._ended[place]
        return found

    def _begin(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._ended.clear()
        for record in read_to_end(consumer, partitions):
            self._take(record)

    def _take(self, record: Any) -> None:
        if record.key is not None:
            self.note((record.partition, record.key), record.value)

    def polled(self) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + _EVERY_S
            if places := self.forgotten():
                self._delete(places)

    def _delete(self, places: Iterable[Place]) -> None:
        """Raises KafkaError; the incidents are found again when the topic is read again after it."""
        with closing(clients.producer(self._access)) as producer:
            written = [producer.send(self._topic, key=key, partition=partition) for partition, key in places]
            for one in written:
                one.get(_WRITE_S)
        log.info("deleted incidents that ended two weeks ago", count=len(written))
