"""The second pass over a section of a log file: its lines as records in order of time."""

from collections.abc import Callable, Iterator
from typing import IO

import numpy as np

from detectors.events.event import Record
from detectors.events.layouts.wrappers import UnwrappedLine, head
from streaming.recordings.line_blocks import LineBlock, classify, read_blocks
from streaming.recordings.log_lines import MAX_LINE, LineRun, LogFile, LogLine, LogLines, where_of

_DAY_MS = 86_400_000

Zone = Callable[[int], int]
"""Maps a local time (ms, read as UTC) to its offset from UTC (ms)."""


def records(
    log: LogFile, section: LineRun, file: IO[bytes], zone: Zone, undated: int = 0, *, every: bool = True
) -> Iterator[tuple[int, Record | None]]:
    """The lines of a section as records in order of time. Lines before the first time get that time, or `undated`.

    Unless `every` record is wanted, only those of lines that may matter; None for the last other one of a second.
    """
    yield from _SectionReader(log, section, zone, undated, every).run(file)


def utc(section: LineRun, time: int, zone: Zone) -> int:
    return time if section.utc else time - zone(time)


class _SectionReader:
    """The second pass over a section: the time of each line, which never goes back, and where it comes from."""

    def __init__(self, log: LogFile, section: LineRun, zone: Zone, undated: int, every: bool) -> None:
        self._log = log
        self._section = section
        self._zone = zone
        self._every = every
        self._time = undated if section.first < 0 else utc(section, section.first, zone)
        self._topic = str(log.path)
        self._headers: dict[tuple[str, str], tuple[tuple[str, bytes], ...]] = {}

    def run(self, file: IO[bytes]) -> Iterator[tuple[int, Record | None]]:
        section = self._section
        lines = LogLines(self._log.format, section)
        if file.seekable():
            file.seek(section.begin)
        else:
            file.read(section.begin)
        for data in read_blocks(file, section.end - section.begin):
            block = classify(data) if lines.plain and not self._every else None
            offset = self._offset(block) if block is not None else None
            if block is not None and offset is not None:
                yield from self._of_block(data, block, lines, offset)
            else:
                yield from map(self._of_line, lines.of(data))

    def _of_line(self, line: LogLine) -> tuple[int, Record | None]:
        printed, zoned = _time_of(line.inner)
        if printed >= 0:
            self._time = max(self._time, printed if zoned else printed - self._zone(printed))
        return self._record(line)

    def _record(self, line: LogLine) -> tuple[int, Record]:
        time, place = max(self._time, 0), where_of(self._log, line)
        known = self._headers.get(place)
        if known is None:
            known = self._headers[place] = (("host", place[0].encode()), ("file", place[1].encode()))
        return time, Record(self._topic, 0, line.number, time, None, line.value, known)

    def _offset(self, block: LineBlock) -> int | None:
        """The offset from UTC of all times of a block; None if it may change in between."""
        first, last = (int(times) for times in (block.times[block.times >= 0].min(), block.times.max()))
        offset = self._zone(first)
        return offset if last - first < _DAY_MS and self._zone(last) == offset else None

    def _of_block(
        self, data: bytes, block: LineBlock, lines: LogLines, offset: int
    ) -> Iterator[tuple[int, Record | None]]:
        times = np.where(block.times >= 0, block.times - offset, self._time)
        times = np.maximum.accumulate(np.append(self._time, times))[1:]
        matter = block.may_matter()
        for place in block.to_read(matter):
            self._time = int(times[place])
            if not matter[place]:
                yield max(self._time, 0), None
            elif (line := lines.line(data, block, place)).value:
                yield self._record(line)
        lines.skip(data, block)


def _time_of(inner: UnwrappedLine) -> tuple[int, bool]:
    if inner.arrival >= 0:
        return inner.arrival, True
    found = head(inner.text[:MAX_LINE].decode(errors="replace"))
    return (-1, False) if found is None else found
