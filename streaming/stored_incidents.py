"""Transitions as the incidents topic keeps them, for commands that show incidents."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing

from detectors.incident import Transition, decode_transition
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import partitions_of, read_to_end
from streaming.configuration.settings import Kafka
from streaming.errors import PublishedError


def stored_transitions(kafka: Kafka, within_ms: int, incident: str = "") -> dict[str, list[Transition]]:
    """All transitions in the topic by incident, in order of their number; those of one incident if it is named.

    Kafka's compaction may have removed all but the newest one of an incident. Raises PublishedError.
    """
    topic = kafka.topics.incidents
    with (
        explained(kafka.access, PublishedError, f"{topic} could not be read: "),
        closing(clients.consumer(kafka.access, connect_ms=within_ms)) as consumer,
    ):
        records = read_to_end(consumer, partitions_of(consumer, topic), within_s=within_ms / 1000)
        return by_incident(((record.key or b"", record.value) for record in records), incident)


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
