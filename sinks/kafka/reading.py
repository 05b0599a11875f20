"""Reading topics: up to their present end, and on from there. `consumer` is always kafka-python's KafkaConsumer."""

import time
from collections.abc import Iterable, Iterator, Mapping
from threading import Event
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

_POLL_MS = 500
_SILENT_S = 30.0


def partitions_of(consumer: Any, *topics: str) -> list[TopicPartition]:
    """All partitions of the topics; none of a topic that does not exist."""
    return [TopicPartition(t, p) for t in topics for p in sorted(consumer.partitions_for_topic(t) or ())]


def read_to_end(
    consumer: Any,
    partitions: Iterable[TopicPartition],
    begins: Mapping[TopicPartition, int] | None = None,
    within_s: float | None = None,
) -> Iterator[Any]:
    """The records of `partitions` from `begins`, by default from their beginning, up to their present end.

    Raises KafkaTimeoutError after `within_s`, by default once the brokers have sent nothing for 30 s: half a topic is
    never taken for a whole one.
    """
    assigned = list(partitions)
    if not assigned:
        return
    consumer.assign(assigned)
    ends = consumer.end_offsets(assigned)
    consumer.seek_to_beginning(*assigned)
    for partition, offset in (begins or {}).items():
        consumer.seek(partition, offset)
    yield from _read(consumer, ends, within_s)


def read_spans(
    consumer: Any, spans: Mapping[TopicPartition, tuple[int, int]], within_s: float | None = None
) -> Iterator[Any]:
    """The records of each partition from the first offset of its span up to the second, which is not included.

    Raises KafkaTimeoutError as `read_to_end` does.
    """
    consumer.assign([*spans])
    for partition, (begin, _) in spans.items():
        consumer.seek(partition, begin)
    ends = {partition: end for partition, (_, end) in spans.items()}
    for record in _read(consumer, ends, within_s):
        if record.offset < ends[TopicPartition(record.topic, record.partition)]:
            yield record


def _read(consumer: Any, ends: Mapping[TopicPartition, int], within_s: float | None) -> Iterator[Any]:
    """What the consumer polls until each partition has reached its end; the last poll may hold later records."""
    limit = _SILENT_S if within_s is None else within_s
    deadline, before = time.monotonic() + limit, None
    # By positions and not by records: markers of transactions and compacted records have offsets, too.
    while behind := {p: position for p, end in ends.items() if (position := consumer.position(p)) < end}:
        if within_s is None and behind != before:
            deadline, before = time.monotonic() + limit, behind
        if time.monotonic() > deadline:
            names = ", ".join(f"{p.topic}/{p.partition}" for p in behind)
            raise KafkaTimeoutError(f"{names} could not be read to the end, waited {limit:g} s")
        for records in consumer.poll(timeout_ms=_POLL_MS).values():
            yield from records


def newest_values(consumer: Any, topic: str, within_s: float | None = None) -> dict[bytes, bytes]:
    """The newest value of each key of a compacted topic, without deleted keys. Raises KafkaTimeoutError."""
    found: dict[bytes, bytes] = {}
    for record in read_to_end(consumer, partitions_of(consumer, topic), within_s=within_s):
        if record.value is None:
            found.pop(record.key or b"", None)
        else:
            found[record.key or b""] = record.value
    return found


def follow(consumer: Any, stop: Event) -> Iterator[list[Any]]:
    """New records from the consumer's positions on, until `stop`: a list after each poll, empty if nothing came."""
    while not stop.is_set():
        yield [record for records in consumer.poll(timeout_ms=_POLL_MS).values() for record in records]
