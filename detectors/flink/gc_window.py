"""Garbage collections of a process in the last minute: share of time spent in them, and heap in use after them."""

from itertools import accumulate

import msgspec

from detectors.values.bounded import to_int

# Together they cover a minute, however often a process is scraped.
_ENTRIES = 14
_SPACING_MS = 5_000
_COLLECTORS = 8
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
    """The collections of one TaskManager, with the event time and the clock (`at`) of the last entry.

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

    def left(self, over: int) -> float:
        """Lowest share of the heap in use in the last `over` ms if it had two collections, else 0."""
        last = self._last(over)
        if not last or self.limit <= 0 or sum(e.count for e in last) < 2:
            return 0.0
        first = self.entries[-len(last) - 1]
        return min((e.used for e in (first, *last) if e.used > 0), default=0) * _UNIT / self.limit

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

    def _last(self, over: int) -> list[GcSample]:
        """The entries that cover the last `over` ms; empty while they cover less."""
        age = 0
        for n in range(len(self.entries) - 1, 0, -1):
            age += self.entries[n].ms
            if age >= over:
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
