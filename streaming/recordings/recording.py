"""Recordings: Kafka records in a file, one JSON object per line, plain or gzip.

Keys, values and headers are text, or base64 in `key_b64`, `value_b64`, `headers_b64` if they are not UTF-8. A file is
read line by line, since a day of a large cluster does not fit into memory. A page of Prometheus text is one record;
`log_file.py` reads log files.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from detectors.events.event import Record
from streaming.errors import RecordingError
from streaming.recordings.log_file import opened


class _RecordLine(msgspec.Struct, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: str | None = None
    headers: list[tuple[str, str | None]] = []
    value: str | None = None
    # msgspec writes bytes as base64.
    key_b64: bytes | None = None
    headers_b64: list[tuple[str, bytes | None]] = []
    value_b64: bytes | None = None


class _Stamp(msgspec.Struct):
    topic: str
    timestamp: int


_decode = msgspec.json.Decoder(_RecordLine).decode
_decode_stamp = msgspec.json.Decoder(_Stamp).decode
_encode = msgspec.json.Encoder().encode


def is_recording(path: Path) -> bool:
    """Whether the file contains recorded Kafka records, not a log or a metrics page. Raises RecordingError."""
    return _is_record(next((line for line in _lines(path) if line.strip()), b""))


def is_page(path: Path) -> bool:
    """Whether the file is a page of Prometheus text. Raises RecordingError."""
    first = next((line for line in _lines(path) if line.strip()), b"")
    return first.startswith((b"# HELP", b"# TYPE")) or b"flink_" in first.split(b"{")[0].split(b" ")[0]


def page_of(path: Path, metrics_topic: str) -> Record:
    """A page of Prometheus text as a record, with the file's modification time. Raises RecordingError."""
    page, host = b"\n".join(_lines(path)), path.stem.encode()
    return Record(metrics_topic, 0, 0, int(path.stat().st_mtime * 1000), None, page, (("host", host),))


def records_of(path: Path) -> Iterator[Record]:
    """The records of a recording in their order in the file, one at a time. Raises RecordingError."""
    return (_record(path, number, line) for number, line in enumerate(_lines(path), 1) if line.strip())


def stamps_of(path: Path) -> Iterator[tuple[str, int]]:
    """Topics and Kafka timestamps of a recording, several times faster than its records. Raises RecordingError."""
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            try:
                stamp = _decode_stamp(line)
                yield stamp.topic, stamp.timestamp
            except msgspec.MsgspecError as error:
                raise _no_record(path, number, error) from error


def line_of(record: Record) -> bytes:
    """A record as one line of a recording."""
    line = _RecordLine(record.topic, record.partition, record.offset, record.timestamp)
    line.key, line.key_b64 = _either(record.key)
    line.value, line.value_b64 = _either(record.value)
    headers = [(name, *_either(value)) for name, value in record.headers]
    # All headers are text, or all base64, so that they keep their order.
    if all(packed is None for _, _, packed in headers):
        line.headers = [(name, text) for name, text, _ in headers]
    else:
        line.headers_b64 = list(record.headers)
    return _encode(line) + b"\n"


def _either(data: bytes | None) -> tuple[str | None, bytes | None]:
    """The data as text if it is UTF-8, else as bytes."""
    try:
        return None if data is None else data.decode(), None
    except UnicodeDecodeError:
        return None, data


def _is_record(line: bytes) -> bool:
    return line.startswith(b"{") and b'"topic"' in line


def _lines(path: Path) -> Iterator[bytes]:
    with opened(path) as lines:
        for line in lines:
            yield line.rstrip(b"\r\n")


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
            tuple((k, v or b"") for k, v in found.headers_b64)
            or tuple((k, (v or "").encode()) for k, v in found.headers),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise _no_record(path, number, error) from error


def _bytes(text: str | None, packed: bytes | None) -> bytes | None:
    return packed if text is None else text.encode()


def _no_record(path: Path, number: int, error: Exception) -> RecordingError:
    return RecordingError(f"{path}:{number}: not a recorded Kafka record: {error}")
