"""The newest record of each key of a compacted topic, for commands that ask once."""

import time
from collections.abc import Iterator
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from sinks.kafka.access import KafkaAccess, client_options
from sinks.kafka.diagnosis import explain
from sinks.secret import SecretError
from streaming.errors import PublishedError


def newest(access: KafkaAccess, topic: str, within_ms: int) -> dict[bytes, bytes]:
    """Values by key, those that were deleted left out. Raises PublishedError when it takes longer than `within_ms`."""
    found: dict[bytes, bytes] = {}
    try:
        for key, value in _records(access, topic, within_ms):
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
    except (KafkaError, SecretError) as error:
        raise PublishedError(f"{topic} could not be read: kafka.access: {explain(access, error)}") from error
    return found


def _records(access: KafkaAccess, topic: str, within_ms: int) -> Iterator[tuple[bytes, bytes | None]]:
    deadline = time.monotonic() + within_ms / 1000
    options = {**client_options(access), "bootstrap_timeout_ms": within_ms}
    with closing(KafkaConsumer(**options, enable_auto_commit=False, allow_auto_create_topics=False)) as consumer:
        partitions = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        if not partitions:
            return
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        while any(consumer.position(p) < ends[p] for p in partitions):
            if time.monotonic() > deadline:
                raise PublishedError(f"{topic} could not be read to its end within {within_ms / 1000:g} s")
            for records in consumer.poll(timeout_ms=500).values():
                yield from ((r.key or b"", r.value) for r in records)
