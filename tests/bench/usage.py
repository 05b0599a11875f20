"""CPU time and memory of a tree of processes over time, from /proc."""

import itertools
import os
import re
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_S = 0.1
# Adding up a process's pages takes milliseconds.
_PSS_EVERY = 10


class Sample(NamedTuple):
    """Wall time (epoch s), and CPU seconds used so far by all processes ever seen."""

    at: float
    cpu_s: float


class Process(NamedTuple):
    """One process at one moment; `cpu_s` since its beginning, `rss` in bytes."""

    pid: int
    parent: int
    name: str
    cpu_s: float
    rss: int


class Usage:
    """Watches the process `root` and all its descendants, without the trees of `without`, inside a `with` block.

    Resident memory is summed over the processes, so a page that several of them share counts more than once; `peak_pss`
    counts it once.
    """

    def __init__(self, root: int, without: tuple[int, ...] = ()) -> None:
        self._root = root
        self._without = without
        self._cpu: dict[int, float] = {}
        self._samples: list[Sample] = []
        self._peak: list[tuple[str, int]] = []
        self._peak_pss = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def __enter__(self) -> Self:
        self._take()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._take()

    def cpu_s(self, begin: float, end: float) -> float:
        """CPU seconds used between two wall times (epoch s)."""
        return self._at(end) - self._at(begin)

    def peak_rss(self) -> int:
        """Greatest sum of resident memory, bytes."""
        return sum(size for _, size in self._peak)

    def peak_pss(self) -> int:
        """Greatest sum of resident memory of samples a second apart, each shared page counted once, bytes."""
        return self._peak_pss

    def peak(self) -> list[tuple[str, int]]:
        """(program, resident bytes) of each process at that moment, greatest first."""
        return sorted(self._peak, key=lambda entry: -entry[1])

    def _at(self, moment: float) -> float:
        return self._samples[min(bisect_left(self._samples, moment, key=lambda s: s.at), len(self._samples) - 1)].cpu_s

    def _run(self) -> None:
        for number in itertools.count(1):
            if self._ended.wait(_EVERY_S):
                return
            taken = self._take()
            if number % _PSS_EVERY == 0:
                self._peak_pss = max(self._peak_pss, sum(_pss(p.pid) for p in taken))

    def _take(self) -> list[Process]:
        taken = tree(self._root, self._without)
        self._cpu |= {p.pid: p.cpu_s for p in taken}
        self._samples.append(Sample(time.time(), sum(self._cpu.values())))
        # A child that shares its parent's memory, until it becomes another program, is not counted again.
        resident = {p.pid: p.rss for p in taken}
        alone = [p for p in taken if resident.get(p.parent) != p.rss]
        if sum(p.rss for p in alone) > self.peak_rss():
            self._peak = [(p.name, p.rss) for p in alone]
        return alone


def tree(root: int, without: tuple[int, ...] = ()) -> list[Process]:
    """A process and all its descendants, without the trees of `without`."""
    found = {p.pid: p for p in _processes()}
    children: dict[int, list[int]] = {}
    for process in found.values():
        children.setdefault(process.parent, []).append(process.pid)
    waiting, reached = [root], []
    while waiting:
        pid = waiting.pop()
        if pid in found and pid not in without:
            reached.append(found[pid])
            waiting += children.get(pid, ())
    return reached


def _pss(pid: int) -> int:
    """Resident bytes of a process, each page divided by how many share it; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _processes() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # The name stands in parentheses, and may hold blanks and parentheses itself.
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            cpu_s = (int(fields[11]) + int(fields[12])) / _TICK
            yield Process(int(entry.name), int(fields[1]), name, cpu_s, int(fields[21]) * _PAGE)
