"""Whether a number rises steadily to where it never was, and along which line.

For numbers with a meaning of their own, such as memory under a limit: what counts is by how much they have risen, not
by what share. Tested on every scale of a `MultiscaleSeries`, over its last 16, 32 or 64 points. The rise

- is significant by Mann and Kendall's rank test, corrected for the correlation of neighbours;
- is at least as fast in its second half as half of the whole, and continues up to the newest values;
- has left the highest values before it behind.
"""

from statistics import median
from typing import NamedTuple

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.trend import Slope, autocorrelation, mann_kendall, theil_sen

_STRETCHES = (64, 32, 16)
_LATEST = 4
_KEPT_UP = 0.8


class SteadyRise(NamedTuple):
    """A rise along a line over points of one scale."""

    scale: int
    points: list[Point]
    line: Slope

    @property
    def since(self) -> int:
        return self.points[0].time

    @property
    def now(self) -> int:
        return self.points[-1].time

    @property
    def first(self) -> float:
        return self.line.at(self.since)

    @property
    def last(self) -> float:
        return self.line.at(self.now)


def steady_rise(
    history: MultiscaleSeries, least: float, p: float, duration: int = 0, start: int = 0
) -> SteadyRise | None:
    """The rise at the end of the history by at least `least`, on the finest scale that has one.

    It lasts for at least `duration` ms. Points before the time `start` do not count. Only scales that have just
    received a point are tested.
    """
    for scale in range(len(history.scales)):
        if scale and history.scales[scale - 1].waiting:
            return None
        points = [q for q in history.points(scale) if q.time >= start]
        for length in _STRETCHES:
            if len(points) >= length and points[-1].time - points[-length].time >= duration:
                before = _highest(history, scale, points[-length].time, start)
                if (line := _line(points[-length:], before, history, least, p / len(_STRETCHES))) is not None:
                    return SteadyRise(scale, points[-length:], line)
    return None


def _line(points: list[Point], before: float, history: MultiscaleSeries, least: float, p: float) -> Slope | None:
    """The line through a stretch that rises steadily, or None."""
    times, values = [q.time for q in points], [q.value for q in points]
    third, half = len(points) // 3, len(points) // 2
    first, last = median(values[:third]), median(values[-third:])
    if last - first < least or last < before + least / 2:
        return None
    newest = median(history.scales[0].values()[-_LATEST:])
    line = theil_sen(times, values)
    if line.low <= 0 or newest < first + _KEPT_UP * (line.at(times[-1]) - first):
        return None
    if min(theil_sen(times[n:], values[n:]).slope for n in (half, -third)) < line.slope / 2:
        return None
    rest = [v - line.at(t) for t, v in zip(times, values, strict=True)]
    return line if mann_kendall(values, autocorrelation(rest)) < p else None


def _highest(history: MultiscaleSeries, scale: int, time: int, start: int) -> float:
    """The highest value before a time, from this scale and coarser ones; 0 if none is known."""
    scales = range(scale, len(history.scales))
    return max((q.value for n in scales for q in history.points(n) if start <= q.time < time), default=0.0)
