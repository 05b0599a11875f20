"""The rows between the two Python stages: one per (task, bucket), with everything packed into bytes.

A stateful row costs as much as a dozen matched lines, so lines are packed and never rows of their own.
"""

from typing import Generic, TypeVar
from zlib import crc32

import msgspec

from detectors.engine.host_clock import Heartbeat
from detectors.engine.not_understood import SourceSample
from detectors.events.event import LogEvent, MetricEvent, Record, Rejected
from detectors.settings.live import PublishedConfiguration, PublishedResolution, PublishedSilence

READ_SCHEMA = "bucket int, packed binary"
EMIT_SCHEMA = "topic string, key binary, value binary"

MAX_KEPT_BYTES = 256 * 1024
"""Bytes of a rejected record that its dead letter keeps."""

MAX_LETTER_BYTES = 2 * MAX_KEPT_BYTES + 32 * 1024
"""Maximum size of a dead letter, for any record."""

_MAX_TEXT = 2_000
_MAX_ADDRESS = 300
_encode = msgspec.json.Encoder().encode


class DeadLetter(msgspec.Struct, array_like=True):
    """A dead letter: reason, key and value of its record in `flinkwatch.rejected`."""

    reason: str
    key: bytes
    value: bytes


EventT = TypeVar("EventT")


class Packed(msgspec.Struct, Generic[EventT], array_like=True):
    """The output of a read task for one bucket. The read stage packs events that are encoded already (`msgspec.Raw`).

    `clocks` has the greatest Kafka timestamp (epoch ms) of each topic partition that the task read; `wall` is the time
    of the host at its start, which no clock may exceed. `canary` is the time at which the newest canary was sent, 0
    without one. `heartbeat` is the newest heartbeat with a monotonic time, `heartbeat_partition` its partition.
    `offsets` is the number of offsets read. `ignored` counts entries of collectors' records that were passed over, by
    topic and reason.
    """

    clocks: dict[str, int] = {}
    wall: int = 0
    records: int = 0
    events: list[EventT] = []
    rejected: list[DeadLetter] = []
    published: PublishedConfiguration | None = None
    canary: int = 0
    silences: list[PublishedSilence] = []
    looked: list[SourceSample] = []
    heartbeat: Heartbeat | None = None
    heartbeat_partition: str = ""
    offsets: int = 0
    ignored: dict[str, dict[str, int]] = {}
    resolutions: list[PublishedResolution] = []


encode_packed = msgspec.msgpack.Encoder().encode
encode_event = encode_packed
decode_packed = msgspec.msgpack.Decoder(Packed[LogEvent | MetricEvent]).decode


def bucket_of(cluster: str, buckets: int) -> int:
    """The bucket of a cluster. It must be the same in every process and version, since it is the key of the state."""
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


def dead_letter(rejected: Rejected, keep: int = MAX_KEPT_BYTES) -> DeadLetter:
    """The dead letter of a record, with up to `keep` bytes of its value, as text if possible, else as base64.

    It is never larger than MAX_LETTER_BYTES. JSON encodes a control character in six bytes, so text that would more
    than double in size is kept as base64.
    """
    record: Record = rejected.record
    value = record.value or b""
    kept = value[: min(keep, MAX_KEPT_BYTES)]
    letter = _Letter(
        reason=rejected.reason,
        detail=rejected.detail[:_MAX_TEXT],
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key[:_MAX_TEXT].decode(errors="replace") if record.key is not None else None,
        size=len(value),
        truncated=len(kept) < len(value),
    )
    key = f"{record.topic}/{record.partition}/{record.offset}".encode()
    return DeadLetter(rejected.reason, key, _encoded(letter, kept))


def event_letter(event: LogEvent | MetricEvent, error: str, reason: str = "defect") -> DeadLetter:
    """The dead letter of an event that failed. If it has too many samples, only the first are kept."""
    key = f"{event.topic}/{event.partition}/{event.offset}".encode()
    letter = {"reason": reason, "detail": error[:_MAX_TEXT], "truncated": False, "event": event}
    try:
        value = _encode(letter)
    except (OverflowError, UnicodeEncodeError):
        value = _encode({**letter, "event": repr(event)[:_MAX_TEXT].encode(errors="replace").decode()})
    while len(value) > MAX_LETTER_BYTES and isinstance(event, MetricEvent) and event.samples:
        event = msgspec.structs.replace(event, samples=event.samples[: len(event.samples) // 2])
        value = _encode({**letter, "truncated": True, "event": event})
    if len(value) > MAX_LETTER_BYTES:
        value = _encode({**letter, "truncated": True, "event": None})
    return DeadLetter(reason, key, value)


def cut_letter(letter: DeadLetter, limit: int) -> DeadLetter:
    """A letter cut to `limit` bytes, for a topic with a smaller limit than usual; it keeps the start of the letter."""
    room = max(0, (limit - len(letter.key) - _MAX_ADDRESS) * 3 // 4)
    whole = {"reason": letter.reason, "truncated": True, "size": len(letter.value), "letter_b64": letter.value[:room]}
    return DeadLetter(letter.reason, letter.key, _encode(whole))


def _encoded(letter: _Letter, kept: bytes) -> bytes:
    try:
        letter.value = kept.decode()
    except UnicodeDecodeError:
        pass
    else:
        encoded = _encode(letter)
        if len(encoded) <= MAX_LETTER_BYTES:
            return encoded
        letter.value = None
    letter.value_b64 = kept
    return _encode(letter)
