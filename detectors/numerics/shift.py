"""Whether a series has moved to a higher level and stays there: a change-point test on every scale, next to the trend.

A step is no trend: the values before it and after it are level, and no line leads from one to the other. A
`MultiscaleSeries` shows a step within minutes on its fine scales and one within hours on its coarse ones. A shift is a
point of one of them after which

- the values are higher by the rank-sum test of Wilcoxon, Mann and Whitney, corrected for the number of points tested;
- nearly all values are above nearly all before it, by a share of their median;
- the values stay for a time, up to the newest, and are above regular peaks (day and night);

and before which the values did not rise. The point is the one at which the test is most significant.

Reference: Pettitt, "A non-parametric approach to the change-point problem", Applied Statistics 28 (1979); Lausen and
Schumacher, "Maximally selected rank statistics", Biometrics 48 (1992).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.rise import regular_peak
from detectors.numerics.trend import mann_kendall, quantile

_BEFORE = 12
_AFTER = 8
_LATEST = 6
_FLAT_P = 0.05
_STAYED = 0.85


class ChangePoint(NamedTuple):
    """The number of values before a change upwards, and the p-value of the change."""

    before: int
    p: float


class Shift(NamedTuple):
    """A shift from the level `before` to the level `after`, and the points of its scale. It began at `since`."""

    scale: int
    points: list[Point]
    since: int
    before: float
    after: float

    @property
    def now(self) -> int:
        return self.points[-1].time

    def follows_load(self, least: float) -> bool:
        """Whether the load grew by the factor `least` or more, and the values by about as much."""
        before = [p.load for p in self.points if p.time < self.since]
        after = [p.load for p in self.points if p.time >= self.since]
        if min(before) <= 0 or min(after) <= 0:
            return False
        more = median(after) / median(before)
        return more >= least and self.after / self.before <= least * more


def rank_sum(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the one-sided p-value of the test whether the values `after` are higher than those `before`.

    Normal approximation with corrections for ties and continuity.

    >>> round(rank_sum([1, 2, 3, 4, 5], [6, 7, 8, 9]), 4)
    0.01
    """
    ordered = sorted([*before, *after])
    ranks = [(bisect_left(ordered, v) + bisect_right(ordered, v) + 1) / 2 for v in after]
    return _p(sum(ranks), len(before), len(after), _tied(ordered))


def change_point(values: Sequence[float], least_before: int = _BEFORE, least_after: int = _AFTER) -> ChangePoint | None:
    """Return the most significant change upwards, with so many values on each side; None if there are too few.

    >>> change_point([1, 2, 1, 2, 1, 2, 9, 8, 9, 8], 4, 3).before
    6
    """
    ordered = sorted(values)
    ranks = {v: (bisect_left(ordered, v) + bisect_right(ordered, v) + 1) / 2 for v in set(values)}
    tied, n = _tied(ordered), len(values)
    found: ChangePoint | None = None
    of_after = sum(ranks[v] for v in values[least_before:])
    tested = n - least_before - least_after + 1
    for index in range(least_before, n - least_after + 1):
        p = _p(of_after, index, n - index, tied) * tested
        if found is None or p < found.p:
            found = ChangePoint(index, min(p, 1.0))
        of_after -= ranks[values[index]]
    return found


def shift(history: MultiscaleSeries, growth: float, p: float, lasting: int, level: float = 0.0) -> Shift | None:
    """Return the shift by the share `growth` or more to at least `level` that has lasted for `lasting` ms, or None.

    It is looked for from the finest scale to the coarsest, and only on scales that have just received a point.
    """
    for scale, own in enumerate(history.scales):
        if scale and history.scales[scale - 1].waiting:
            return None
        values = own.values()
        # Cheap test: whether the newest values are at a level that could be reported at all.
        if len(values) < _BEFORE + _AFTER or max(values[-_LATEST:]) < _STAYED * max(level, (1 + growth) * min(values)):
            continue
        found = change_point(values)
        if found is None or found.p >= p:
            continue
        before, after = values[: found.before], values[found.before :]
        low, high = median(before), median(after)
        points = history.points(scale)
        since = points[found.before].time
        if (
            high >= max((1 + growth) * low, level)
            and quantile(after, 0.2) > quantile(before, 0.9)
            and median(values[-_LATEST:]) >= _STAYED * high
            and mann_kendall(before) >= _FLAT_P
            and points[-1].time - since >= lasting
            and high >= regular_peak(history, scale, since)
        ):
            return Shift(scale, points, since, low, high)
    return None


def _p(of_after: float, before: int, after: int, tied: float) -> float:
    """The p-value of the sum of the ranks after a point."""
    n = before + after
    above = of_after - after * (after + 1) / 2 - before * after / 2
    variance = before * after / 12 * (n + 1 - tied / (n * (n - 1)))
    return 0.5 * math.erfc((above - 0.5) / math.sqrt(2 * variance)) if variance > 0 else 1.0


def _tied(ordered: Sequence[float]) -> float:
    return sum(k**3 - k for k in Counter(ordered).values())
