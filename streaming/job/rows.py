"""The rows between the two Python stages: one per (task, bucket), with everything packed into bytes.

A stateful row costs as much as a dozen matched lines, so lines never become rows of their own.
"""

from zlib import crc32

import msgspec

from detectors.engine.host_clock import Heartbeat
from detectors.engine.not_understood import SourceSample
from detectors.events.event import LogEvent, MetricEvent, Record, Rejected
from detectors.settings.live import PublishedConfiguration, PublishedSilence

READ_SCHEMA = "bucket int, packed binary"
EMIT_SCHEMA = "topic string, key binary, value binary"

MAX_KEPT_BYTES = 256 * 1024
"""How much of a rejected record its dead letter keeps."""

MAX_LETTER_BYTES = 2 * MAX_KEPT_BYTES + 32 * 1024
"""No dead letter is larger, whatever the record was."""

_MAX_TEXT = 2_000
_MAX_ADDRESS = 300
_encode = msgspec.json.Encoder().encode


class DeadLetter(msgspec.Struct, array_like=True):
    """A rejected record as it is kept: reason, key and value of its record in `flinkwatch.rejected`."""

    reason: str
    key: bytes
    value: bytes


class Packed(msgspec.Struct, array_like=True):
    """What a read task has for one bucket.

    `clocks` is the greatest Kafka timestamp of each topic partition it read, epoch ms; `wall` the machine's time when
    it began, which no clock may pass. `canary` is when the newest canary among the records was sent, 0 without one;
    `beat` the newest beat of the heartbeat that tells its monotonic time, `heartbeat` the partition it was in.
    `offsets` is how many offsets the task read.
    """

    clocks: dict[str, int] = {}
    wall: int = 0
    records: int = 0
    events: list[LogEvent | MetricEvent] = []
    rejected: list[DeadLetter] = []
    published: PublishedConfiguration | None = None
    canary: int = 0
    silences: list[PublishedSilence] = []
    looked: list[SourceSample] = []
    beat: Heartbeat | None = None
    heartbeat: str = ""
    offsets: int = 0


encode_packed = msgspec.msgpack.Encoder().encode
encode_event = encode_packed
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


def dead_letter(rejected: Rejected, keep: int = MAX_KEPT_BYTES) -> DeadLetter:
    """The dead letter of a record: its value whole up to `keep` bytes, as text when it is text, else base64.

    Never above MAX_LETTER_BYTES: JSON writes a control character in six bytes, so text that it would more than double
    is kept in base64.
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
    """The dead letter of an event that was not taken; of many samples the first ones are kept."""
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
    """A letter made small enough for a topic that takes less than usual: what is left begins as the letter did."""
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
