"""Garbage collections of a process in the last minute: share of time spent in them, and heap in use after them."""

from collections.abc import Iterator
from itertools import accumulate

import msgspec

from detectors.events.event import Sample
from detectors.events.names import OF_JOBMANAGER, filtered
from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.values.bounded import intern_index, put_bounded, to_int

# Together they cover a minute, however often a process is scraped.
_ENTRIES = 14
_SPACING_MS = 5_000
FLOOR_SAMPLES = 12
"""As many as a minute has at the closest spacing."""
_COLLECTORS = 8
_MAX_COLLECTORS = 16
_MAX_TMS = 400
_KEEP_MS = 3_600_000
_TIGHT = 0.8
_UNIT = 65_536
# Their counters include concurrent work, during which the process keeps running.
_CONCURRENT = ("Cycles", "ConcurrentMarkSweep", "Concurrent_GC")
_YOUNG = ("Young", "Scavenge", "Copy", "ParNew", "Minor", "G1_Concurrent", "Pauses")


def collects_old(collector: str) -> bool:
    return not any(name in collector for name in _YOUNG)


class GcSample(msgspec.Struct, array_like=True):
    """The change since the previous entry, and the heap in use (`used`, in 64 KiB; the first entry has no more).

    The change: ms passed, ms spent in collections, number of collections, and of those of the old generation.
    """

    ms: int = 0
    spent: int = 0
    count: int = 0
    old: int = 0
    used: int = 0


