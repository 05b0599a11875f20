"""Reads a log file as records in order of time, without holding it in memory.

A file is read twice. The first pass finds its format, its time zone, the Flink versions in it, and its sections: a file
may contain several logs one after the other (`cat`, `kubectl logs -l …`, `yarn logs`), each of which starts where the
time goes back. The second pass returns the lines of one section. Both take a block of lines at a time if they can
(`line_blocks.py`), and otherwise each line by itself.
"""

import gzip
import re
import shutil
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, cast

import numpy as np
import zstandard

from detectors.events.event import LogEvent, Record
from detectors.events.layouts.wrappers import continues, guess, head, zone_of
from detectors.events.layouts.yarn_aggregate import NO_PART
from detectors.events.reader import Reader
from streaming.errors import RecordingError
from streaming.recordings.line_blocks import LineBlock, classify, read_blocks
from streaming.recordings.log_lines import MAX_LINE, LineRun, LogFile, LogLine, LogLines, where_of

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_SAMPLE = 2_000
_SAMPLE_BYTES = 1 << 20
_HEAD_BYTES = 8_192
_BACK_MS = 5_000
_MAX_SECTIONS = 500
_UNTIL_END = 1 << 62
_ZONE_OR_VERSION = (b"Triggering checkpoint ", b"(Version: ")
_ROTATED = re.compile(r"(\.(?:log|out|err))[.-][\d.-]*\d(?:\.gz|\.zst)?$|\.(?:gz|zst)$")
_FLINKS_NAME = re.compile(
    r"flink-.+?-(?:taskexecutor|taskmanager|standalone\w+|jobmanager|client|kubernetes-\w+)-\d+-(.+)"
)
_CONTAINERS_NAME = re.compile(r"([a-z0-9.-]+)_[a-z0-9.-]+_([a-z0-9.-]+)-[0-9a-f]{12,64}$")


def survey(path: Path, label: str, reader: Reader) -> LogFile:
    """Make the first pass over a file; `label` names it among others. Raises RecordingError."""
    found = LogFile(path, *_place(label))
    with opened(path) as file:
        found.problem = _problem(file.read(_HEAD_BYTES))
    if found.problem:
        return found
    with opened(path) as file:
        lines = (line.rstrip(b"\r\n") for line in islice(file, _SAMPLE))
        found.format, _ = guess(_some(line for line in lines if line.strip()))
    with opened(path) as file:
        _Survey(found, reader).run(file)
    if not found.lines:
        found.problem = "empty"
    return found


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the file and decompress it if it is gzip or zstd. Raises RecordingError.

    A compressed file is read forwards only.
    """
    try:
        start = _magic(path)
        with path.open("rb") as packed, ExitStack() as stack:
            if start == _ZSTD:
                plain = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
                yield stack.enter_context(BufferedReader(plain))
            elif start.startswith(_GZIP):
                yield stack.enter_context(cast("IO[bytes]", gzip.GzipFile(fileobj=packed)))
            else:
                yield packed
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise RecordingError(f"{path}: {error}") from error


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The file itself, or an uncompressed copy that allows seeking. Raises RecordingError."""
    if not is_packed(path):
        yield path
        return
    with NamedTemporaryFile(prefix="flinkwatch-") as copy:
        with opened(path) as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        yield Path(copy.name)


def is_packed(path: Path) -> bool:
    """Whether the file is compressed."""
    start = _magic(path)
    return start == _ZSTD or start.startswith(_GZIP)


