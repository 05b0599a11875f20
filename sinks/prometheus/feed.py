"""Feeds the collector from all partitions of incidents and readings, from the beginning, without a consumer group."""

import time
from collections import Counter
from threading import Event
from typing import Any

import structlog
from kafka.errors import KafkaError

from detectors.incident import Transition, decode_reading, decode_transition
from detectors.values.decoding import UndecodableError
from sinks.kafka.clients import Clients
from sinks.kafka.progress import Progress, caught_up
from sinks.kafka.reading import follow
from sinks.kafka.topics import TopicNames
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

_CLOSE_MS = 2_000
# A response waits for that of the previous fetch. A broker that takes 5 s for one is slow, not down.
_ASK_MS = 15_000
_CHECK_EVERY_S, _FIRST_CHECKS_EVERY_S = 10.0, 1.0


class CollectorFeed:
    """Reads until stopped; `problem` says whether the collector is up to date."""

    def __init__(self, clients: Clients, topics: TopicNames, board: IncidentCollector) -> None:
        self._clients = clients
        self._topics = topics
        self._board = board
        self._problem: str | None = "Kafka has not been read yet"
        self.next_check = 0.0
        self._news_from: dict[int, int] | None = None
        self._progress = Progress((topics.incidents, topics.readings))

    def problem(self) -> str | None:
        """Why the collector is not up to date; None if it is."""
        return self._problem

    def incomplete(self) -> str | None:
        """Why open incidents may be missing in the collector; None once everything present at the start was read.

        Later problems do not change that: incidents may then be outdated, but none are missing.
        """
        return None if self._progress.complete else "not all incidents and readings have been read yet; see /-/ready"

    def run(self, stop: Event) -> None:
        """Read until `stop`. Raises kafka.errors.KafkaError."""
        consumer: Any = None
        try:
            consumer = self._clients.board_consumer()
            for records in follow(consumer, stop):
                self._note_where_news_begin(consumer)
                self._show(records)
                self._check(consumer)
        except KafkaError as error:
            self._problem = f"Kafka cannot be read: {type(error).__name__}"
            raise
        finally:
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _note_where_news_begin(self, consumer: Any) -> None:
        """Remember the ends of the topic at the start: earlier incidents were not opened since this process began."""
        parts = [part for part in consumer.assignment() if part.topic == self._topics.incidents]
        if self._news_from is None and parts:
            ends = consumer.end_offsets(parts, timeout_ms=_ASK_MS)
            self._news_from = {part.partition: end for part, end in ends.items()}

    def _show(self, records: list[Any]) -> None:
        skipped = Counter[str]()
        for record in records:
            key = (record.key or b"").decode("utf-8", "replace")
            try:
                if record.topic == self._topics.incidents:
                    transition = None if record.value is None else decode_transition(record.value)
                    self._board.show_incident(key, transition, (record.partition, record.offset))
                    if transition is not None and transition.transition == "opened":
                        self._count_opened(record, transition)
                else:
                    self._board.show_reading(key, None if record.value is None else decode_reading(record.value))
            except ValueError as error:
                skipped[record.topic] += 1
                reason = "undecodable" if isinstance(error, UndecodableError) else "bad name"
                self._board.delivery.skipped.labels(record.topic, reason).inc()
        for topic, count in skipped.items():
            log.warning("skipped records that cannot be read", topic=topic, count=count)

    def _count_opened(self, record: Any, transition: Transition) -> None:
        if self._news_from is None or record.offset < self._news_from.get(record.partition, 0):
            return
        self._board.delivery.count_opened(transition)
        # Count each record once: after an error, everything is read from the beginning again.
        self._news_from[record.partition] = record.offset + 1

    def _check(self, consumer: Any) -> None:
        """Ask for the ends of the topics from time to time: a consumer alone does not notice that Kafka is down."""
        if time.monotonic() < self.next_check:
            return
        assigned = consumer.assignment()
        if not assigned:
            self._problem = f"the topics {self._topics.incidents} and {self._topics.readings} do not exist"
        else:
            ends = consumer.end_offsets(list(assigned), timeout_ms=_ASK_MS)
            positions = {part: consumer.position(part, timeout_ms=_ASK_MS) or 0 for part in ends}
            behind = self._progress.note(ends, positions)
            fine = caught_up(behind, self._problem is None)
            self._problem = None if fine else f"{behind} records of incidents and readings are unread"
        self.next_check = time.monotonic() + (_CHECK_EVERY_S if self._problem is None else _FIRST_CHECKS_EVERY_S)
