"""Reads recordings, log files, metrics pages and folders of them as one stream in order of time.

No file is held in memory: each is surveyed first, then all are merged by time. Log files without a time zone use the
zone that was inferred from other files. Log files without any time are placed at the end of related logs.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import msgspec

from detectors.engine.replay_clock import SLACK_MS, trusted_clock
from detectors.events.event import Event, Record, Rejected
from detectors.events.layouts.wrappers import head
from detectors.events.reader import Reader
from streaming.errors import RecordingError
from streaming.recordings.log_file import LineRun, LogFile, Zone, opened, records, survey, unpacked, utc
from streaming.recordings.recording import is_page, is_recording, page_of, records_of, stamps_of

_SKIPPED = {".jar", ".class", ".hprof", ".sst", ".png", ".zip", ".tar", ".tgz", ".yaml", ".yml", ".xml", ".properties"}


class Arrival(NamedTuple):
    """A record, the stream's clock when it arrives, and the number of its file."""

    clock: int
    file: int
    record: Record


class Stream(NamedTuple):
    """Arrivals in order of their clock, none before `begin`. The file is opened when the first is requested."""

    begin: int
    open: Callable[[], Iterator[Arrival]]


class InputFile(msgspec.Struct):
    """One file and what was read of it so far; `kind` is recording, log or page.

    `walked` is true if the file was found in a folder, not given by name.
    """

    path: Path
    kind: str
    walked: bool = False
    log: LogFile | None = None
    records: int = 0
    understood: int = 0
    events: int = 0
    rejected: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def problem(self) -> str:
        """Why the file cannot be read; empty if it can."""
        if self.log is not None:
            return self.log.problem
        return "" if self.records else "empty"

    def take(self, record: Record, found: list[Event] | Rejected) -> None:
        self.records += 1
        if isinstance(found, Rejected):
            self.rejected[found.reason] += 1
            return
        self.events += len(found)
        # The lines of a recording are checked only until an event shows that they are understood.
        if self.log is None and (found or not self.understood):
            self.understood += bool(found) or _in_layout(record)


class InputFiles:
    """The files of a run. Raises RecordingError for a file that cannot be read.

    `topics` are the topics of logs and metrics, `zone` is the zone of `--time-zone`.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        reader: Reader,
        topics: tuple[str, str],
        *,
        config_topic: str = "",
        zone: Zone | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._reader = reader
        self._topics = topics
        self._config_topic = config_topic
        self._given = zone
        self.files: list[InputFile] = []
        found = list(_walk(paths))
        for path, label, walked in found:
            say(f"looking at {path}")
            self.files.append(self._input(path, label, walked))
        zones = Counter(zone for log in self._logs() for zone in log.zones)
        self.zone = zones.most_common(1)[0][0] if zones else None
        """The zone (ms east of UTC) that was inferred from most sections of the run."""

    @property
    def local(self) -> bool:
        """Whether some times are local times."""
        return any(log.local for log in self._logs())

    def versions(self) -> dict[str, str]:
        """Flink's version of each cluster: the first that its log files print."""
        first: dict[str, tuple[int, str]] = {}
        for log in self._logs():
            for cluster, time, version in log.versions:
                if cluster not in first or time < first[cluster][0]:
                    first[cluster] = time, version
        return {cluster: version for cluster, (_, version) in first.items()}

    def arrivals(self) -> Iterator[Arrival]:
        """All records in order of the stream's clock, which never goes back."""
        with ExitStack() as stack:
            streams = [s for i, one in enumerate(self.files) for s in self._streams(i, one, stack)]
            clock = 0
            for arrival in merged(streams):
                clock = max(clock, arrival.clock)
                yield arrival if arrival.clock == clock else arrival._replace(clock=clock)

    def _input(self, path: Path, label: str, walked: bool) -> InputFile:
        if is_recording(path):
            return InputFile(path, "recording", walked)
        if is_page(path):
            return InputFile(path, "page", walked)
        return InputFile(path, "log", walked, survey(path, label, self._reader))

    def _logs(self) -> list[LogFile]:
        return [one.log for one in self.files if one.log is not None]

    def _streams(self, number: int, one: InputFile, stack: ExitStack) -> Iterator[Stream]:
        if one.log is not None:
            sections = one.log.sections
            path = stack.enter_context(unpacked(one.path)) if len(sections) > 1 else one.path
            for section in sections:
                zone = self.zone_in(one.log, section)
                dated = section.first >= 0
                begin = utc(section, section.first, zone) if dated else self._undated(one.log, section)
                yield Stream(max(begin, 0), partial(_of_section, number, one.log, section, path, zone, begin))
        elif one.kind == "page":
            page = page_of(one.path, self._topics[1])
            yield Stream(page.timestamp, lambda: iter([Arrival(page.timestamp, number, page)]))
        else:
            clocks = clocks_of(one.path, self._reader, self._config_topic)
            pairs = zip(clocks, records_of(one.path), strict=True)
            yield Stream(0, lambda: (Arrival(clock, number, record) for clock, record in pairs))

    def zone_in(self, log: LogFile, section: LineRun) -> Zone:
        """The zone of a section: `--time-zone`, else its own, else that of its file, else that of the run, else UTC."""
        if self._given is not None:
            return self._given
        own = [section.zone, *log.zones, self.zone, 0]
        offset = next(z for z in own if z is not None)
        return lambda _: offset

    def _undated(self, log: LogFile, section: LineRun) -> int:
        """The time of lines without any time: the file's modification time if it lies within the times of the run,
        else the end of the same process's log, else the end of all logs.
        """
        written = int(log.path.stat().st_mtime * 1000)
        dated = [(other, one, self.zone_in(other, one)) for other in self._logs() for one in other.sections]
        begins = [utc(one, one.first, zone) for _, one, zone in dated if one.last >= 0]
        ends = [
            (utc(one, one.last, zone), (other.host, one.part.container)) for other, one, zone in dated if one.last >= 0
        ]
        if not ends or (not section.part.container and min(begins) <= written <= max(ends)[0]):
            return written
        near = [end for end in ends if end[1] == (log.host, section.part.container)]
        return max(near or ends)[0]


