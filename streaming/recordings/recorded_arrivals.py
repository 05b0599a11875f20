"""The records of a recording as arrivals: with the stream's clock, and only those that may matter."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from detectors.engine.engine import SECOND_MS
from detectors.engine.replay_clock import SLACK_MS, trusted_clock
from detectors.events.event import Event, Record, Rejected
from detectors.events.reader import Reader
from streaming.job.prefilter import may_matter
from streaming.recordings.input_file import Arrival, InputFile
from streaming.recordings.recording import records_of, stamps_of

# Of so many records the relevant ones are found at once.
_FIRST_PIECE, _PIECE, _PIECE_BYTES = 20, 1_000, 4_000_000


def times_of(recording: Path, config_topic: str) -> tuple[int, int, bool]:
    """The first and the greatest timestamp of a recording, -1 if it has none, and whether records are late."""
    first, high, late = -1, -1, False
    for topic, time in stamps_of(recording):
        if topic != config_topic:
            first, high = (time, time) if high < 0 else (first, max(high, time))
            late = late or high - time > SLACK_MS
    return first, high, late


def clocked(one: InputFile, reader: Reader, config_topic: str) -> Iterator[tuple[int, Record]]:
    """The records of a recording with the stream's clock at each of them.

    Only if records are late, their sources are needed to decide which clock to trust. Configuration records do not
    advance the clock; those before all others have the clock of the first other one.
    """
    clock, trusted = max(one.first, 0), None
    if one.late:
        others = (r for r in records_of(one.path) if r.topic != config_topic)
        clocks = trusted_clock([(source_of(r, reader.read(r)), r.timestamp) for r in others])
        clock, trusted = clocks[0], iter(clocks)
    for record in records_of(one.path):
        if record.topic != config_topic:
            clock = max(clock, record.timestamp) if trusted is None else next(trusted)
        yield clock, record


def source_of(record: Record, read: list[Event] | Rejected) -> str:
    """The source of a record, even if it has no event."""
    if isinstance(read, list) and read:
        return read[0].source
    return f"{record.topic}/{record.key!r}/{dict(record.headers).get('host', b'')!r}"


def relevant(
    one: InputFile, number: int, records: Iterator[tuple[int, Record]], others: frozenset[str]
) -> Iterator[Arrival]:
    """The records of a recording that may matter, and the clock at the last other one of each second.

    Records are all looked at until one shows that the recording is understood. Almost every page of metrics matters, so
    `others` than log records always do.
    """
    for piece in _pieces(records):
        wanted = _wanted([record for _, record in piece], others) if one.understood else None
        for place, (clock, record) in enumerate(piece):
            if wanted is None or wanted[place]:
                yield Arrival(clock, number, record)
                continue
            one.records += 1
            if place + 1 == len(piece) or piece[place + 1][0] // SECOND_MS != clock // SECOND_MS:
                yield Arrival(clock, number, None)


def _pieces(records: Iterator[tuple[int, Record]]) -> Iterator[list[tuple[int, Record]]]:
    """The records in pieces, a small one first."""
    piece: list[tuple[int, Record]] = []
    most, size = _FIRST_PIECE, 0
    for clock, record in records:
        piece.append((clock, record))
        size += len(record.value or b"")
        if len(piece) >= most or size >= _PIECE_BYTES:
            yield piece
            piece, most, size = [], _PIECE, 0
    yield piece


def _wanted(records: list[Record], others: frozenset[str]) -> list[bool]:
    """Which records may matter: log records by their content, and all of the other topics."""
    logs = [record.topic not in others for record in records]
    values = pa.array([record.value if log else None for record, log in zip(records, logs, strict=True)], pa.binary())
    found: list[bool] = may_matter(values, metrics=False).to_pylist()
    return found
