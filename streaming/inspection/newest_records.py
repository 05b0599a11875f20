"""The newest records of a topic, without reading all of it."""

import time
from collections.abc import Iterator
from typing import Any

from detectors.events.event import Record
from sinks.kafka.reading import partitions_of, read_spans
from streaming.recordings.capture import record_of

_CHUNK = 1_000


def newest_records(consumer: Any, topic: str, most: int, within_s: float) -> Iterator[Record]:
    """About `most` records, all partitions alike, chunk by chunk from the newest backwards; none without the topic.

    Fewer if `within_s` has passed after a chunk. Raises KafkaTimeoutError if a chunk alone takes as long.
    """
    partitions = partitions_of(consumer, topic)
    if not partitions:
        return
    deadline = time.monotonic() + within_s
    begins, ends = consumer.beginning_offsets(partitions), dict(consumer.end_offsets(partitions))
    size = max(min(_CHUNK, most) // len(partitions), 1)
    while spans := {p: (max(begins[p], end - size), end) for p, end in ends.items() if end > begins[p]}:
        yield from (record_of(found) for found in read_spans(consumer, spans, within_s))
        most -= sum(end - begin for begin, end in spans.values())
        if most <= 0 or time.monotonic() > deadline:
            return
        ends |= {p: begin for p, (begin, _) in spans.items()}