def merged(streams: Iterable[Stream]) -> Iterator[Arrival]:
    """The arrivals of all streams in order of their clock. A stream is opened only when it begins."""
    waiting = sorted(streams, key=lambda s: s.begin)[::-1]
    heads: list[tuple[int, int, Arrival, Iterator[Arrival]]] = []
    opened_so_far = 0
    while waiting or heads:
        while waiting and (not heads or waiting[-1].begin <= heads[0][0]):
            stream = waiting.pop().open()
            opened_so_far += 1
            if (first := next(stream, None)) is not None:
                heapq.heappush(heads, (first.clock, opened_so_far, first, stream))
        if heads:
            _, number, arrival, stream = heads[0]
            yield arrival
            if (following := next(stream, None)) is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.clock, number, following, stream))


def _of_section(number: int, log: LogFile, section: LineRun, path: Path, zone: Zone, undated: int) -> Iterator[Arrival]:
    with opened(path) as file:
        for record in records(log, section, file, zone, undated):
            yield Arrival(record.timestamp, number, record)


def clocks_of(file: Path, reader: Reader, config_topic: str = "") -> Iterable[int]:
    """The stream's clock at each record of a recording.

    Only if records are late, their sources are needed to decide which clock to trust. Configuration records do not
    advance the clock.
    """
    stamps = list(stamps_of(file))
    moving = [time for topic, time in stamps if topic != config_topic]
    highest = list(accumulate(moving, max))
    if any(high - time > SLACK_MS for high, time in zip(highest, moving, strict=True)):
        others = (r for r in records_of(file) if r.topic != config_topic)
        highest = trusted_clock([(source_of(r, reader.read(r)), r.timestamp) for r in others])
    if len(moving) == len(stamps):
        return highest
    return _with_changes([topic == config_topic for topic, _ in stamps], highest)


def source_of(record: Record, read: list[Event] | Rejected) -> str:
    """The source of a record, even if it has no event."""
    if isinstance(read, list) and read:
        return read[0].source
    return f"{record.topic}/{record.key!r}/{dict(record.headers).get('host', b'')!r}"


def _with_changes(changes: Sequence[bool], clocks: Sequence[int]) -> Iterator[int]:
    clock, others = (clocks[0] if clocks else 0), iter(clocks)
    for change in changes:
        clock = clock if change else next(others)
        yield clock


def _in_layout(record: Record) -> bool:
    lines = (record.value or b"").decode(errors="replace").splitlines()
    return any(head(line) is not None for line in lines)


def _walk(paths: Iterable[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Each file, its label, and whether it was found in a folder."""
    named: list[tuple[Path, str, bool]] = []
    for path in paths:
        if path.is_dir():
            if (recorded := _of_scenario(path)) is not None:
                named.append((recorded, path.name, False))
                continue
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path)))
            readable = [p for p in inside if p.suffix not in _SKIPPED]
            if not readable:
                raise RecordingError(f"{path}: the folder contains no log files")
            named += [(p, p.relative_to(path).as_posix(), True) for p in readable]
        else:
            named.append((path, path.name, False))
    many = Counter(label for _, label, _ in named)
    for path, label, walked in named:
        yield path, label if many[label] == 1 else path.as_posix(), walked


def _of_scenario(folder: Path) -> Path | None:
    """The records of a scenario's folder, whose other files are about them (tests/README.md); None: it is none."""
    return next((p for p in sorted(folder.glob("input.jsonl*")) if p.is_file()), None)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
