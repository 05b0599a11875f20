"""`flinkwatch capture`: writes the records of a time span to a recording.

Log and metric topics are read from the first record of the time span. The configuration topic is small and read whole,
since the configuration in force was published earlier. Partitions are merged by Kafka timestamp, each in its own order.
Memory is bounded to one fetch of each partition.
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
    """The topics cannot be read; the message says what is wrong and where."""


class Captured(NamedTuple):
    """The number of records that were written, with their first and last Kafka timestamps (epoch ms; 0 if none).

    `missing` are the topics that the configuration names but Kafka does not have.
    """

    records: int
    first: int
    last: int
    missing: tuple[str, ...] = ()


def capture(
    kafka: Kafka,
    since: int,
    out: Path,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
    *,
    until: int | None = None,
    most: int | None = None,
) -> Captured:
    """Write the records from `since` to `until` (epoch ms; None: now) to `out`. An existing file is replaced.

    `progress` is called with the number of records written and the expected total. Raises CaptureError, also if there
    are more than `most` records.
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
            spans = _spans(consumer, kafka, since, there, until)
            expected = sum(end - begin for begin, end in spans.values())
            if most is not None and expected > most:
                raise CaptureError(f"there are {expected:,} records in that time, more than the limit of {most:,}")
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


def _spans(
    consumer: Any, kafka: Kafka, since: int, there: Collection[str], until: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset and the end offset (exclusive) of each partition."""
    config = kafka.topics.config
    wanted = [*kafka.logs, *kafka.metrics]
    if len(missing := [topic for topic in wanted if topic not in there]) == len(wanted):
        raise CaptureError(f"{', '.join(missing)}: {_MISSING}")
    topics = [*(topic for topic in wanted if topic in there), *([config] if config in there else [])]
    partitions = partitions_of(consumer, *topics)
    ends = dict(consumer.end_offsets(partitions))
    if until is not None:
        after = consumer.offsets_for_times(dict.fromkeys(partitions, until + 1))
        ends |= {p: at.offset for p, at in after.items() if at is not None}
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
    """The records of a partition, one fetch at a time, since the client reads other partitions in between."""
    while begin < end:
        consumer.assign([partition])
        consumer.seek(partition, begin)
        deadline = time.monotonic() + _SILENT_S
        records: list[Any] = []
        # Compares the position, since transaction markers and compacted records also have offsets.
        while not records and consumer.position(partition) < end:
            if time.monotonic() > deadline:
                name = f"{partition.topic}/{partition.partition}"
                raise CaptureError(f"{name}: the broker has sent no records for {_SILENT_S:.0f} s")
            records = consumer.poll(timeout_ms=500).get(partition, [])
        begin = consumer.position(partition)
        yield from (record_of(r) for r in records if r.offset < end)


def record_of(r: Any) -> Record:
    headers = tuple((name, value) for name, value in r.headers)
    return Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, headers)
