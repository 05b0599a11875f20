"""The lines of a log file, with the place of each: its byte, its number, and its file in an aggregate."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.events.layouts.wrappers import PLAIN, UnwrappedLine, WrapperFormat
from detectors.events.layouts.yarn_aggregate import NO_PART, AggregateFile, part_of
from streaming.recordings.line_blocks import LineBlock

MAX_LINE = 512 * 1024


class LineRun(msgspec.Struct):
    """A section: lines in order of time, from byte `begin` to byte `end`, starting at line number `line`.

    `first` and `last` are times as printed (ms, -1 if none), in UTC if `utc`. `zone` is inferred from the lines.
    """

    begin: int
    line: int
    part: AggregateFile
    end: int = 0
    first: int = -1
    last: int = -1
    zone: int | None = None
    utc: bool = False


class LogFile(msgspec.Struct):
    """The result of the first pass.

    `understood` counts lines in a known layout and their stack traces, `local` the lines whose time has no zone.
    `problem` says why the file is not readable text. `versions` are Flink's, as (cluster, time, version).
    Lines that are written later begin at `tail`.
    """

    path: Path
    host: str
    file: str
    format: WrapperFormat = PLAIN
    problem: str = ""
    lines: int = 0
    understood: int = 0
    local: int = 0
    sections: list[LineRun] = []
    versions: list[tuple[str, int, str]] = []
    tail: LineRun = msgspec.field(default_factory=lambda: LineRun(0, 1, NO_PART))

    @property
    def zones(self) -> list[int]:
        """The zones that were inferred from its sections."""
        return [s.zone for s in self.sections if s.zone is not None]


class LogLine(NamedTuple):
    number: int
    begin: int
    inner: UnwrappedLine
    part: AggregateFile
    value: bytes


def where_of(log: LogFile, line: LogLine) -> tuple[str, str]:
    part, inner = line.part, line.inner
    if part.container:
        return part.host or log.host, f"{part.container}/{part.file}"
    return (inner.host, inner.container or log.file) if inner.host else (log.host, log.file)


class LogLines:
    """Splits a log into lines, without blank ones and those between the files of an aggregate; keeps its place."""

    def __init__(self, kind: WrapperFormat, section: LineRun) -> None:
        self._kind = kind
        self._position, self._number, self._part = section.begin, section.line - 1, section.part
        self._cut: list[bytes] = []

    @property
    def plain(self) -> bool:
        """Whether the lines have no wrapping and are not those of an aggregate."""
        return self._kind is PLAIN and not self._part.container

    @property
    def tail(self) -> LineRun:
        """What follows the lines so far."""
        return LineRun(self._position, self._number + 1, self._part)

    def of(self, data: bytes) -> Iterator[LogLine]:
        """The lines of the next bytes."""
        for raw in BytesIO(data):
            begin, self._position, self._number = self._position, self._position + len(raw), self._number + 1
            line = raw.rstrip(b"\r\n")
            if not line or line.isspace():
                continue
            between = part_of(line, self._part) if self._kind is PLAIN else None
            if between is not None:
                self._part = between
                continue
            inner = self._kind.unwrap(line) or UnwrappedLine(line)
            if inner.partial and sum(map(len, self._cut)) < MAX_LINE:
                self._cut.append(inner.text)
                continue
            if self._cut:
                inner = inner._replace(text=b"".join([*self._cut, inner.text]))
                self._cut = []
            if inner.text.strip():
                value = inner.text if inner.value is None else inner.value
                yield LogLine(self._number, begin, inner, self._part, value)

    def line(self, data: bytes, block: LineBlock, place: int) -> LogLine:
        """One line of the next block."""
        begin = int(block.begins[place])
        text = data[begin : block.begins[place + 1]].rstrip(b"\r\n")
        return LogLine(self._number + 1 + int(place), self._position + begin, UnwrappedLine(text), self._part, text)

    def skip(self, data: bytes, block: LineBlock) -> None:
        """Go on after a block."""
        self._position += len(data)
        self._number += len(block.times)
