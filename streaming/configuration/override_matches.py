"""To how many jobs or clusters each override applies, as the job tells it in the topic of readings."""

import time
from collections.abc import Callable
from contextlib import closing
from math import isfinite

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from detectors.incident import Reading, decode_reading
from detectors.settings.live import PublishedConfiguration
from detectors.values.decoding import UndecodableError
from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.diagnosis import explain
from sinks.secret import SecretError
from streaming.configuration.effective import about
from streaming.errors import PublishedError

log = structlog.get_logger()

_NAME = b'"override_matched"'
_WITHIN_S = 30.0
# By then every cluster that runs has been heard of, also at a first start.
_LOOK_AFTER_S = 120.0


def matched_by(access: KafkaAccess, topic: str, in_force: PublishedConfiguration) -> list[int | None]:
    """By number of the override; None where the job has not told it yet. Raises PublishedError."""
    overrides = [about(o) for o in in_force.live().overrides]
    if not overrides:
        return []
    try:
        readings = _newest(access, topic)
    except KafkaError as error:
        raise PublishedError(f"{topic} could not be read: kafka.access: {explain(access, error)}") from error
    found: list[int | None] = [None] * len(overrides)
    for reading in readings:
        number = int(reading.labels["override"])
        # Readings of overrides that stood there before are still in the topic.
        if reading.at and number < len(overrides) and reading.labels["match"] == overrides[number]:
            found[number] = (found[number] or 0) + int(reading.value)
    return found


class Unmatched:
    """Says once of each configuration which of its overrides match nothing: a name was misspelt, or is of the past."""

    def __init__(
        self, count: Callable[[PublishedConfiguration], list[int | None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`count` is `matched_by` without its addresses."""
        self._count = count
        self._clock = clock
        self._published: PublishedConfiguration | None = None
        self._look_at = 0.0

    def expect(self, published: PublishedConfiguration) -> None:
        """Another configuration is in force."""
        self._published, self._look_at = published, self._clock() + _LOOK_AFTER_S

    def look(self) -> None:
        """Asks when it is time, and again while the job has not told it of every override."""
        published = self._published
        if published is None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + _LOOK_AFTER_S
        try:
            counts = self._count(published)
        except (PublishedError, SecretError) as error:
            log.debug("what overrides match is not known", error=str(error))
            return
        if None in counts:
            return
        self._published = None
        named = [f"{i} ({about(o)})" for i, o in enumerate(published.live().overrides) if not counts[i]]
        if named:
            log.warning("overrides match nothing that was ever seen", overrides=named)


def _newest(access: KafkaAccess, topic: str) -> list[Reading]:
    found: dict[bytes, Reading] = {}
    deadline = time.monotonic() + _WITHIN_S
    consumer = KafkaConsumer(**client_options(access), enable_auto_commit=False, allow_auto_create_topics=False)
    with closing(consumer):
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            return []
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(p) < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise PublishedError(f"{topic} could not be read to its end within {_WITHIN_S:.0f} s")
            for records in consumer.poll(timeout_ms=500).values():
                found |= {r.key: one for r in records if (one := _told(r.value)) is not None}
    return list(found.values())


def _told(value: bytes | None) -> Reading | None:
    """What the job says of an override; None for another record, and for one that another has written."""
    if value is None or _NAME not in value:
        return None
    try:
        reading = decode_reading(value)
    except UndecodableError:
        return None
    told = reading.labels.get("override", "").isdecimal() and "match" in reading.labels and isfinite(reading.value)
    return reading if told and reading.name == "override_matched" else None
