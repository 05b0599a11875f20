"""Reads recordings, log files, metrics pages and folders of them as one stream in order of time.

No file is held in memory: each is surveyed first, then all are merged by time. Log files without a time zone use the
zone that was inferred from other files. Log files without any time are placed at the end of related logs.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from detectors.events.event import Record
from detectors.events.reader import Reader
from streaming.errors import RecordingError
from streaming.recordings.input_file import Arrival, InputFile
from streaming.recordings.log_file import opened, survey, unpacked
from streaming.recordings.log_lines import LineRun, LogFile
from streaming.recordings.log_section import Zone, records, utc
from streaming.recordings.recorded_arrivals import clocked, relevant, times_of
from streaming.recordings.recording import is_page, is_recording, page_of

_SKIPPED = {".jar", ".class", ".hprof", ".sst", ".png", ".zip", ".tar", ".tgz", ".yaml", ".yml", ".xml", ".properties"}


class Stream(NamedTuple):
    """Arrivals in order of their clock, none before `begin`. The file is opened when the first is requested."""

    begin: int
    open: Callable[[], Iterator[Arrival]]


class RecordSource(NamedTuple):
    """Records that are not in a file, in order of their timestamps, with the first and last time (epoch ms) of them.

    `name` is what messages call it.
    """

    name: str
    first: int
    last: int
    open: Callable[[], Iterator[Record]]


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
        say: Callable[[float, str], None] = lambda _share, _detail: None,
    ) -> None:
        """`say` is called with the share of the files that has been surveyed and the next one."""
        self._reader = reader
        self._topics = topics
        self._config_topic = config_topic
        self._given = zone
        self.files: list[InputFile] = []
        self._source: RecordSource | None = None
        found = list(_walk(paths))
        sizes = [path.stat().st_size for path, _, _ in found]
        for number, (path, label, walked) in enumerate(found):
            say(sum(sizes[:number]) / max(sum(sizes), 1), path.name)
            self.files.append(self._input(path, label, walked))
        zones = Counter(zone for log in self._logs() for zone in log.zones)
        self.zone = zones.most_common(1)[0][0] if zones else None
        """The zone (ms east of UTC) that was inferred from most sections of the run."""

    def add(self, source: RecordSource) -> None:
        """Read these records too. They are listed as the last file."""
        self._source = source
        self.files.append(InputFile(Path(source.name), "server", first=source.first, last=source.last))

    def span(self) -> tuple[int, int] | None:
        """The first and the last time (epoch ms) in the files; None if no file has a time."""
        times = [
            utc(section, time, self.zone_in(log, section))
            for log in self._logs()
            for section in log.sections
            for time in (section.first, section.last)
            if time >= 0
        ]
        times += [time for one in self.files if one.log is None for time in (one.first, one.last)]
        known = [time for time in times if time >= 0]
        return (min(known), max(known)) if known else None

    @property
    def local(self) -> bool:
        """Whether some times are local times."""
        return any(log.local for log in self._logs())

    def share(self, clock: int) -> float:
        """The share of the time in the files that is before this time, as far as the files show it."""
        first = min((one.first for one in self.files if one.first >= 0), default=clock)
        last = max((one.last for one in self.files), default=clock)
        return min(max((clock - first) / (last - first), 0.0), 1.0) if last > first else 0.0

    def versions(self) -> dict[str, str]:
        """Flink's version of each cluster: the first that its log files print."""
        first: dict[str, tuple[int, str]] = {}
        for log in self._logs():
            for cluster, time, version in log.versions:
                if cluster not in first or time < first[cluster][0]:
                    first[cluster] = time, version
        return {cluster: version for cluster, (_, version) in first.items()}

    def arrivals(self, *, every: bool = False) -> Iterator[Arrival]:
        """The records that may matter, or every record, in order of the stream's clock, which never goes back."""
        with ExitStack() as stack:
            streams = [s for i, one in enumerate(self.files) for s in self._streams(i, one, stack, every)]
            clock = 0
            for arrival in merged(streams):
                clock = max(clock, arrival.clock)
                yield arrival if arrival.clock == clock else arrival._replace(clock=clock)

    def _input(self, path: Path, label: str, walked: bool) -> InputFile:
        if is_recording(path):
            return InputFile(path, "recording", walked, None, *times_of(path, self._config_topic))
        if is_page(path):
            return InputFile(path, "page", walked)
        log = survey(path, label, self._reader)
        times = [time for section in log.sections for time in (section.first, section.last) if time >= 0]
        return InputFile(path, "log", walked, log, min(times, default=-1), max(times, default=-1))

    def _logs(self) -> list[LogFile]:
        return [one.log for one in self.files if one.log is not None]

    def _streams(self, number: int, one: InputFile, stack: ExitStack, every: bool) -> Iterator[Stream]:
        if one.log is not None:
            sections = one.log.sections
            path = stack.enter_context(unpacked(one.path)) if len(sections) > 1 else one.path
            for section in sections:
                zone = self.zone_in(one.log, section)
                dated = section.first >= 0
                begin = utc(section, section.first, zone) if dated else self._undated(one.log, section)
                yield Stream(max(begin, 0), partial(_of_section, number, one.log, section, path, zone, begin, every))
        elif one.kind == "server" and self._source is not None:
            found = self._source.open
            yield Stream(one.first, lambda: (Arrival(r.timestamp, number, r) for r in found()))
        elif one.kind == "page":
            page = page_of(one.path, self._topics[1])
            yield Stream(page.timestamp, lambda: iter([Arrival(page.timestamp, number, page)]))
        else:
            yield Stream(0, partial(self._of_recording, number, one, every))

    def _of_recording(self, number: int, one: InputFile, every: bool) -> Iterator[Arrival]:
        found = clocked(one, self._reader, self._config_topic)
        if every:
            return (Arrival(clock, number, record) for clock, record in found)
        return relevant(one, number, found, frozenset({self._topics[1], self._config_topic}))

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


def _of_section(
    number: int, log: LogFile, section: LineRun, path: Path, zone: Zone, undated: int, every: bool
) -> Iterator[Arrival]:
    with opened(path) as file:
        for time, record in records(log, section, file, zone, undated, every=every):
            yield Arrival(time, number, record)


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
