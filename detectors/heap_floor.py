"""The floor of a process's heap: what is left after a collection, over its life.

Heap in use is a sawtooth: only its lower envelope says whether more and more is kept. A fall of the heap in use is a
collection, whatever the collector is called; between two of them lies a cycle, and its lowest sample is one point of
the floor. Where collections come nearly as fast as samples, a cycle is as long as it takes to have `_SAMPLES` of them:
the lowest of eight samples lies near the floor wherever in the sawtooth they were taken. A new process begins anew,
even under its old name: the collectors' counters tell.

Collections of the young generation alone leave garbage that has grown old in the floor, until an old one takes it: a
healthy floor may climb for an hour and fall back. So a rise says by itself (`Rise.proven`) that memory is kept only
when it has outlived an old collection, or stands above where every collector would have started one.
"""

import math
from statistics import median

import msgspec

from detectors.events.metrics import filtered
from detectors.series import Crossing, Slope, crossing, mann_kendall, theil_sen
from detectors.topology import Topology

_POINTS = 48
_SAMPLES = 8
_TOOTH = 5
_FALL = 0.97
_KIB = 1024
_COLLECTORS = 8
_YOUNG = ("Young", "Scavenge", "Copy", "ParNew", "Minor", "G1_Concurrent", "Pauses")
# G1 starts to mark at 45 % by default, the others collect the old generation when it is full: two thirds of the heap.
_BEYOND_GARBAGE = 0.7


class Rise(msgspec.Struct, frozen=True):
    """A floor that rises: bytes at the first and the last third, cycles seen, from when to when, its line
    (time in epoch ms), when it reaches the heap's limit, and whether garbage cannot explain it.
    """

    first: float
    last: float
    cycles: int
    since: int
    at: int
    slope: Slope
    full: Crossing
    proven: bool


class Floor(msgspec.Struct, array_like=True):
    """Of one process. `points` are (seconds since `started`, KiB), one a cycle or several; `low` is the cycle's lowest
    sample so far (bytes), `tooth` the samples since the last fall, `limit` Heap.Max; `counts` the collectors' counters
    with the time they were read, `after_old` the lowest sample since the last old collection (-1: there was none).
    """

    started: int
    seen: int = 0
    used: float = 0.0
    limit: float = 0.0
    low: float = 0.0
    low_at: int = 0
    samples: int = 0
    tooth: int = 0
    begun: bool = False
    points: list[tuple[int, int]] = []
    counts: dict[str, tuple[int, float]] = {}
    after_old: float = -1.0

    def take(self, time: int, used: float) -> bool:
        """Take in a sample of the heap in use; whether a cycle ended before it. Late and repeated ones are dropped."""
        if time <= self.seen:
            return False
        fell = self.samples > 0 and used < _FALL * self.used
        ended = fell and self.begun and (self.samples >= _SAMPLES or self.tooth >= _TOOTH)
        if ended:
            self.points.append((max(self.low_at - self.started, 0) // 1000, int(self.low / _KIB)))
            if len(self.points) > _POINTS:
                self.points = [*_halved(self.points[: _POINTS // 2]), *self.points[_POINTS // 2 :]]
        # The first tooth was met half-way, perhaps far above the floor.
        if ended or (fell and not self.begun):
            self.samples, self.begun = 0, True
        self.tooth = 1 if fell else self.tooth + 1
        if self.samples == 0 or used < self.low:
            self.low, self.low_at = used, time
        if self.after_old >= 0:
            self.after_old = min(self.after_old, used)
        self.samples += 1
        self.seen, self.used = time, used
        return ended

    def counted(self, collector: str, time: int, count: float) -> bool:
        """Take in a collector's counter; whether it runs backwards, so that another process has taken the name."""
        before = self.counts.get(collector)
        if before is not None and time <= before[0]:
            return False
        if before is not None or len(self.counts) < _COLLECTORS:
            self.counts[collector] = (time, count)
        if before is not None and count > before[1] and not any(name in collector for name in _YOUNG):
            self.after_old = math.inf
        return before is not None and count < before[1]

    def floor(self) -> float | None:
        """The last known floor in bytes."""
        return self.points[-1][1] * _KIB if self.points else None

    def series(self) -> list[tuple[int, float]]:
        """The points as (epoch ms, bytes)."""
        return [(self.started + s * 1000, float(k * _KIB)) for s, k in self.points]

    def rise(self, warm_up: int, cycles: int, significance: float, least: float) -> Rise | None:
        """The rise of the floor after `warm_up` ms, when it is one: over `cycles`, significant, by `least` of the
        limit, and not levelling off.
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
        if slope.low <= 0 or theil_sen(times[half:], values[half:]).slope < slope.slope / 4:
            return None
        full = crossing(slope, self.limit, times[-1])
        if full is None:
            return None
        outlived = self.after_old if math.isfinite(self.after_old) else -1.0
        proven = outlived - first >= least * self.limit or last >= _BEYOND_GARBAGE * self.limit
        return Rise(first, median(values[-third:]), len(values), times[0], times[-1], slope, full, proven)


def task_manager(topology: Topology, label: str) -> str:
    """The TaskManager's id as logs write it, of an id as metrics label it; that itself where logs have named none."""
    return next((tm for tm in topology.tms if filtered(tm) == filtered(label)), label)


def _halved(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of each two points the lower: the older half of a long life is kept in less."""
    return [min(points[i : i + 2], key=lambda p: p[1]) for i in range(0, len(points), 2)]
