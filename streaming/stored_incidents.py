"""Transitions as the incidents topic keeps them, for commands that show incidents."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

from kafka import TopicPartition

from detectors.incident import Transition, decode_transition
from detectors.values.decoding import UndecodableError
from sinks.contract.overview import Period
from sinks.delivery.overviews.reading import fill
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import follow, partitions_of, read_to_end
from streaming.configuration.settings import Kafka
from streaming.errors import PublishedError


def stored_transitions(kafka: Kafka, within_ms: int, incident: str = "") -> dict[str, list[Transition]]:
    """All transitions in the topic by incident, in order of their number; those of one incident if it is named.

    Kafka's compaction may have removed all but the newest one of an incident. Raises PublishedError.
    """
    topic = kafka.topics.incidents
    with topic_reader(kafka.access, topic, within_ms) as consumer:
        records = read_to_end(consumer, existing_partitions(consumer, topic), within_s=within_ms / 1000)
        return by_incident(((record.key or b"", record.value) for record in records), incident)


def followed_transitions(kafka: Kafka, within_ms: int, stop: Event) -> Iterator[list[Transition]]:
    """All transitions in the topic as one list, then the new ones after each poll, until `stop`.

    Raises PublishedError if the topic cannot be read to its present end. A later outage only delays the next ones.
    """
    topic = kafka.topics.incidents
    with topic_reader(kafka.access, topic, within_ms) as consumer:
        partitions = existing_partitions(consumer, topic)
        yield readable(record.value for record in read_to_end(consumer, partitions, within_s=within_ms / 1000))
        for records in follow(consumer, stop):
            yield readable(record.value for record in records)


def stored_period(kafka: Kafka, within_ms: int, period: Period) -> Period:
    """The period, filled with the incidents and the feedback in the topics. Raises PublishedError."""
    with topic_reader(kafka.access, kafka.topics.incidents, within_ms) as consumer:
        existing_partitions(consumer, kafka.topics.incidents)
        fill(period, consumer, kafka.topics, within_ms / 1000)
    return period


@contextmanager
def topic_reader(access: KafkaAccess, topic: str, within_ms: int) -> Iterator[Any]:
    """A consumer that reads one of flinkwatch's own topics. Raises PublishedError, also for what fails in the block."""
    with (
        explained(access, PublishedError, f"{topic} could not be read: "),
        closing(clients.consumer(access, connect_ms=within_ms)) as consumer,
    ):
        yield consumer


def existing_partitions(consumer: Any, topic: str) -> list[TopicPartition]:
    """The partitions of one of flinkwatch's own topics. Raises PublishedError if Kafka does not have it."""
    if not (found := partitions_of(consumer, topic)):
        raise PublishedError(f"Kafka has no topic {topic}: has `flinkwatch run` been started there?")
    return found


def readable(values: Iterable[bytes | None]) -> list[Transition]:
    """The transitions in values of the topic, without tombstones and records that another version wrote."""
    found = []
    for value in values:
        try:
            found += [decode_transition(value)] if value is not None else []
        except UndecodableError:
            # It must not hide the others.
            continue
    return found


def by_incident(records: Iterable[tuple[bytes, bytes | None]], incident: str = "") -> dict[str, list[Transition]]:
    """The transitions in records of the topic, as `stored_transitions` gives them. A tombstone removes an incident."""
    found: dict[str, dict[int, Transition]] = defaultdict(dict)
    for key, value in records:
        name = key.decode("utf-8", "replace")
        if incident and name != incident:
            continue
        if value is None:
            found.pop(name, None)
            continue
        try:
            transition = decode_transition(value)
        except UndecodableError:
            # It was written by another version, which must not hide the others.
            continue
        found[name][transition.seq] = transition
    return {name: [by_seq[seq] for seq in sorted(by_seq)] for name, by_seq in found.items()}
