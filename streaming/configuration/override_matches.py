"""To how many jobs or clusters each override applies, as the job tells it in the topic of readings."""

import time
from collections.abc import Callable
from contextlib import closing
from math import isfinite

import structlog
from kafka.errors import KafkaError

from detectors.incident import Reading, decode_reading
from detectors.settings.live import PublishedConfiguration
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explain
from sinks.kafka.reading import newest_values
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
    with closing(clients.consumer(access)) as consumer:
        values = newest_values(consumer, topic, _WITHIN_S).values()
    return [reading for value in values if (reading := _told(value)) is not None]


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
