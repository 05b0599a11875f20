"""Recordings: Kafka records in a file, one JSON object a line, plain or gzip.

Keys, values and headers are text; what is not UTF-8 stands as base64 in `key_b64`, `value_b64`, `headers_b64`. A file
is read line by line: a day of a large cluster does not fit into memory. A plain Flink log file and a page of Prometheus
text are read as records, too.
"""

import base64
import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from detectors.events.event import Record
from detectors.events.reader import time_of
from streaming.errors import RecordingError

_GZIP = b"\x1f\x8b"
_Headers = list[tuple[str, str | None]]


class _Line(msgspec.Struct, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None = None
    headers: _Headers = []
    value: str | None = None
    key_b64: str | None = None
    headers_b64: _Headers = []
    value_b64: str | None = None


class _Stamp(msgspec.Struct):
    timestamp: int


_decode = msgspec.json.Decoder(_Line).decode
_decode_stamp = msgspec.json.Decoder(_Stamp).decode
_encode = msgspec.json.Encoder().encode


def is_recording(path: Path) -> bool:
    """Whether the file holds recorded Kafka records, and not a log file or a page. Raises RecordingError."""
    return _is_record(next((line for line in _lines(path) if line.strip()), b""))


def records_of(path: Path, logs_topic: str, metrics_topic: str) -> Iterator[Record]:
    """The records of a file as they stand in it, without holding them. Raises RecordingError."""
    lines = _lines(path)
    head: list[bytes] = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    first = head[-1] if head else b""
    lines = chain(head, lines)
    if _is_record(first):
        yield from (_record(path, number, line) for number, line in enumerate(lines, 1) if line.strip())
    elif first.startswith(b"#") or b"flink_" in first.split(b"{")[0]:
        page, host = b"\n".join(lines), path.stem.encode()
        yield Record(metrics_topic, 0, 0, int(path.stat().st_mtime * 1000), None, page, (("host", host),))
    else:
        yield from _plain_log(path, lines, logs_topic)


def timestamps_of(path: Path) -> Iterator[int]:
    """The Kafka timestamps of a recording, several times faster than its records. Raises RecordingError."""
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            try:
                yield _decode_stamp(line).timestamp
            except msgspec.MsgspecError as error:
                raise _no_record(path, number, error) from error


def line_of(record: Record) -> bytes:
    """A record as one line of a recording."""
    headers, headers_b64 = _headers(record.headers)
    key, key_b64 = _either(record.key)
    value, value_b64 = _either(record.value)
    where = (record.topic, record.partition, record.offset, record.timestamp)
    return _encode(_Line(*where, key, headers, value, key_b64, headers_b64, value_b64)) + b"\n"


def _either(data: bytes | None) -> tuple[str | None, str | None]:
    """As text, or as base64."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, base64.b64encode(data).decode()


def _headers(headers: Iterable[tuple[str, bytes | None]]) -> tuple[_Headers, _Headers]:
    """All as text, or all as base64, so that they keep their order."""
    try:
        return [(k, v if v is None else v.decode()) for k, v in headers], []
    except UnicodeDecodeError:
        return [], [(k, v if v is None else base64.b64encode(v).decode()) for k, v in headers]


def _is_record(line: bytes) -> bool:
    return line.startswith(b"{") and b'"topic"' in line


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        with cast("IO[bytes]", gzip.open(path) if packed else path.open("rb")) as lines:
            for line in lines:
                yield line.rstrip(b"\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise RecordingError(f"{path}: {error}") from error


def _record(path: Path, number: int, line: bytes) -> Record:
    try:
        found = _decode(line)
        return Record(
            found.topic,
            found.partition,
            found.offset,
            found.timestamp,
            _bytes(found.key, found.key_b64),
            _bytes(found.value, found.value_b64),
            tuple((k, _bytes(None, v) or b"") for k, v in found.headers_b64)
            or tuple((k, (v or "").encode()) for k, v in found.headers),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise _no_record(path, number, error) from error


def _bytes(text: str | None, packed: str | None) -> bytes | None:
    if packed is not None:
        return base64.b64decode(packed)
    return None if text is None else text.encode()


def _no_record(path: Path, number: int, error: Exception) -> RecordingError:
    return RecordingError(f"{path}:{number}: not a recorded Kafka record: {error}")


def _plain_log(path: Path, lines: Iterable[bytes], topic: str) -> Iterator[Record]:
    """Each line as one raw record whose Kafka timestamp is its own time; lines without one have the last."""
    headers: Any = (("host", path.stem.encode()), ("file", path.name.encode()))
    timestamp = 0
    for offset, line in enumerate(lines):
        told = time_of(line.decode(errors="replace"))
        if told >= 0:
            timestamp = told
        if line.strip():
            yield Record(topic, 0, offset, timestamp, None, line, headers)
