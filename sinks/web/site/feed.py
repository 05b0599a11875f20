"""Fills the incident store from the topics, in a thread and with a consumer of its own.

It shares nothing with the collector's feed, so a slow or full disk delays neither `/metrics` nor notifications.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import Any

import msgspec
import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError

from detectors.incident import decode_transition
from detectors.values.decoding import UndecodableError, carried
from sinks.kafka.clients import Clients
from sinks.kafka.progress import Progress, caught_up
from sinks.kafka.reading import follow
from sinks.kafka.topics import TopicNames
from sinks.web.site.configuration import PublishedSettings
from sinks.web.site.documents import LoggedNotification, SentState
from sinks.web.site.store import IncidentStore

log = structlog.get_logger()

_CLOSE_MS, _ASK_MS = 2_000, 15_000
_CHECK_EVERY_S, _FIRST_CHECKS_EVERY_S = 10.0, 1.0
_PRUNE_EVERY_S = 60.0


class _LogEntry(msgspec.Struct):
    """The fields of the notification log that the site shows."""

    incident: str
    seq: int
    state: SentState
    at: int
    reason: str = ""


_decode_entry = carried(msgspec.json.Decoder(_LogEntry).decode)


class SiteFeed:
    """Reads until stopped. `problem` says whether the store is up to date, `incomplete` whether it can be shown."""

    def __init__(
        self,
        clients: Clients,
        topics: TopicNames,
        store: IncidentStore,
        settings: PublishedSettings,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clients = clients
        self._topics = topics
        self._store = store
        self._settings = settings
        self._wall = wall
        self._problem: str | None = "Kafka has not been read yet"
        self.next_check = self._next_prune = 0.0
        self._begin_again()

    def _begin_again(self) -> None:
        self._progress = Progress((self._topics.incidents,))
        # After an error everything is read again, and what the store has is skipped: older changes must not return.
        self._stored: dict[TopicPartition, int] = {}

    def problem(self) -> str | None:
        """Why the site is not up to date; None if it is."""
        return self._problem

    def incomplete(self) -> str | None:
        """Why incidents may be missing; None once everything that existed at the start was read."""
        return None if self._progress.complete else self._problem or "not all incidents have been read yet"

    def run(self, stop: Event) -> None:
        """Read until `stop`, or until the store fails. Raises kafka.errors.KafkaError."""
        consumer: Any = None
        self.next_check = 0.0
        try:
            self._store.open()
            consumer = self._clients.site_consumer()
            for records in follow(consumer, stop):
                self._store_all(records)
                self._check(consumer)
        except KafkaError as error:
            self._problem = f"Kafka cannot be read: {type(error).__name__}"
            raise
        except (sqlite3.Error, OSError) as error:
            self._problem = f"incidents cannot be stored: {error}"
            log.warning("the status site cannot store incidents and starts again", error=str(error))
            self._begin_again()
            self._store.close()
        finally:
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _store_all(self, records: list[Any]) -> None:
        skipped = Counter[str]()
        for record in records:
            part = TopicPartition(record.topic, record.partition)
            if record.offset < self._stored.get(part, 0):
                continue
            self._stored[part] = record.offset + 1
            try:
                self._store_one(record)
            except UndecodableError:
                skipped[record.topic] += 1
        self._store.commit()
        if time.monotonic() >= self._next_prune:
            self._store.prune()
            self._next_prune = time.monotonic() + _PRUNE_EVERY_S
        for topic, count in skipped.items():
            log.warning("the status site skipped records that cannot be read", topic=topic, count=count)

    def _store_one(self, record: Any) -> None:
        key = (record.key or b"").decode("utf-8", "replace")
        if record.topic == self._topics.config:
            self._settings.add(record.key, record.value, int(self._wall() * 1000))
        elif record.topic == self._topics.incidents:
            if record.value is None:
                self._store.remove(key)
            else:
                self._store.add(decode_transition(record.value), record.value)
        elif record.value is None:
            self._store.not_notified(key)
        else:
            one = _decode_entry(record.value)
            self._store.notified(
                LoggedNotification(
                    receiver=key.removesuffix(f"/{one.incident}"),
                    incident=one.incident,
                    seq=one.seq,
                    state=one.state,
                    at=one.at,
                    reason=one.reason,
                )
            )

    def _check(self, consumer: Any) -> None:
        """Ask for the ends of the topics from time to time: a consumer alone does not notice that Kafka is down."""
        if time.monotonic() < self.next_check:
            return
        assigned = consumer.assignment()
        if not any(part.topic == self._topics.incidents for part in assigned):
            self._problem = f"the topic {self._topics.incidents} does not exist"
        else:
            ends = consumer.end_offsets(list(assigned), timeout_ms=_ASK_MS)
            if any(end < self._stored.get(part, 0) for part, end in ends.items()):
                log.warning("a topic is shorter than before, the status site reads all topics again")
                self._begin_again()
                self._store.close()
                self._store.open()
                consumer.seek_to_beginning(*assigned)
            positions = {part: consumer.position(part, timeout_ms=_ASK_MS) or 0 for part in ends}
            behind = self._progress.note(ends, positions)
            fine = caught_up(behind, self._problem is None)
            self._problem = None if fine else f"{behind} records are unread"
        self.next_check = time.monotonic() + (_CHECK_EVERY_S if self._problem is None else _FIRST_CHECKS_EVERY_S)
