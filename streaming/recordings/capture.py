"""`flinkwatch capture`: the records of a time span as a recording.

Of the log and metric topics it takes what stands from the first record of the span on; the topic of the configuration
is small and taken whole, since what is in force was published before. Partitions are merged by Kafka timestamp, each in
its own order. Memory is bounded: one fetch of each partition is held.
"""

import gzip
import heapq
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from kafka import TopicPartition

from detectors.events.event import Record
from sinks.kafka import clients
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import partitions_of
from streaming.configuration.settings import Kafka
from streaming.errors import UserError
from streaming.recordings.recording import line_of

_MANY = 5_000
_FETCH_BYTES = 1 << 20
_CONNECT_MS = 10_000
_SILENT_S = 30.0
_MISSING = "no such topic; kafka.logs and kafka.metrics in the configuration name the topics"


class CaptureError(UserError):
    """The topics cannot be read: what is wrong, and where."""


class Captured(NamedTuple):
    """What was written: records, and their first and last Kafka timestamp (epoch ms; 0 without any).

    `missing` are the topics that the configuration names and Kafka does not have.
    """

    records: int
    first: int
    last: int
    missing: tuple[str, ...] = ()


def capture(
    kafka: Kafka, since: int, out: Path, progress: Callable[[int, int], None] = lambda _done, _all: None
) -> Captured:
    """Write what has come since `since` (epoch ms) until now to `out`; a file that is there is replaced at the end.

    `progress` is told how many records are done, of how many. Raises CaptureError.
    """
    part = out.with_name(out.name + ".part")
    count = first = last = 0
    try:
        with (
            explained(kafka.access, CaptureError),
            closing(_consumer(kafka)) as consumer,
            gzip.open(part, "wb", compresslevel=6) as file,
        ):
            there = consumer.topics()
            spans = _spans(consumer, kafka, since, there)
            expected = sum(end - begin for begin, end in spans.values())
            partitions = (_of_partition(consumer, p, *span) for p, span in spans.items())
            for record in heapq.merge(*partitions, key=lambda r: r.timestamp):
                file.write(line_of(record))
                count, first, last = count + 1, first or record.timestamp, max(last, record.timestamp)
                if count % 1_000 == 0:
                    progress(count, expected)
        part.replace(out)
    except OSError as error:
        raise CaptureError(f"{out}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)
    return Captured(count, first, last, tuple(t for t in (*kafka.logs, *kafka.metrics) if t not in there))


def _consumer(kafka: Kafka) -> Any:
    return clients.consumer(
        kafka.access,
        connect_ms=_CONNECT_MS,
        auto_offset_reset="none",
        max_partition_fetch_bytes=_FETCH_BYTES,
        fetch_max_bytes=_FETCH_BYTES,
        max_poll_records=_MANY,
    )


def _spans(consumer: Any, kafka: Kafka, since: int, there: Collection[str]) -> dict[TopicPartition, tuple[int, int]]:
    """From which offset to which (exclusive) each partition is read."""
    config = kafka.topics.config
    wanted = [*kafka.logs, *kafka.metrics]
    if len(missing := [topic for topic in wanted if topic not in there]) == len(wanted):
        raise CaptureError(f"{', '.join(missing)}: {_MISSING}")
    topics = [*(topic for topic in wanted if topic in there), *([config] if config in there else [])]
    partitions = partitions_of(consumer, *topics)
    ends = consumer.end_offsets(partitions)
    begins = consumer.beginning_offsets(partitions)
    found = consumer.offsets_for_times({p: since for p in partitions if p.topic != config})
    spans = {}
    for partition in partitions:
        at = found.get(partition)
        begin = begins[partition] if partition.topic == config else ends[partition] if at is None else at.offset
        if begin < ends[partition]:
            spans[partition] = begin, ends[partition]
    return spans


def _of_partition(consumer: Any, partition: TopicPartition, begin: int, end: int) -> Iterator[Record]:
    """The records of a partition, one fetch at a time: between two of them the client reads others."""
    while begin < end:
        consumer.assign([partition])
        consumer.seek(partition, begin)
        deadline = time.monotonic() + _SILENT_S
        records: list[Any] = []
        # By the position and not by the last record: markers of transactions and compacted records have offsets, too.
        while not records and consumer.position(partition) < end:
            if time.monotonic() > deadline:
                name = f"{partition.topic}/{partition.partition}"
                raise CaptureError(f"{name}: the broker has sent nothing for {_SILENT_S:.0f} s")
            records = consumer.poll(timeout_ms=500).get(partition, [])
        begin = consumer.position(partition)
        yield from (record_of(r) for r in records if r.offset < end)


def record_of(r: Any) -> Record:
    headers = tuple((name, value) for name, value in r.headers)
    return Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, headers)