class GcWindow(msgspec.Struct, array_like=True):
    """The collections of one process, with the event time and the clock (`at`) of the last entry.

    `spent` and `counts` are its collectors' counters by number, `limit` is Heap.Max (bytes).
    """

    spent: dict[int, int] = {}
    counts: dict[int, int] = {}
    entries: list[GcSample] = []
    limit: int = 0
    time: int = 0
    at: int = 0
    interval: int = 0

    def take(self, name: str, value: float, time: int, clock: int) -> None:
        """Take in Heap.Used or Heap.Max. A scrape may come whole or sample by sample; late samples are dropped."""
        if self.entries and time < self.time:
            return
        self.at = max(self.at, clock)
        if name == "heap_max":
            self.limit = to_int(value)
        else:
            self._enter(time, GcSample(used=to_int(value) // _UNIT))

    def collected(self, name: str, collector: str, number: int, value: float, time: int, clock: int) -> None:
        """Take in a counter of a collector: its time or its number of collections."""
        if self.entries and time < self.time:
            return
        self.at = max(self.at, clock)
        concurrent = any(word in collector for word in _CONCURRENT)
        if name == "gc_time" and concurrent:
            return
        total = to_int(value)
        if total < self._counters(name).get(number, 0):
            self.spent, self.counts = {}, {}
        own = self._counters(name)
        if number not in own and len(own) >= _COLLECTORS:
            return
        used = self.entries[-1].used if self.entries else 0
        if number not in own:
            # Otherwise its total since the start would count for the last minute.
            self.entries = []
        more = total - own.get(number, total)
        own[number] = total
        if name == "gc_time":
            self._enter(time, GcSample(spent=more, used=used))
        else:
            old = not concurrent and collects_old(collector)
            self._enter(time, GcSample(count=more, old=more if old else 0, used=used))

    def share(self, over: int) -> float | None:
        """Share of the last `over` ms spent in collections; None while less time is known."""
        last = self._last(over)
        return sum(e.spent for e in last) / sum(e.ms for e in last) if last else None

    def left(self, over: int, samples: int = FLOOR_SAMPLES) -> float:
        """Lowest share of the heap in use in the last `over` ms if they had two collections, else 0.

        A few samples of a sawtooth may all be near its top. So there must be `samples` of them, from longer ago if
        they are further apart.
        """
        last = self._last(over, samples)
        if not last or self.limit <= 0 or sum(e.count for e in self._last(over)) < 2:
            return 0.0
        first = self.entries[-len(last) - 1]
        return min((e.used for e in (first, *last) if e.used > 0), default=0) * _UNIT / self.limit

    def calm_since(self, since: int, now: int, least: int) -> bool:
        """Whether `least` ms and three samples have come since a sign; a process that is not scraped any more has none.

        How long three samples take depends on the interval that the source really has.
        """
        newer, at = 0, self.time
        for entry in reversed(self.entries):
            newer, at = newer + (at > since), at - entry.ms
        silent = now - self.time > ENOUGH_SAMPLES * self.interval
        return now - since >= least and (newer >= ENOUGH_SAMPLES or silent)

    def old_collections(self, over: int) -> int:
        """Number of collections of the old generation in the last `over` ms."""
        ages = accumulate(e.ms for e in reversed(self.entries))
        return sum(e.old for e, age in zip(reversed(self.entries[1:]), ages, strict=False) if age <= over)

    def used(self) -> int:
        return next((e.used for e in reversed(self.entries) if e.used > 0), 0) * _UNIT

    def points(self) -> list[tuple[int, float]]:
        latest = self.entries[::-1]
        ages = accumulate((e.ms for e in latest), initial=0)
        points = [(self.time - age, float(e.used * _UNIT)) for e, age in zip(latest, ages, strict=False) if e.used > 0]
        return points[::-1]

    def _counters(self, name: str) -> dict[int, int]:
        return self.spent if name == "gc_time" else self.counts

    def _last(self, over: int, samples: int = 1) -> list[GcSample]:
        """The last entries that cover `over` ms, at least `samples`; empty while they cover less."""
        age = 0
        for n in range(len(self.entries) - 1, 0, -1):
            age += self.entries[n].ms
            if age >= over and len(self.entries) - n >= samples:
                return self.entries[n:]
        return []

    def _enter(self, time: int, more: GcSample) -> None:
        if self.entries:
            last = self.entries[-1]
            more.ms = time - self.time
            close = len(self.entries) > 1 and last.ms < _SPACING_MS
            if more.ms == 0 or close:
                ms, spent, count = last.ms + more.ms, last.spent + more.spent, last.count + more.count
                self.entries[-1], self.time = GcSample(ms, spent, count, last.old + more.old, more.used), time
                return
            self.interval = more.ms
        self.entries, self.time = [*self.entries, more][-_ENTRIES:], time


class GcWindows(msgspec.Struct, array_like=True):
    """The windows of a cluster by the label of the process (`label_of`), with collectors by their index.

    `gone` holds the labels of TaskManagers that were seen to end, with the clock.
    """

    by_label: dict[str, GcWindow] = {}
    collectors: list[str] = []
    gone: dict[str, int] = {}

    def measure(self, label: str, sample: Sample, time: int, clock: int) -> GcWindow:
        """Take in a sample of one process. Returns its window."""
        window, name = self.by_label.get(label), sample.name.removeprefix("jm_")
        if window is None:
            self.by_label = {t: w for t, w in self.by_label.items() if clock - w.at <= _KEEP_MS}
            window = GcWindow()
            put_bounded(self.by_label, label, window, _MAX_TMS)
        if name not in ("gc_time", "gc_count"):
            window.take(name, sample.value, time, clock)
            return window
        collector = sample.labels.get("collector", "")
        number = intern_index(self.collectors, collector, _MAX_COLLECTORS)
        if number >= 0:
            window.collected(name, collector, number, sample.value, time, clock)
        return window

    def end(self, tm: str, clock: int) -> None:
        """A TaskManager was seen to end. An address lacks the end of the id."""
        for label in [w for w in self.by_label if tm and w.startswith(filtered(tm))]:
            put_bounded(self.gone, label, clock, _MAX_TMS)

    def frozen(self, hanging: list[tuple[int, int]], over: int, least: int) -> Iterator[tuple[str, int]]:
        """TaskManagers that are suspect once their scrapes are missing, and the clock from which they are.

        The other signs must be there: a checkpoint of a job whose state grows is hanging (`hanging`: clock of its
        trigger, usual duration), the old generation was collected in the last `over` ms or the heap is nearly full, and
        other TaskManagers are still scraped. Scrapes are missing after `least` ms or four intervals.
        """
        of_tms = {label: window for label, window in self.by_label.items() if not label.startswith(OF_JOBMANAGER)}
        last, latest = sorted([0, 0, *(w.at for w in of_tms.values())])[-2:]
        for label, window in of_tms.items():
            if not window.used() or window.limit <= 0 or not window.interval or label in self.gone:
                continue
            tight = window.old_collections(over) > 0 or window.used() >= _TIGHT * window.limit
            seen = last if window.at == latest else latest
            wait = max(least, 4 * window.interval)
            due = [at + max(3 * usual, wait) for at, usual in hanging if at <= window.at + window.interval]
            if due and tight and seen >= window.at + window.interval:
                yield label, max(window.at + wait, min(due))
