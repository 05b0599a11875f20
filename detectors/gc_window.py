"""The last minute of a process's garbage collections: the share of time in them, and what they leave in the heap."""

import msgspec

_ENTRIES = 20
_SPACING_MS = 4_000
_COLLECTORS = 8
# Their counters hold the time of concurrent work, in which the process runs on.
_CONCURRENT = ("Cycles", "ConcurrentMarkSweep", "Concurrent_GC")
_YOUNG = ("Young", "Scavenge", "Copy", "ParNew", "Minor", "Pauses")


class Entry(msgspec.Struct, array_like=True):
    """One scrape: event time, ms in collections, collections, those of the old generation, bytes of heap in use."""

    time: int
    spent: int
    count: int
    old: int
    used: int


class GcWindow(msgspec.Struct, array_like=True):
    """Of one TaskManager: `spent` and `counts` are its collectors' counters, `limit` is Heap.Max, `at` the clock."""

    spent: dict[str, float] = {}
    counts: dict[str, float] = {}
    entries: list[Entry] = []
    limit: float = 0.0
    at: int = 0
    interval: int = 0

    def take(self, name: str, collector: str, value: float, time: int, clock: int) -> None:
        """Take in one sample; a scrape may come whole or sample by sample. Late ones are dropped."""
        last = self.entries[-1] if self.entries else None
        if last is not None and time < last.time:
            return
        self.at = max(self.at, clock)
        match name:
            case "heap_max":
                self.limit = value
                return
            case "gc_time" | "gc_count":
                own = self.spent if name == "gc_time" else self.counts
                if name == "gc_time" and any(word in collector for word in _CONCURRENT):
                    return
                if value < own.get(collector, 0):
                    self.spent, self.counts = {}, {}
                    own = self.spent if name == "gc_time" else self.counts
                if collector not in own and len(own) >= _COLLECTORS:
                    return
                if collector not in own:
                    # All of its life would count as of the last minute.
                    self.entries = []
                own[collector] = value
        used = value if name == "heap_used" else last.used if last is not None else 0.0
        self._enter(time, used)

    def share(self, over: int) -> float | None:
        """Share of the last `over` ms spent in collections; None while less is known."""
        first = self._first(over)
        if first is None:
            return None
        last = self.entries[-1]
        return (last.spent - first.spent) / (last.time - first.time)

    def left(self, over: int) -> float:
        """The least share of the heap in use in the last `over` ms, when there were two collections in it; else 0."""
        first = self._first(over)
        if first is None or self.limit <= 0 or self.entries[-1].count - first.count < 2:
            return 0.0
        return min((e.used for e in self.entries if e.time >= first.time and e.used > 0), default=0) / self.limit

    def old_collections(self, over: int) -> int:
        """Collections of the old generation among the entries of the last `over` ms."""
        recent = [e.old for e in self.entries if e.time >= self.entries[-1].time - over]
        return recent[-1] - recent[0] if recent else 0

    def points(self) -> list[tuple[int, float]]:
        """Heap in use as (epoch ms, bytes)."""
        return [(e.time, float(e.used)) for e in self.entries if e.used > 0]

    def _first(self, over: int) -> Entry | None:
        """The entry at which the last `over` ms begin: the youngest that is old enough."""
        end = self.entries[-1].time if self.entries else 0
        return next((e for e in reversed(self.entries) if e.time <= end - over), None)

    def _enter(self, time: int, used: float) -> None:
        old = sum(v for k, v in self.counts.items() if not any(word in k for word in (*_YOUNG, *_CONCURRENT)))
        entry = Entry(time, int(sum(self.spent.values())), int(sum(self.counts.values())), int(old), int(used))
        if self.entries:
            last = self.entries[-1]
            close = len(self.entries) > 1 and last.time - self.entries[-2].time < _SPACING_MS
            if last.time == time or close:
                self.entries[-1] = entry
                return
            self.interval = time - last.time
        self.entries = [*self.entries, entry][-_ENTRIES:]
