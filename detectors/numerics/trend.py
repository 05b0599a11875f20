"""Small robust statistics over series kept in state: quantiles, trends, forecasts, and thinning for a chart.

A trend is Theil and Sen's: the median of the slopes of all pairs of points, with Sen's interval from Kendall's
variance. It does not change if up to a third of the points are outliers. It takes n² / 2 steps, a third of a
millisecond for 64 points. Mann and Kendall's rank test takes a tenth of that and shows whether there is a trend at all.

Reference: Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple, TypeVar

_Z95 = 1.959963984540054
_FAR = 100

X = TypeVar("X", bound=float)


class Slope(NamedTuple):
    """A fitted line with `intercept` at time 0. `low` and `high` bound the slope with 95 % confidence."""

    slope: float
    intercept: float
    low: float
    high: float

    def at(self, time: float) -> float:
        return self.intercept + self.slope * time


class Crossing(NamedTuple):
    """When a line reaches a level, with the 95 % interval of that time."""

    at: int
    earliest: int
    latest: int


def quantile(values: Sequence[float], q: float) -> float:
    """Return the q-quantile (0..1) of a non-empty sequence, linear between order statistics.

    >>> quantile([1, 2, 3, 4], 0.5)
    2.5
    """
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def theil_sen(times: Sequence[float], values: Sequence[float]) -> Slope:
    """Fit a robust line through a non-empty series, with its slope per unit of time.

    If all points have the same time, the slope is 0, with bounds of minus and plus infinity.

    >>> theil_sen([0, 1, 2, 3], [1, 3, 5, 70])[:2]
    (12.5, -14.75)
    """
    n = len(times)
    slopes: list[float] = []
    for i in range(n - 1):
        t, v = times[i], values[i]
        slopes += [(values[j] - v) / (times[j] - t) for j in range(i + 1, n) if times[j] != t]
    if not slopes:
        return Slope(0.0, median(values), -math.inf, math.inf)
    slopes.sort()
    slope = median(slopes)
    pairs = len(slopes)
    half = _Z95 * math.sqrt(_variance(n, times, values))
    low = slopes[max(round((pairs - half) / 2) - 1, 0)]
    high = slopes[min(round((pairs + half) / 2), pairs - 1)]
    return Slope(slope, median(values) - slope * median(times), low, high)


def mann_kendall(values: Sequence[float], correlation: float = 0.0) -> float:
    """Return the one-sided p-value of the test whether a series rises: small if it does, near 1 if it falls.

    Normal approximation with corrections for ties and continuity, adequate from ten values on. `correlation` (0..1) is
    that of neighbours without the trend: correlated values count as fewer independent ones.

    >>> round(mann_kendall([1, 2, 3, 5, 4, 6, 7, 8, 9, 10]), 5)
    9e-05
    """
    return _p(_scores(values)[-1], values, correlation) if values else 1.0


def autocorrelation(values: Sequence[float]) -> float:
    """Return the correlation of neighbours (lag 1), 0 if it is negative or the values do not vary.

    >>> autocorrelation([1, 2, 3, 4, 5]), autocorrelation([1, -1, 1, -1])
    (0.4, 0.0)
    """
    mean = sum(values) / len(values)
    own = sum((v - mean) ** 2 for v in values)
    shared = sum((a - mean) * (b - mean) for a, b in pairwise(values))
    return max(shared / own, 0.0) if own > 0 else 0.0


def mann_kendall_of_ends(values: Sequence[float], lengths: Sequence[int]) -> dict[int, float]:
    """Return `mann_kendall` of the last n values for each n of `lengths`, at hardly more cost than for the longest.

    >>> mann_kendall_of_ends([9, 9, 1, 2, 3, 4], [4, 8]) == {4: mann_kendall([1, 2, 3, 4])}
    True
    """
    longest = max((n for n in lengths if n <= len(values)), default=0)
    scores = _scores(values[len(values) - longest :])
    return {n: _p(scores[n - 1], values[-n:], 0.0) for n in lengths if n <= longest}


def _scores(values: Sequence[float]) -> list[int]:
    """Kendall's scores of the last value, the last two, …: the number of rising pairs minus that of falling pairs."""
    score, scores = 0, []
    later: list[float] = []
    for v in reversed(values):
        at = bisect_right(later, v)
        score += len(later) - at - bisect_left(later, v, 0, at)
        scores.append(score)
        later.insert(at, v)
    return scores


def _p(score: int, values: Sequence[float], correlation: float) -> float:
    variance = _variance(len(values), (), values) * (1 + correlation) / (1 - min(correlation, 0.99))
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * variance)) if variance > 0 else 1.0


def crossing(slope: Slope, level: float, now: float) -> Crossing | None:
    """Return when the line reaches the level: `now` if it already has, None if it never will.

    The interval turns the line about its value now. If the slope may be flat there is no latest time, and it is set a
    hundred times as far away as the expected time.

    >>> crossing(Slope(2.0, 0.0, 1.0, 4.0), 100, now=10)
    Crossing(at=50, earliest=30, latest=90)
    """
    missing = level - slope.at(now)
    if missing <= 0:
        return Crossing(round(now), round(now), round(now))
    if slope.slope <= 0:
        return None
    ahead = missing / slope.slope
    latest = min(missing / slope.low if slope.low > 0 else math.inf, _FAR * ahead)
    if not math.isfinite(now + latest):
        return None
    return Crossing(round(now + ahead), round(now + missing / max(slope.high, slope.slope)), round(now + latest))


def thin(points: Sequence[tuple[X, float]], limit: int = 64) -> list[tuple[X, float]]:
    """Return at most `limit` (≥ 3) of the points, in order, that draw the same chart, including the first and last.

    Largest triangle three buckets: it keeps the most prominent point of each bucket, so that spikes remain visible.
    Reference: Steinarsson, "Downsampling time series for visual representation" (2013).
    """
    if len(points) <= limit:
        return list(points)
    width = (len(points) - 2) / (limit - 2)
    kept: list[tuple[X, float]] = [points[0]]
    for bucket in range(limit - 2):
        start, end = 1 + int(bucket * width), 1 + int((bucket + 1) * width)
        following = points[end : max(1 + int((bucket + 2) * width), end + 1)] or points[-1:]
        x = sum(p[0] for p in following) / len(following)
        y = sum(p[1] for p in following) / len(following)
        last = kept[-1]
        kept.append(max(points[start:end], key=lambda p: _triangle(last, p, x, y)))
    return [*kept, points[-1]]


def _triangle(before: tuple[X, float], point: tuple[X, float], x: float, y: float) -> float:
    return abs((before[0] - x) * (point[1] - before[1]) - (before[0] - point[0]) * (y - before[1]))


def _variance(n: int, *series: Sequence[float]) -> float:
    """Variance of Kendall's score of n points, reduced for ties in the series."""
    ties = sum(_term(k) for values in series if len(set(values)) < n for k in Counter(values).values() if k > 1)
    return max(_term(n) - ties, 0) / 18


def _term(k: int) -> int:
    return k * (k - 1) * (2 * k + 5)
