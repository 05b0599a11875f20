"""`flinkwatch replay`: recorded Kafka records through the same code, without Spark.

Input, by content: recorded Kafka records (one JSON object a line, plain or gzip), a plain Flink log file, or a page of
Prometheus text. Records are taken in order of arrival, one second of the stream's clock at a time, as live.
"""

import base64
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from detectors import bucket
from detectors.clock import believed
from detectors.events.event import Event, Record, Rejected
from detectors.events.reader import Reader, time_of
from detectors.incidents.incident import Transition
from detectors.settings import Published
from streaming.errors import RecordingError
from streaming.known_issues import shipped

_TRIGGER_MS = 1_000


class _Line(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None = None
    headers: list[tuple[str, str]] = []
    value: str | None = None
    value_b64: str | None = None


_decode = msgspec.json.Decoder(_Line).decode


def load(paths: Iterable[Path], logs_topic: str, metrics_topic: str) -> list[Record]:
    """All records of the files in order of arrival. Raises RecordingError."""
    files = [list(_load(p, logs_topic, metrics_topic)) for p in paths]
    if len(files) == 1:
        return files[0]
    return sorted((r for f in files for r in f), key=lambda r: r.timestamp)


def replay(
    records: list[Record], reader: Reader, published: Published, rejected: Counter[str] | None = None
) -> Iterator[Transition]:
    """The transitions, in order, of records given in order of arrival; `rejected` counts by reason what is not read."""
    index, store = bucket.Index(published=published), MemoryStore()
    read = [reader.read(r) for r in records]
    if rejected is not None:
        rejected.update(found.reason for found in read if isinstance(found, Rejected))
    clocks = believed([(_source(r, e), r.timestamp) for r, e in zip(records, read, strict=True)])
    events: list[Event] = []
    limit = clocks[0] + _TRIGGER_MS if clocks else 0
    for i, clock in enumerate(clocks):
        if clock >= limit:
            yield from _step(index, store, events, clocks[i - 1])
            events, limit = [], clock + _TRIGGER_MS
        found = read[i]
        if not isinstance(found, Rejected):
            events += found
    if clocks:
        yield from _step(index, store, events, clocks[-1])


def _step(index: bucket.Index, store: bucket.Store, events: list[Event], until: int) -> list[Transition]:
    said = bucket.step(index, store, events, until, shipped())
    if said.defects:
        defect = said.defects[0]
        raise RecordingError(f"{defect.event.topic}/{defect.event.partition}/{defect.event.offset}: {defect.error}")
    return said.transitions


class MemoryStore:
    """States of clusters in memory."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}

    def get(self, cluster: str) -> bytes | None:
        """The bytes, or None."""
        return self._states.get(cluster)

    def put(self, cluster: str, state: bytes) -> None:
        """Keep the bytes."""
        self._states[cluster] = state

    def remove(self, cluster: str) -> None:
        """Forget the cluster."""
        self._states.pop(cluster, None)


def _source(record: Record, read: list[Event] | Rejected) -> str:
    if isinstance(read, list) and read:
        return read[0].source
    return f"{record.topic}/{record.key!r}/{dict(record.headers).get('host', b'')!r}"


def _load(path: Path, logs_topic: str, metrics_topic: str) -> Iterator[Record]:
    try:
        raw = path.read_bytes()
        text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError) as error:
        raise RecordingError(f"{path}: {error}") from error
    lines = text.splitlines()
    first = next((line for line in lines if line.strip()), b"")
    if first.startswith(b"{") and b'"topic"' in first:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _record(path, number, line)
    elif first.startswith(b"#") or b"flink_" in first.split(b"{")[0]:
        yield Record(metrics_topic, 0, 0, int(path.stat().st_mtime * 1000), None, text, (("host", path.stem.encode()),))
    else:
        yield from _plain_log(path, lines, logs_topic)


def _record(path: Path, number: int, line: bytes) -> Record:
    try:
        found = _decode(line)
        value = base64.b64decode(found.value_b64) if found.value_b64 is not None else None
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordingError(f"{path}:{number}: not a recorded Kafka record: {error}") from error
    if value is None and found.value is not None:
        value = found.value.encode()
    return Record(
        found.topic,
        found.partition,
        found.offset,
        found.timestamp,
        found.key.encode() if found.key is not None else None,
        value,
        tuple((k, v.encode()) for k, v in found.headers),
    )


def _plain_log(path: Path, lines: list[bytes], topic: str) -> Iterator[Record]:
    """Each line as one raw record whose Kafka timestamp is its own time; lines without one have the last."""
    headers: Any = (("host", path.stem.encode()), ("file", path.name.encode()))
    timestamp = 0
    for offset, line in enumerate(lines):
        told = time_of(line.decode(errors="replace"))
        if told >= 0:
            timestamp = told
        if line.strip():
            yield Record(topic, 0, offset, timestamp, None, line, headers)
