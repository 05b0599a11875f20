"""Which incidents a silence is about: those that are open, and whether anything like it was ever seen."""

from collections.abc import Iterable
from contextlib import closing

from detectors.incident import Transition, decode_reading, decode_transition
from detectors.incidents.silences import Silence
from detectors.values.decoding import UndecodableError
from sinks.contract.wording import kind_words
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import newest_values
from streaming.configuration.settings import Kafka
from streaming.errors import PublishedError

_SHOWN = 5


def incidents(kafka: Kafka, within_ms: int) -> list[Transition]:
    """Each incident that the topic still has, as it is now. Raises PublishedError."""
    found: list[Transition] = []
    for value in newest(kafka.access, kafka.topics.incidents, within_ms).values():
        try:
            found.append(decode_transition(value))
        except UndecodableError:
            # One that cannot be read is of another version; it must not keep anyone from muting.
            continue
    return found


def places(kafka: Kafka, within_ms: int) -> set[tuple[str, str]]:
    """Cluster and job of everything that flinkwatch has a reading of. Raises PublishedError."""
    found: set[tuple[str, str]] = set()
    for value in newest(kafka.access, kafka.topics.readings, within_ms).values():
        try:
            labels = decode_reading(value).labels
        except UndecodableError:
            continue
        found.add((labels.get("cluster", ""), labels.get("job", "")))
    return found


def newest(access: KafkaAccess, topic: str, within_ms: int) -> dict[bytes, bytes]:
    """The newest value of each key of a compacted topic. Raises PublishedError."""
    with (
        explained(access, PublishedError, f"{topic} could not be read: "),
        closing(clients.consumer(access, connect_ms=within_ms)) as consumer,
    ):
        return newest_values(consumer, topic, within_ms / 1000)


def muted(silence: Silence, found: Iterable[Transition]) -> list[Transition]:
    """The open incidents that a silence is about."""
    return [t for t in found if is_open(t) and silence.fits(t.cluster, t.job_name, t.cause)]


def is_open(t: Transition) -> bool:
    """Whether an incident has not ended."""
    return t.transition != "resolved"


def matches_now(silence: Silence, found: list[Transition], seen: Iterable[tuple[str, str]]) -> str:
    """What a silence is about now, in a sentence."""
    own = muted(silence, found)
    if own:
        named = [f"{t.incident} {kind_words(t.cause)}, {t.job_name or t.job_id or t.cluster}" for t in own[:_SHOWN]]
        more = f"; and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
        return f"It matches {len(own)} open incident{'s' * (len(own) > 1)}: {'; '.join(named)}{more}."
    if any(silence.fits(t.cluster, t.job_name, t.cause) for t in found):
        return "It matches no open incident, but some that are resolved."
    if any(silence.fits_cluster(cluster) and silence.fits_job(job) for cluster, job in seen):
        return "It matches no open incident, but a cluster or job that is watched."
    return "Warning: it matches nothing seen, no incident and no cluster or job that is watched. Check the patterns."
