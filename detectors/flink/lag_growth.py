"""Whether a lag grows, and what that means: how fast, what share of the input is processed, and where it leads."""

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from detectors.incident import Forecast
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.trend import Slope, crossing, theil_sen
from detectors.values.durations import humanize, roughly

READ_UP_MS = 1.0
"""A lag up to this is that of a source that has read all records."""
# Event time that hardly advances while records are read: a batch that was written at once.
_STILL = 0.98
# Event time passes at the speed of the clock. A lag that grows faster is that of older records.
_FASTEST = 1.2
_DRAINS = 0.3
_STEADY = 0.5
_AS_FITTED = 0.7
_SHORTER = 0.8
_REGULAR = 2
_NEWEST = 3
_AS_HIGH = 0.8
_HOUR = 3_600_000
_ROUND = (_HOUR // 12, _HOUR // 4, _HOUR, 4 * _HOUR, 12 * _HOUR, 24 * _HOUR, 48 * _HOUR, 168 * _HOUR)


class LeastGrowth(NamedTuple):
    """What counts as growth: ms of input and records over so many ms and points."""

    input_ms: int
    records: int
    duration: int
    points: int


class LagGrowth(NamedTuple):
    """A lag that has grown along a line: in ms per ms, or in records per ms if it is not `timed`.

    `share` is the part of the input that is processed meanwhile, 0..1. `waiting` records are unread (-1: unknown).
    """

    since: int
    now: int
    line: Slope
    share: float
    timed: bool
    waiting: float

    @property
    def level(self) -> float:
        return self.line.at(self.now)

    def words(self, name: str) -> str:
        """Describe the growth for a message, the most important first."""
        part = "none" if self.share < 0.005 else f"about {self.share:.0%}"
        slope, processed = self.line.slope, f"it processes {part} of its input"
        if self.timed:
            unread = f"; at least {self.waiting:,.0f} records are unread" if self.waiting > 0 else ""
            pace = f"its lag is {humanize(self.level)} and grows by {humanize(slope * 60_000)} a minute"
            return f"{name} falls behind: {pace}; {processed}{unread}"
        pace = f"{self.level:,.0f} records are unread, {slope * 1_000:,.0f} more each second"
        return f"{name} falls behind: {pace}; {processed}"

    def forecast(self) -> Forecast | None:
        """When the lag reaches the next round duration that is at least twice what it is now."""
        level = next((r for r in _ROUND if r >= 2 * self.level), None) if self.timed else None
        ahead = crossing(self.line, level, self.now) if level is not None else None
        if level is None or ahead is None:
            return None
        return Forecast(f"the lag reaches {roughly(level)}", ahead.at, ahead.earliest, ahead.latest)


def growth(history: MultiscaleSeries, timed: bool, least: LeastGrowth) -> LagGrowth | None:
    """The growth at the end of a lag, on the finest scale that has one, over its longest stretch."""
    for scale in range(len(history.scales)):
        if scale and history.scales[scale - 1].waiting:
            return None
        for tail in _tails(history.points(scale), least):
            found = _grown(tail, timed, least)
            if found is not None:
                return None if _has_fallen(history, found) or _is_regular(history, scale, found) else found
    return None


def drained_at(points: list[Point]) -> int | None:
    """When a lag will be gone if it shrinks along a line, else None."""
    if len(points) < 3:
        return None
    line = _line(points)
    if line.high >= 0:
        return None
    gone = crossing(Slope(-line.slope, -line.intercept, -line.high, -line.low), 0.0, points[-1].time)
    return gone.at if gone is not None else None


def _grown(tail: list[Point], timed: bool, least: LeastGrowth) -> LagGrowth | None:
    # Cheap tests first. A source that has waited for records meanwhile keeps up.
    if tail[-1].value - tail[0].value < (least.input_ms if timed else least.records) / 2:
        return None
    if timed and min(p.value for p in tail[1:]) <= READ_UP_MS:
        return None
    line, took = _line(tail), tail[-1].time - tail[0].time
    if not _is_steady(tail, line):
        return None
    read = max(median(p.load for p in tail), 0.0) / 1_000
    missed = line.slope if timed else line.slope / (line.slope + read)
    enough = missed * took >= least.input_ms
    enough = enough and (line.at(tail[-1].time) >= least.input_ms if timed else line.slope * took >= least.records)
    if not enough or (timed and (line.slope > _FASTEST or _is_read(tail, line.slope, read))):
        return None
    waiting = max(max(p.size for p in tail[len(tail) // 2 :]) - 1, -1.0)
    return LagGrowth(tail[0].time, tail[-1].time, line, min(max(1 - missed, 0.0), 1.0), timed, waiting)


def _is_steady(tail: list[Point], line: Slope) -> bool:
    """Whether the lag rises along the line in both halves, and from end to end: a line also fits the teeth of a saw."""
    half, third = len(tail) // 2, max(len(tail) // 3, 1)
    if line.low <= 0 or min(_line(tail[: half + 1]).slope, _line(tail[half:]).slope) < line.slope * _STEADY:
        return False
    first, last = tail[:third], tail[-third:]
    apart = median(p.time for p in last) - median(p.time for p in first)
    return median(p.value for p in last) - median(p.value for p in first) >= _AS_FITTED * line.slope * apart


def _has_fallen(history: MultiscaleSeries, found: LagGrowth) -> bool:
    """Whether the newest samples are far below the line. The last point of a coarse scale is of the time before."""
    return median(p.value for p in history.points(0, _NEWEST)) < found.level / 2


def _is_regular(history: MultiscaleSeries, scale: int, found: LagGrowth) -> bool:
    """Whether the lag has been as high before and has fallen again, more than once: the teeth of a saw."""
    return any(_falls(history.before(s, found.since), found.level) >= _REGULAR for s in (scale, scale + 1))


def _falls(values: list[float], level: float) -> int:
    """How often values fell from a level to less than half of it."""
    count, high = 0, False
    for value in values:
        if value >= _AS_HIGH * level:
            high = True
        elif high and value < level / 2:
            count, high = count + 1, False
    return count


def _tails(points: list[Point], least: LeastGrowth) -> Iterator[list[Point]]:
    """The ends of a series that are long enough to be judged, the longest first."""
    count = len(points)
    while count >= least.points and points[-1].time - points[-count].time >= least.duration:
        yield points[-count:]
        count = min(int(count * _SHORTER), count - 1)


def _line(points: list[Point]) -> Slope:
    return theil_sen([p.time for p in points], [p.value for p in points])


def _is_read(tail: list[Point], slope: float, read: float) -> bool:
    """Whether the records that wait become fewer although their event time falls behind: a batch that is read.

    `read` is in records per ms. Where the unread records are unknown, event time that does not advance shows it.
    """
    if read <= 0:
        return False
    half = len(tail) // 2
    early, late = max(p.size for p in tail[:half]), max(p.size for p in tail[half:])
    if early < 0 or late < 0:
        return slope > _STILL
    return (early - late) / (tail[half].time - tail[0].time) > _DRAINS * read
