"""Small robust statistics over series kept in state: quantiles, trends, forecasts, and thinning for a chart.

A trend is Theil and Sen's: the median of the slopes of all pairs of points, which a third of wild points does not move,
with Sen's interval from Kendall's variance: n² / 2 steps, a third of a millisecond for 64 points. Mann and Kendall's
rank test, a tenth of that, says whether there is one at all.

Reference: Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63 (1968).
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple, TypeVar

_Z95 = 1.959963984540054
_FAR = 100

X = TypeVar("X", bound=float)


class Slope(NamedTuple):
    """A fitted line, `intercept` at time 0; `low` and `high` bound the slope with 95 % confidence."""

    slope: float
    intercept: float
    low: float
    high: float

    def at(self, time: float) -> float:
        """The line's value."""
        return self.intercept + self.slope * time


class Crossing(NamedTuple):
    """When a line reaches a level."""

    at: int
    earliest: int
    latest: int


def quantile(values: Sequence[float], q: float) -> float:
    """The q-quantile (0..1) of a non-empty sequence, linear between order statistics.

    >>> quantile([1, 2, 3, 4], 0.5)
    2.5
    """
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def theil_sen(times: Sequence[float], values: Sequence[float]) -> Slope:
    """The robust line through a non-empty series, its slope per unit of time.

    Points of one time only say nothing of a slope: it is 0, anywhere between minus and plus infinity.

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


def mann_kendall(values: Sequence[float], resemblance: float = 0.0) -> float:
    """One-sided p-value for "this series rises", in its order; small when it does, near 1 when it falls.

    Normal approximation with corrections for ties and continuity: fair from ten values on. `resemblance` is the
    correlation (0..1) of neighbours once the trend is taken out: such values are worth fewer independent ones.

    >>> round(mann_kendall([1, 2, 3, 5, 4, 6, 7, 8, 9, 10]), 5)
    9e-05
    """
    return _p(_scores(values)[-1], values, resemblance) if values else 1.0


def mann_kendall_of_ends(values: Sequence[float], lengths: Sequence[int]) -> dict[int, float]:
    """`mann_kendall` of the last n values, for each n of `lengths` that there are: for hardly more than the longest.

    >>> mann_kendall_of_ends([9, 9, 1, 2, 3, 4], [4, 8]) == {4: mann_kendall([1, 2, 3, 4])}
    True
    """
    longest = max((n for n in lengths if n <= len(values)), default=0)
    scores = _scores(values[len(values) - longest :])
    return {n: _p(scores[n - 1], values[-n:], 0.0) for n in lengths if n <= longest}


def _scores(values: Sequence[float]) -> list[int]:
    """Kendall's scores of the last value, the last two, …: pairs that rise less pairs that fall."""
    score, scores = 0, []
    later: list[float] = []
    for v in reversed(values):
        at = bisect_right(later, v)
        score += len(later) - at - bisect_left(later, v, 0, at)
        scores.append(score)
        later.insert(at, v)
    return scores


def _p(score: int, values: Sequence[float], resemblance: float) -> float:
    variance = _variance(len(values), (), values) * (1 + resemblance) / (1 - min(resemblance, 0.99))
    return 0.5 * math.erfc((score - 1) / math.sqrt(2 * variance)) if variance > 0 else 1.0


def crossing(slope: Slope, level: float, now: float) -> Crossing | None:
    """When the line reaches the level: `now` when it has, None when it never will.

    The interval turns the line about its value now. A slope that may be flat gives no latest time: it is then a hundred
    times as far away as the expected one.

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
    """At most `limit` (≥ 3) of the points, in order, that draw the same picture; the first and the last among them.

    Largest triangle of three buckets: of each bucket the point that stands out most, so that spikes stay.
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
    """Of Kendall's score of n points, less what ties in the series take away."""
    tied = (values for values in series if len(set(values)) < len(values))
    ties = sum(_term(k) for values in tied for k in Counter(values).values() if k > 1)
    return max(_term(n) - ties, 0) / 18


def _term(k: int) -> int:
    return k * (k - 1) * (2 * k + 5)
