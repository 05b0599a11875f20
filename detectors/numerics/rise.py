"""Whether a series rises for good: tested on every scale, and distinguished from noise, jumps, cycles and plateaus.

A `MultiscaleSeries` has scales from fine to coarse: checkpoints every second or every ten minutes, a rise within
minutes or over days. A rise is a stretch at the end of the series, on any of these scales, that

- is significant by Mann and Kendall's rank test, corrected for the number of stretches tested;
- has grown by a share of the usual value before it, and is above that value and above regular peaks (day and night);
- is explained better by a line or an exponential curve than by a single jump;
- still grows in its second half.

Slopes are Theil and Sen's, so a spike, a savepoint or a full checkpoint among incremental ones does not change them.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.trend import (
    Crossing,
    Slope,
    autocorrelation,
    crossing,
    mann_kendall,
    mann_kendall_of_ends,
    quantile,
    theil_sen,
)

_STRETCHES = (12, 20, 32, 64)
_BEFORE = 8
_FLAT_BEFORE = 20
_ABOVE = 10
_LATEST = 6
_FLAT_P = 0.05
_PEAK_MARGIN = 1.2
_OVERSHOT = 0.85
_CLEARLY = 0.75
_GROWN = 0.25
_LEAST = 1e-3
_SETTLED = (32, 64)
_SETTLED_P = 0.1


class TrendFit(NamedTuple):
    """A line through the values and one through their logarithms, each with its misfit (sum of logarithmic errors)."""

    line: Slope
    curve: Slope
    of_line: float
    of_curve: float

    @property
    def exponential(self) -> bool:
        """Whether the curve fits clearly better. A curve reaches any level soon, so it must."""
        return self.of_curve < _CLEARLY * self.of_line

    def at(self, time: int) -> float:
        return math.exp(self.curve.at(time)) if self.exponential else max(self.line.at(time), _LEAST)


class Rise(NamedTuple):
    """A stretch that rises from the value `usual`. `fit` covers the part in which it has grown.

    `established`: the series was flat before, so that the rise is not a job that fills up after its start.
    """

    scale: int
    points: list[Point]
    usual: float
    fit: TrendFit
    established: bool

    @property
    def now(self) -> int:
        return self.points[-1].time

    @property
    def level(self) -> float:
        return self.fit.at(self.now)

    def since(self, growth: float) -> int:
        """When the fit had grown by `growth` (0.25: by a quarter) over what was usual."""
        early = (p.time for p in self.points if self.fit.at(p.time) >= self.usual * (1 + growth))
        return next(early, self.now)

    def reaches_within(self, level: float, horizon: int) -> Crossing | None:
        """When the fit will reach a level, if within `horizon` ms."""
        ahead = self.reaches(level) if self.level < level else None
        return ahead if ahead is not None and ahead.at - self.now <= horizon else None

    def believed(self, level: float, horizon: int, times: float) -> bool:
        """Whether it has been seen for long enough to reach a level: at most `times` as far ahead as back.

        After a start only the line counts, because whatever fills up rises fast at first.
        """
        ahead = self.reaches_within(level, horizon)
        if ahead is not None and not self.established:
            ahead = crossing(self.fit.line, level, self.now)
        return ahead is not None and ahead.at - self.now <= times * (self.now - self.points[0].time)

    def follows_load(self, least: float) -> bool:
        """Whether the load grew by the factor `least` or more, and the values by about as much."""
        third = len(self.points) // 3
        early, late = self.points[:third], self.points[-third:]
        if min(p.load for p in self.points) <= 0:
            return False
        more = median(p.load for p in late) / median(p.load for p in early)
        return more >= least and median(p.value for p in late) / median(p.value for p in early) <= least * more

    def reaches(self, level: float) -> Crossing | None:
        """When the fit reaches a level. For an exponential fit the range also covers the line."""
        line = crossing(self.fit.line, level, self.now)
        curve = crossing(self.fit.curve, math.log(level), self.now) if self.fit.exponential else None
        if curve is None or line is None:
            return line
        return Crossing(curve.at, min(curve.earliest, line.earliest), max(curve.latest, line.at))


def rise(history: MultiscaleSeries, growth: float, p: float, only_new: bool = False) -> Rise | None:
    """Return the rise at the end of the history on the finest scale that has one, over its longest stretch, or None.

    `only_new` tests only the scales that have just received a point.
    """
    for scale, own in enumerate(history.scales):
        if only_new and scale and history.scales[scale - 1].waiting:
            return None
        if len(own) < _STRETCHES[0] or _cannot(values := own.values(), growth):
            continue
        stretches = [n for n in _STRETCHES if n <= len(own) and _stands_out(history, scale, n, values)]
        p_of = mann_kendall_of_ends(values, stretches)
        for stretch in reversed(stretches):
            if p_of[stretch] < p / len(_STRETCHES):
                found = _tested(history, scale, stretch, growth, p / len(_STRETCHES))
                if found is not None:
                    return found
    return None


def settled(
    history: MultiscaleSeries, scale: int, levels: Sequence[float], horizon: int, least: int = 0
) -> tuple[float, int] | None:
    """(median, ms) of the last points of a scale if they do not rise, and reach no level within `horizon`, else None.

    They must cover `least` ms. The levels must not even be reached by the steepest slope that is likely.
    """
    for count in _SETTLED:
        points = history.points(scale, count)
        values = [p.value for p in points]
        if len(points) < count or points[-1].time - points[0].time < least or mann_kendall(values) < _SETTLED_P:
            continue
        now, line = points[-1].time, theil_sen([p.time for p in points], values)
        fastest = line._replace(slope=line.high, intercept=line.at(now) - line.high * now)
        ahead = [crossing(fastest, level, now) for level in levels]
        if all(c is None or c.at - now > horizon for c in ahead):
            return median(values), now - points[0].time
    return None


def _cannot(values: list[float], growth: float) -> bool:
    """Cheap test: whether the newest values are not even half as far above the low values as a rise requires."""
    factor = 1 + growth / 2
    return max(values[-_LATEST:]) < factor * min(values) or median(values[-_LATEST:]) < factor * quantile(values, 0.2)


def _stands_out(history: MultiscaleSeries, scale: int, stretch: int, values: list[float]) -> bool:
    """Cheap test: whether the newest values are above those usual before the stretch, if they are known."""
    older = _older(history, scale, history.time(scale, -stretch))
    return len(older) < _BEFORE or _above(values, median(older), older)


def _above(values: list[float], usual: float, older: list[float]) -> bool:
    high = max(quantile(older, 0.9) if older else 0, usual * (1 + _GROWN))
    return sum(v > high for v in values[-_STRETCHES[0] :]) >= _ABOVE


def _tested(history: MultiscaleSeries, scale: int, stretch: int, growth: float, p: float) -> Rise | None:
    """The rise over a stretch that has passed the first rank test, or None."""
    window = history.points(scale)
    before, points = window[:-stretch], window[-stretch:]
    values = [q.value for q in points]
    fit = _fitted(points)
    start = points[0].time
    rest = [math.log(q.value) - math.log(fit.at(q.time)) for q in points]
    if fit.line.low <= 0 or mann_kendall(values, autocorrelation(rest)) >= p:
        return None
    older = _older(history, scale, start)
    known = len(older) >= _BEFORE
    usual = median(older) if known else max(fit.line.at(start), min(values))
    half = len(points) // 2
    if (
        fit.at(points[-1].time) < (1 + growth) * usual
        or not _above(values, usual, older if known else [])
        or median(values[-_LATEST:]) < regular_peak(history, scale, start)
        or _fitted(points[half:]).line.slope < fit.line.slope / 2
        or _flattened(history, fit)
        or _jumped(window, len(before), usual, fit)
    ):
        return None
    grown = [q for q in points if fit.at(q.time) >= (1 + _GROWN) * usual]
    return Rise(scale, points, usual, _fitted(grown) if len(grown) >= _ABOVE else fit, _flat(older))


def _fitted(points: list[Point]) -> TrendFit:
    times, values = [q.time for q in points], [q.value for q in points]
    logs = [math.log(v) for v in values]
    line, curve = theil_sen(times, values), theil_sen(times, logs)
    of_line = sum(abs(v - math.log(max(line.at(t), _LEAST))) for t, v in zip(times, logs, strict=True))
    return TrendFit(line, curve, of_line, sum(abs(v - curve.at(t)) for t, v in zip(times, logs, strict=True)))


def _flattened(history: MultiscaleSeries, fit: TrendFit) -> bool:
    """Whether the newest values have fallen behind the fit."""
    return median(q.value / fit.at(q.time) for q in history.points(0, _LATEST)) < _OVERSHOT


def _older(history: MultiscaleSeries, scale: int, start: int) -> list[float]:
    """Values before the stretch, from the finest scale that has enough of them."""
    older: list[float] = []
    for coarser in range(scale, len(history.scales)):
        older = history.before(coarser, start)
        if len(older) >= _BEFORE:
            break
    return older


def _flat(older: list[float]) -> bool:
    return len(older) >= _FLAT_BEFORE and mann_kendall(older) >= _FLAT_P


def regular_peak(history: MultiscaleSeries, scale: int, start: int) -> float:
    """The level that earlier values reached regularly; with a margin on coarser scales, which cover days."""
    high = 0.0
    for coarser in range(scale, len(history.scales)):
        older = history.before(coarser, start)
        if len(older) >= _BEFORE:
            high = max(high, quantile(older, 0.95) * (_PEAK_MARGIN if coarser > scale else 1))
    return high


def _jumped(window: list[Point], flat: int, usual: float, fit: TrendFit) -> bool:
    """Whether a single jump fits the window at least as well as `flat` usual values and the rise after them."""
    logs = [math.log(q.value) for q in window]
    rising = sum(abs(v - math.log(usual)) for v in logs[:flat]) + min(fit.of_line, fit.of_curve)
    for i in range(1, len(logs)):
        low, high = median(logs[:i]), median(logs[i:])
        if sum(abs(v - low) for v in logs[:i]) + sum(abs(v - high) for v in logs[i:]) <= rising:
            return True
    return False
