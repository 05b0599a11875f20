"""The records that prove an incident, read again from Kafka by their addresses."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

from kafka import TopicPartition

from detectors.events.event import Record
from detectors.incident import Evidence, Transition
from sinks.kafka import clients
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import read_spans
from streaming.configuration.settings import Kafka
from streaming.errors import PublishedError
from streaming.recordings.capture import record_of


class EvidenceAddress(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


def address_of(evidence: Evidence) -> EvidenceAddress:
    """The address of a piece of evidence."""
    return EvidenceAddress(evidence.topic, evidence.partition, evidence.offset)


def proofs(transitions: Iterable[Transition]) -> dict[EvidenceAddress, Evidence]:
    """Every record that proves one of these transitions or its findings, once, in order of the time of its line."""
    found = (e for t in transitions for e in (*t.evidence, *(one for f in t.findings for one in f.evidence)))
    by_address = {address_of(evidence): evidence for evidence in found}
    return dict(sorted(by_address.items(), key=lambda item: (item[1].time, item[0])))


def read_again(
    kafka: Kafka, addresses: Iterable[EvidenceAddress], within_ms: int
) -> dict[EvidenceAddress, Record | None]:
    """The record at each address, None if Kafka no longer has it. Raises PublishedError."""
    found: dict[EvidenceAddress, Record | None] = dict.fromkeys(addresses)
    with (
        explained(kafka.access, PublishedError, "the evidence could not be read: "),
        closing(clients.consumer(kafka.access, connect_ms=within_ms)) as consumer,
    ):
        for address in found:
            found[address] = _record(consumer, address, within_ms)
    return found


def _record(consumer: Any, address: EvidenceAddress, within_ms: int) -> Record | None:
    topic, number, offset = address
    if number not in (consumer.partitions_for_topic(topic) or ()):
        return None
    partition = TopicPartition(topic, number)
    begin, end = consumer.beginning_offsets([partition])[partition], consumer.end_offsets([partition])[partition]
    if not begin <= offset < end:
        return None
    records = read_spans(consumer, {partition: (offset, offset + 1)}, within_ms / 1_000)
    return next((record_of(r) for r in records if r.offset == offset), None)
