"""The heap floor of a process: the heap in use after a collection, over the life of the process.

Heap in use is a sawtooth: only its lower envelope shows whether more and more memory is kept. A drop of the heap in use
is a collection, whatever the collector is called; between two of them lies a cycle, and its lowest sample is one point
of the floor. If collections are almost as frequent as samples, a cycle takes eight samples: the lowest of them is near
the floor wherever in the sawtooth they were taken. The collectors' counters show that a process is a new one.

Collections of the young generation alone leave garbage in the floor that has become old, until an old collection frees
it: a healthy floor may rise for an hour and then fall back. So a rise proves that memory is kept only when it has
outlived an old collection, or has reached a level at which the collector would have started one.

G1 counts no old collection before the heap is nearly full, but two things prove a rise earlier. Once old objects fill
45 % of the heap it marks them, and its mixed collections, which count as young, free garbage. And an object becomes old
only after fifteen young collections: a floor that rises by much within so few of them does not rise by garbage. A heap
that fills up after a start also does that, but more and more slowly, and not for a large part of the heap.

Reference: Oracle, "HotSpot Virtual Machine Garbage Collection Tuning Guide", Garbage-First (InitiatingHeapOccupancy-
Percent, MaxTenuringThreshold).
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise
from statistics import median

import msgspec

from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.incident import Series
from detectors.numerics.trend import Crossing, Slope, crossing, mann_kendall, theil_sen, thin
from detectors.values.bounded import to_int

_POINTS = 48
_SAMPLES = 8
_TOOTH = 5
_FALL = 0.97
_UNIT = 65_536
# Collectors other than G1 collect the old generation when it is full: two thirds of the heap.
_BEYOND_GARBAGE = 0.7
# G1 starts to mark when old objects fill 45 % of the heap; the floor also has the survivors.
_BEYOND_MARKING = 0.5
_TENURED = 15
_STEADY_CYCLES = 12
_STEADY = 0.75
_AS_FAR_AHEAD = 4


class HeapFloorRise(msgspec.Struct, frozen=True):
    """A rising heap floor: bytes in its first and last third, number of cycles, event times of its start and end.

    `slope` is the fitted line, `full` when it reaches the heap's limit. `proven`: garbage cannot explain the rise.
    """

    first: float
    last: float
    cycles: int
    since: int
    at: int
    slope: Slope
    full: Crossing
    proven: bool


class HeapFloor(msgspec.Struct, array_like=True):
    """The heap floor of one process. Times are in ms since `started`, sizes in bytes.

    `points` alternates between the seconds since the previous point (the first: since `started`) and the floor in units
    of 64 KiB, for one or several cycles each. `low` is the lowest sample of the cycle so far, `tooth` the number of
    samples since the last drop, `limit` Heap.Max. `counts` holds the collectors' counters with their times. `after_old`
    is the lowest sample since the last old collection (0: none yet, -1: no such collection). `cycles` and `young` are
    the numbers of cycles and of young collections since `started`, `g1`: they are G1's.
    """

    started: int
    seen: int = 0
    used: int = 0
    limit: int = 0
    low: int = 0
    low_at: int = 0
    samples: int = 0
    tooth: int = 0
    begun: bool = False
    points: list[int] = []
    counts: dict[int, tuple[int, int]] = {}
    after_old: int = -1
    only_last: bool = False
    cycles: int = 0
    young: int = 0
    g1: bool = False

    def take(self, time: int, used: float) -> bool:
        """Take in a sample, unless it is late or repeated. Returns whether a cycle ended before it."""
        at, used = time - self.started, to_int(used)
        if at <= self.seen and self.samples > 0:
            return False
        fell = self.samples > 0 and used < _FALL * self.used
        ended = fell and self.begun and (self.samples >= _SAMPLES or self.tooth >= _TOOTH)
        if ended:
            self.cycles += 1
            self._point(max(self.low_at, 0) // 1000, self.low // _UNIT)
        # The first cycle was seen only in part, perhaps far above the floor.
        if ended or (fell and not self.begun):
            self.samples, self.begun = 0, True
        self.tooth = 1 if fell else self.tooth + 1
        if self.samples == 0 or used < self.low:
            self.low, self.low_at = used, at
        if self.after_old == 0 or 0 < used < self.after_old:
            self.after_old = used
        self.samples += 1
        self.seen, self.used = at, used
        return ended

    def _point(self, second: int, level: int) -> None:
        points = [*self._points(), (second, level)]
        if len(points) > _POINTS:
            points = _thinned(points)
        if self.only_last:
            points = points[-1:]
        seconds = [0, *(p[0] for p in points)]
        self.points = [n for (_, level), (a, b) in zip(points, pairwise(seconds), strict=True) for n in (b - a, level)]

    def _points(self) -> Iterator[tuple[int, int]]:
        """The points as (seconds since the start, floor in units of 64 KiB)."""
        return zip(accumulate(self.points[::2]), self.points[1::2], strict=True)

    def forget(self) -> None:
        """Keep only the last floor from now on."""
        self.only_last = True
        self.points = [sum(self.points[::2]), self.points[-1]] if self.points else []

    def counted(self, collector: int, old: bool, time: int, count: int) -> bool:
        """Take in a collector's counter. Returns whether it runs backwards, so that this is another process."""
        at = time - self.started
        before = self.counts.get(collector)
        if before is not None and at <= before[0]:
            return False
        self.counts[collector] = (at, count)
        if before is not None and count > before[1]:
            self.young += 0 if old else count - before[1]
            self.after_old = 0 if old else self.after_old
        return before is not None and count < before[1]

    def now(self) -> int:
        return self.started + self.seen

    def floor(self) -> float | None:
        return float(self.points[-1] * _UNIT) if self.points else None

    def fell_back(self, base: float, top: float) -> bool:
        """Whether a rise from `base` to `top` is undone: the last three points lie in the lower half between them."""
        last = self.points[1::2][-ENOUGH_SAMPLES:]
        return len(last) == ENOUGH_SAMPLES and max(last) * _UNIT < (base + top) / 2

    def series(self) -> list[tuple[int, float]]:
        """The floor over time as (epoch ms, bytes)."""
        return [(self.started + second * 1000, float(level * _UNIT)) for second, level in self._points()]

    def chart(self, rise: HeapFloorRise) -> Series:
        """The floor with the line fitted to its rise."""
        points = self.series()
        fit = [(time, rise.slope.at(time)) for time in (rise.since, points[-1][0])]
        return Series("heap floor", "bytes", thin(points), float(self.limit), fit)

    def rise(self, warm_up: int, cycles: int, significance: float, least: float) -> HeapFloorRise | None:
        """The rise of the floor after `warm_up` ms, or None.

        It lasts for at least `cycles`, is significant, grows by the share `least` of the limit, and does not level off.
        """
        points = [p for p in self.series() if p[0] - self.started >= warm_up]
        if len(points) < cycles or self.limit <= 0:
            return None
        times, values = [p[0] for p in points], [p[1] for p in points]
        third = len(values) // 3
        first, last = median(values[:third]), min(values[-third:])
        if last - first < least * self.limit or mann_kendall(values) >= significance:
            return None
        slope = theil_sen(times, values)
        half = len(values) // 2
        late = min(bisect_left(times, (times[0] + times[-1]) / 2), half)
        later = min(theil_sen(times[n:], values[n:]).slope for n in {half, late})
        if slope.low <= 0 or later < slope.slope / 4:
            return None
        full = crossing(slope, self.limit, times[-1])
        if full is None:
            return None
        outlived = self.after_old if self.after_old > 0 else -1
        proven = outlived - first >= least * self.limit or last >= self._beyond_garbage() * self.limit
        if not proven and later >= _STEADY * slope.slope:
            passed = times[-1] - times[0]
            soon = full.at - times[-1] <= _AS_FAR_AHEAD * passed
            proven = soon and self._too_fast_for_garbage(len(values), passed, (last - first) / (least * self.limit))
        return HeapFloorRise(first, median(values[-third:]), len(values), times[0], times[-1], slope, full, proven)

    def _beyond_garbage(self) -> float:
        return _BEYOND_MARKING if self.g1 else _BEYOND_GARBAGE

    def _too_fast_for_garbage(self, cycles: int, passed: int, times: float) -> bool:
        """Whether G1's floor rose by enough within the collections that garbage needs to become old.

        The rise over `cycles` in `passed` ms was `times` as large as is enough.
        """
        collections = max(self.young, self.cycles) * passed / max(self.seen, 1)
        return self.g1 and cycles >= _STEADY_CYCLES and times * _TENURED >= collections


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep the lower of the two neighbours in the older half that are closest: it covers the whole life evenly."""
    spans = [b[0] - a[0] for a, b in pairwise(points[: len(points) // 2])]
    i = spans.index(min(spans))
    return [*points[:i], min(points[i : i + 2], key=lambda p: p[1]), *points[i + 2 :]]
