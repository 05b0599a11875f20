"""Follows people's feedback and the silences of the configuration topic, from their beginning, in every deliverer."""

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import structlog
from kafka.errors import KafkaError

from detectors.settings.live import PublishedSilence, read_change
from detectors.values.decoding import UndecodableError
from sinks.contract.feedback import decode_feedback
from sinks.delivery.silencing import SilenceBook
from sinks.kafka.clients import Clients
from sinks.kafka.reading import follow
from sinks.kafka.topics import TopicNames
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

_CLOSE_MS = 2_000
_ASK_MS = 15_000
_LOOK_EVERY_S = 2.0


class FeedbackFeed:
    """`run` in a thread of its own. It also ends the silences whose incidents have resolved."""

    def __init__(
        self,
        clients: Clients,
        topics: TopicNames,
        board: IncidentCollector,
        silences: SilenceBook,
        incomplete: Callable[[], str | None],
    ) -> None:
        """`incomplete` gives a reason while open incidents may be missing in `board`."""
        self._clients, self._topics, self._board, self._silences = clients, topics, board, silences
        self._incomplete = incomplete
        self._problem: str | None = "acknowledgements have not been read yet"

    def problem(self) -> str | None:
        return self._problem

    def run(self, stop: Event) -> None:
        """Raises kafka.errors.KafkaError; then call it again."""
        consumer: Any = None
        try:
            consumer = self._clients.feedback_consumer()
            ends = consumer.end_offsets(list(consumer.assignment()), timeout_ms=_ASK_MS)
            look_at = 0.0
            for records in follow(consumer, stop):
                self._take(records)
                if all(consumer.position(p, timeout_ms=_ASK_MS) >= end for p, end in ends.items()):
                    self._board.feedback.finish_start()
                    self._problem = None
                if time.monotonic() >= look_at and self._problem is None and self._incomplete() is None:
                    look_at = time.monotonic() + _LOOK_EVERY_S
                    self._silences.end_resolved(self._board.open_incidents())
        except KafkaError as error:
            self._problem = f"acknowledgements cannot be read: {type(error).__name__}"
            raise
        finally:
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    def _take(self, records: list[Any]) -> None:
        skipped = 0
        for record in records:
            try:
                if record.topic == self._topics.feedback:
                    self._take_feedback(record)
                else:
                    change = read_change(record.key, record.value)
                    if isinstance(change, PublishedSilence):
                        self._silences.add(change.read())
            except UndecodableError:
                # The job reports records of the configuration topic that cannot be read.
                skipped += record.topic == self._topics.feedback
        if skipped:
            self._board.delivery.skipped.labels(self._topics.feedback, "undecodable").inc(skipped)
            log.warning("skipped records that cannot be read", topic=self._topics.feedback, count=skipped)

    def _take_feedback(self, record: Any) -> None:
        if record.value is None:
            return
        feedback = decode_feedback(record.value)
        if feedback.key() != record.key:
            raise UndecodableError("wrong_key", "the key names another incident or answer")
        self._board.feedback.add(feedback)
