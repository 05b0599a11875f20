"""Incidents and clusters that flinkwatch knows of, read from its topics, and which of them a silence matches."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from detectors.incident import Reading, Transition, decode_reading, decode_transition
from detectors.incidents.silences import Silence
from detectors.values.decoding import UndecodableError
from sinks.contract.wording import kind_words
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import newest_values
from streaming.configuration.settings import Kafka
from streaming.configuration.silences import muted
from streaming.errors import PublishedError
from streaming.stored_incidents import existing_partitions, topic_reader
from streaming.terminal import UTC_CLOCK

_SHOWN = 5
_Value = TypeVar("_Value")


def incidents(kafka: Kafka, within_ms: int) -> list[Transition]:
    """The current state of each incident in the topic. Raises PublishedError."""
    return list(_decoded(decode_transition, newest(kafka.access, kafka.topics.incidents, within_ms)))


def open_incident(kafka: Kafka, incident: str, within_ms: int) -> Transition:
    """The current state of an open incident. Raises PublishedError if there is no such incident or it has resolved."""
    found = next((one for one in incidents(kafka, within_ms) if one.incident == incident), None)
    if found is None:
        raise PublishedError(
            f"{kafka.topics.incidents} has no incident {incident}; `flinkwatch status` lists the open ones"
        )
    if found.transition == "resolved":
        part = f" and is part of {found.part_of}, which may be open" if found.part_of else ""
        raise PublishedError(f"incident {incident} was resolved at {UTC_CLOCK.time(found.at)}{part}")
    return found


def places(kafka: Kafka, within_ms: int) -> set[tuple[str, str]]:
    """Cluster and job of everything that flinkwatch has a reading of. Raises PublishedError."""
    found = readings(kafka, within_ms)
    return {(reading.labels.get("cluster", ""), reading.labels.get("job", "")) for reading in found}


def readings(kafka: Kafka, within_ms: int) -> list[Reading]:
    """The newest value of each reading in the topic. Raises PublishedError."""
    return list(_decoded(decode_reading, newest(kafka.access, kafka.topics.readings, within_ms)))


def newest(access: KafkaAccess, topic: str, within_ms: int) -> dict[bytes, bytes]:
    """The newest value of each key of a compacted topic. Raises PublishedError, also if Kafka has no such topic."""
    with topic_reader(access, topic, within_ms) as consumer:
        existing_partitions(consumer, topic)
        return newest_values(consumer, topic, within_ms / 1000)


def matches_now(silence: Silence, found: list[Transition], seen: Iterable[tuple[str, str]]) -> str:
    """One sentence that says what a silence matches now."""
    if own := muted(silence, found):
        named = [f"{t.incident} {kind_words(t.cause)}, {t.job_name or t.job_id or t.cluster}" for t in own[:_SHOWN]]
        more = f"; and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
        return f"It matches {len(own)} open incident{'s' * (len(own) > 1)}: {'; '.join(named)}{more}."
    if any(silence.fits(t.cluster, t.job_name, t.cause) for t in found):
        return "It matches no open incident, but some resolved ones."
    if any(silence.fits_cluster(cluster) and silence.fits_job(job) for cluster, job in seen):
        return "It matches no incident, but a known cluster or job."
    return "Warning: it matches no incident and no known cluster or job. Check the patterns."


def _decoded(decode: Callable[[bytes], _Value], values: dict[bytes, bytes]) -> Iterator[_Value]:
    for value in values.values():
        try:
            yield decode(value)
        except UndecodableError:
            # It was written by another version, which must not hide the others.
            continue
