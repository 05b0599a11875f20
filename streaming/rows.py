"""The rows between the two Python stages: one per (task, bucket), with everything packed into bytes.

A stateful row costs as much as a dozen matched lines, so lines never become rows of their own.
"""

from zlib import crc32

import msgspec

from detectors.events.event import LogEvent, MetricEvent, Record, Rejected
from detectors.heartbeat import Beat
from detectors.settings import Published, PublishedSilence

READ_SCHEMA = "bucket int, packed binary"
EMIT_SCHEMA = "topic string, key binary, value binary"

_MAX_DEAD_LETTER_BYTES = 256 * 1024


class DeadLetter(msgspec.Struct, array_like=True):
    """A rejected record as it is kept: reason, key and value of its record in `flinkwatch.rejected`."""

    reason: str
    key: bytes
    value: bytes


class Packed(msgspec.Struct, array_like=True):
    """What a read task has for one bucket.

    `clocks` is the greatest Kafka timestamp of each topic partition it read, epoch ms; `wall` the machine's time when
    it began, which no clock may pass. `canary` is when the newest canary among the records was sent, 0 without one;
    `beat` the newest beat of the pulse that tells its monotonic time, `pulse` the partition it was in.
    """

    clocks: dict[str, int] = {}
    wall: int = 0
    records: int = 0
    events: list[LogEvent | MetricEvent] = []
    rejected: list[DeadLetter] = []
    published: Published | None = None
    canary: int = 0
    silences: list[PublishedSilence] = []
    beat: Beat | None = None
    pulse: str = ""


encode_packed = msgspec.msgpack.Encoder().encode
decode_packed = msgspec.msgpack.Decoder(Packed).decode


def bucket_of(cluster: str, buckets: int) -> int:
    """The bucket of a cluster: the same in every process and version, because state is kept under it."""
    return crc32(cluster.encode()) % buckets


class _Letter(msgspec.Struct):
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None
    size: int
    truncated: bool
    value: str | None = None
    value_b64: bytes | None = None


def dead_letter(rejected: Rejected) -> DeadLetter:
    """The dead letter of a record: its value whole up to 256 KiB, as text when it is text, else base64."""
    record: Record = rejected.record
    value = record.value or b""
    kept = value[:_MAX_DEAD_LETTER_BYTES]
    letter = _Letter(
        reason=rejected.reason,
        detail=rejected.detail,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key.decode(errors="replace") if record.key is not None else None,
        size=len(value),
        truncated=len(kept) < len(value),
    )
    try:
        letter.value = kept.decode()
    except UnicodeDecodeError:
        letter.value_b64 = kept
    key = f"{record.topic}/{record.partition}/{record.offset}".encode()
    return DeadLetter(rejected.reason, key, msgspec.json.encode(letter))
