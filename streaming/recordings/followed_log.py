"""The lines that are written to a log while it is followed, as records that arrive now."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.events.event import Record
from detectors.events.layouts.wrappers import continues, guess, head
from detectors.events.layouts.yarn_aggregate import NO_PART
from streaming.recordings.log_lines import MAX_LINE, LineRun, LogFile, LogLine, LogLines, where_of

_PIECE = 1 << 20


class NewBytes(NamedTuple):
    """What was written since the last read; `restarted`: it is the beginning of another file under the same name."""

    data: bytes
    restarted: bool = False


class FileTail:
    """Reads a file as `tail -F`: beyond its end, and from the beginning if it was rotated or truncated.

    A file that was rotated away is read to its end first. A file that is missing or cannot be read is tried again.
    """

    def __init__(self, path: Path, begin: int) -> None:
        self._path = path
        self._file = path.open("rb")
        self._file.seek(begin)

    def read(self) -> Iterator[NewBytes]:
        """The new bytes in pieces."""
        replaced = self._replaced()
        yield from self._to_end()
        if replaced:
            try:
                new = self._path.open("rb")
            except OSError:
                return
            self._file.close()
            self._file = new
            yield NewBytes(b"", restarted=True)
            yield from self._to_end()

    def close(self) -> None:
        self._file.close()

    def _to_end(self) -> Iterator[NewBytes]:
        while data := self._file.read(_PIECE):
            yield NewBytes(data)

    def _replaced(self) -> bool:
        """Whether another file has the name, or the file is shorter than what was read of it."""
        try:
            named, own = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (named.st_dev, named.st_ino) != (own.st_dev, own.st_ino) or own.st_size < self._file.tell()


class FollowedLog:
    """A log and the lines that are written to it after its survey; `read` gives the new bytes.

    A line is read when it is complete. The time at which it arrives is given, as a shipper's would be.
    """

    def __init__(self, log: LogFile, read: Callable[[], Iterator[NewBytes]]) -> None:
        self._log = log
        self._read = read
        self._rest = _last_line(log)
        begin = msgspec.structs.replace(log.tail, begin=log.tail.begin - len(self._rest))
        begin.line -= bool(self._rest)
        self._lines = LogLines(log.format, begin)

    def records(self, now: int) -> Iterator[Record]:
        """The new lines as records that arrive at `now`, epoch ms."""
        for new in self._read():
            if new.restarted:
                self._rest, self._lines = b"", LogLines(self._log.format, LineRun(0, 1, NO_PART))
            complete, _, self._rest = (self._rest + new.data).rpartition(b"\n")
            if len(self._rest) > MAX_LINE:
                complete, self._rest = self._rest, b""
            if complete:
                yield from (self._record(line, now) for line in self._of(complete + b"\n"))

    def _of(self, data: bytes) -> Iterator[LogLine]:
        if not self._log.lines:
            # The file was empty until now.
            self._log.problem = ""
            self._log.format, _ = guess(line for line in data.splitlines()[:100] if line.strip())
            self._lines = LogLines(self._log.format, self._lines.tail)
        return self._lines.of(data)

    def _record(self, line: LogLine, now: int) -> Record:
        text = line.inner.text[:MAX_LINE].decode(errors="replace")
        self._log.lines += 1
        self._log.understood += head(text) is not None or continues(text)
        host, file = where_of(self._log, line)
        headers = (("host", host.encode()), ("file", file.encode()))
        return Record(str(self._log.path), 0, line.number, now, None, line.value, headers)


def _last_line(log: LogFile) -> bytes:
    """The last line of what was surveyed, if it is not complete yet."""
    end = log.tail.begin
    with log.path.open("rb") as file:
        begin = max(end - MAX_LINE, 0)
        file.seek(begin)
        return file.read(end - begin).rpartition(b"\n")[2]
