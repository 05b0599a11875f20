"""Reads the incidents and the feedback of a period from the topics."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from threading import Thread
from typing import Any

from detectors.incident import decode_transition
from detectors.incidents.known_issues import IssueCatalogue
from detectors.values.decoding import UndecodableError
from sinks.contract.feedback import decode_feedback
from sinks.contract.overview import Overview, Period, overview
from sinks.kafka.clients import Clients
from sinks.kafka.reading import partitions_of, read_to_end
from sinks.kafka.topics import TopicNames

ReadOverview = Callable[[int, int], Future[Overview]]
"""Begins to read the overview from one time to another (epoch ms)."""


def read_in_background(clients: Clients, topics: TopicNames, issues: IssueCatalogue) -> ReadOverview:
    """Reads each overview in a thread of its own: a large topic takes longer than a notification may wait."""

    def read(since: int, until: int) -> Overview:
        period = Period(since, until)
        with closing(clients.reader()) as consumer:
            fill(period, consumer, topics)
        return overview(period, issues)

    def begin(since: int, until: int) -> Future[Overview]:
        future: Future[Overview] = Future()

        def run() -> None:
            try:
                future.set_result(read(since, until))
            except Exception as error:  # noqa: BLE001 - the thread that waits for the overview gets it
                future.set_exception(error)

        Thread(target=run, name="delivery overview", daemon=True).start()
        return future

    return begin


def fill(period: Period, consumer: Any, topics: TopicNames, within_s: float | None = None) -> None:
    """Add everything that the topics have to a period. Raises kafka.errors.KafkaError."""
    partitions = partitions_of(consumer, topics.incidents, topics.feedback)
    for record in read_to_end(consumer, partitions, within_s=within_s):
        try:
            if record.topic == topics.feedback:
                if record.value is not None:
                    period.add_feedback(decode_feedback(record.value))
            elif record.value is None:
                period.remove((record.key or b"").decode("utf-8", "replace"))
            else:
                period.add(decode_transition(record.value))
        except UndecodableError:
            # It was written by another version, which must not hide the others.
            continue
