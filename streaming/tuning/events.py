"""Decodes recordings into events, in batches by the stream's clock that are larger than those of a replay.

A recording is decoded once for both configurations and never held in memory: another process decodes a large one
meanwhile. Every recording is a stream of its own; plain log files and metrics pages form one stream together.
"""

import multiprocessing
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.events.event import Event, Rejected
from detectors.events.reader import Reader
from streaming.configuration.settings import Settings
from streaming.errors import RecordingError
from streaming.gc_pause import gc_paused
from streaming.recordings.inputs import InputFiles
from streaming.recordings.read_report import failures, sentence
from streaming.recordings.recording import is_recording

_OWN_PROCESS_BYTES = 4_000_000
_MANY = 12
_BATCH_MS = 10_000
"""Ten triggers. The result does not depend on the batch size, and each step has a fixed cost."""


class Batch(NamedTuple):
    """The events of some seconds of the stream, and the stream's clock at their end (epoch ms)."""

    until: int
    events: list[Event]


Batches = list[Batch]
Stream = tuple[Path, ...]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batches | str).decode


def streams(files: Iterable[Path]) -> list[Stream]:
    """Which files belong together. Raises RecordingError."""
    recordings: list[Path] = []
    plain: list[Path] = []
    for file in files:
        (recordings if is_recording(file) else plain).append(file)
    return [*((file,) for file in recordings), *([tuple(plain)] if plain else [])]


def pieces(stream: Stream, settings: Settings) -> Iterator[Batches]:
    """The batches of a stream, a couple of minutes' at a time. Raises RecordingError."""
    if sum(file.stat().st_size for file in stream) < _OWN_PROCESS_BYTES:
        yield from _pieces(stream, settings)
        return
    with _decoded_elsewhere(stream, settings) as sent:
        while data := sent.recv_bytes():
            with gc_paused():
                found = _decode(data)
            if isinstance(found, str):
                raise RecordingError(found)
            yield found


@contextmanager
def _decoded_elsewhere(stream: Stream, settings: Settings) -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(send, stream, settings), daemon=True)
    process.start()
    send.close()
    try:
        yield receive
    except EOFError:
        raise RecordingError(f"{stream[0]}: the process that reads it has ended early") from None
    finally:
        process.terminate()
        process.join()
        receive.close()


def _send(to: Connection, stream: Stream, settings: Settings) -> None:
    try:
        with gc_paused():
            for batches in _pieces(stream, settings):
                to.send_bytes(_encode(batches))
        to.send_bytes(b"")
    except RecordingError as error:
        to.send_bytes(_encode(str(error)))


def _pieces(stream: Stream, settings: Settings) -> Iterator[Batches]:
    kafka = settings.kafka
    reader = Reader(settings.identity, frozenset(kafka.metrics))
    # The settings are given, so configuration records in the recording are ignored.
    own = {kafka.topics.config, kafka.topics.heartbeat}
    inputs = InputFiles(stream, reader, kafka.for_files)
    if unread := failures([one for one in inputs.files if one.log is not None]):
        raise RecordingError("\n".join(map(sentence, unread)))
    piece: Batches = []
    events: list[Event] = []
    limit = last = 0
    for clock, _, record in inputs.arrivals():
        if not limit:
            limit = clock + _BATCH_MS
        if clock >= limit:
            piece.append(Batch(last, events))
            events, limit = [], clock + _BATCH_MS
            if len(piece) >= _MANY:
                yield piece
                piece = []
        last = clock
        found = reader.read(record) if record is not None and record.topic not in own else []
        if not isinstance(found, Rejected):
            events += found
    if limit:
        yield [*piece, Batch(last, events)]
