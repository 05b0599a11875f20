"""To how many jobs or clusters each override applies, as the job tells it in the topic of readings."""

import time
from contextlib import closing

import msgspec
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from detectors.incidents.incident import Reading
from detectors.settings import Published
from sinks.kafka_access import KafkaAccess, client_options
from sinks.kafka_reach import explain
from streaming.errors import PublishedError
from streaming.subject import about

_NAME = b'"override_matched"'
_WITHIN_S = 30.0
_decode = msgspec.json.Decoder(Reading).decode


def matched_by(access: KafkaAccess, topic: str, in_force: Published) -> list[int | None]:
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
                found |= {r.key: _decode(r.value) for r in records if r.value is not None and _NAME in r.value}
    return list(found.values())