def _magic(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


class _Survey:
    def __init__(self, log: LogFile, reader: Reader) -> None:
        self._log = log
        self._reader = reader
        self._last: dict[str, int] = {}

    def run(self, file: IO[bytes]) -> None:
        lines = LogLines(self._log.format, LineRun(0, 1, NO_PART))
        for data in read_blocks(file, _UNTIL_END):
            block = classify(data) if self._expects(lines) else None
            if block is not None and self._continues(block):
                self._take_block(data, block, lines)
            else:
                for line in lines.of(data):
                    self._take(line)
        self._log.tail = lines.tail
        if self._log.sections:
            self._log.sections[-1].end = self._log.tail.begin

    def _expects(self, lines: LogLines) -> bool:
        """Whether the lines that follow may be those of one process, with local times."""
        sections = self._log.sections
        return lines.plain and bool(sections) and sections[-1].first >= 0 and not sections[-1].utc

    def _continues(self, block: LineBlock) -> bool:
        """Whether a block belongs to the last section as a whole."""
        times = block.times[block.times >= 0]
        last = self._last.get("", self._log.sections[-1].last)
        return bool((times >= np.maximum.accumulate(np.append(last, times))[:-1] - _BACK_MS).all())

    def _take_block(self, data: bytes, block: LineBlock, lines: LogLines) -> None:
        log, section = self._log, self._log.sections[-1]
        log.lines += block.lines
        log.understood += block.understood
        log.local += int((block.times >= 0).sum())
        section.last = max(section.last, int(block.times.max()))
        self._last[""] = section.last
        for literal in _ZONE_OR_VERSION:
            at = data.find(literal)
            while at >= 0:
                place = bisect_right(block.begins, at) - 1
                self._learn(lines.line(data, block, place), section)
                at = data.find(literal, int(block.begins[place + 1]))
        lines.skip(data, block)

    def _take(self, line: LogLine) -> None:
        log, inner = self._log, line.inner
        log.lines += 1
        text = inner.text[:MAX_LINE].decode(errors="replace")
        found = head(text)
        log.understood += found is not None or continues(text)
        arrives = inner.arrival >= 0
        time = inner.arrival if arrives else -1 if found is None else found.time
        in_utc = arrives or (found is not None and found.zoned)
        sections = log.sections
        if sections and sections[-1].first >= 0 and sections[-1].utc != in_utc:
            # Local times and UTC times are not compared.
            time = -1
        section = self._section(line, time)
        if time >= 0:
            if section.first < 0:
                section.first, section.utc = time, in_utc
            section.last = max(section.last, time)
        if found is not None and found.time >= 0 and not found.zoned:
            log.local += 1
            if arrives and section.zone is None:
                section.zone = zone_of(found.time, inner.arrival)
        if any(literal in inner.text for literal in _ZONE_OR_VERSION):
            self._learn(line, section)

    def _section(self, line: LogLine, time: int) -> LineRun:
        """The section of a line. A new one starts at the next file of an aggregate, or where the time goes back."""
        sections = self._log.sections
        origin = line.inner.host
        if not sections or sections[-1].part != line.part or self._runs_back(origin, time, sections):
            if sections:
                sections[-1].end = line.begin
            sections.append(LineRun(line.begin, line.number, line.part))
            self._last = {}
        if time >= 0:
            self._last[origin] = max(time, self._last.get(origin, time))
        return sections[-1]

    def _runs_back(self, origin: str, time: int, sections: list[LineRun]) -> bool:
        # Hosts with different clocks may write to one file in turn, so each host is compared with itself only.
        before = self._last.get(origin, sections[-1].last)
        return 0 <= time < before - _BACK_MS and len(sections) < _MAX_SECTIONS

    def _learn(self, line: LogLine, section: LineRun) -> None:
        host, file = where_of(self._log, line)
        headers = (("host", host.encode()), ("file", file.encode()))
        read = self._reader.read(Record(str(self._log.path), 0, line.number, 0, None, line.value, headers))
        for event in read if isinstance(read, list) else ():
            if not isinstance(event, LogEvent):
                continue
            if event.event_type == "process_version":
                self._log.versions.append((event.cluster, event.local_time, event.fields["version"]))
            epoch = event.fields.get("epoch", "")
            if event.event_type == "checkpoint_triggered" and epoch and event.local_time >= 0 and not event.zoned:
                zone = zone_of(event.local_time, int(epoch))
                section.zone = section.zone if zone is None else zone


def _place(label: str) -> tuple[str, str]:
    """The host in the name of a file, else the name itself; and the file's name without the suffix of a rotation."""
    name = _ROTATED.sub(lambda found: found[1] or "", label)
    stem = name.removesuffix(".log").removesuffix(".out").removesuffix(".err")
    base = stem.rpartition("/")[2]
    if (found := _CONTAINERS_NAME.fullmatch(base)) is not None:
        return found[1], found[2]
    if (found := _FLINKS_NAME.fullmatch(base)) is not None:
        return found[1], name
    return stem, name


def _problem(start: bytes) -> str:
    if not start.strip():
        return "empty"
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16 text; convert it first (iconv -f UTF-16 -t UTF-8)"
    if start[:4] == b"PK\x03\x04" or start[257:262] == b"ustar":
        return "an archive; unpack it first"
    return "not text, since it contains NUL bytes" if b"\0" in start else ""


def _some(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The first lines, as many as are needed to guess the format."""
    size = 0
    for line in lines:
        yield line[:MAX_LINE]
        size += len(line)
        if size > _SAMPLE_BYTES:
            return
