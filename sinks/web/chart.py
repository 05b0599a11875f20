"""The chart of a finding as SVG: a pure function of its series.

Colours are classes of `style.css`, so that the chart is readable on light and dark paper, and a policy without inline
styles permits it.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from markupsafe import Markup

from detectors.incident import Forecast, Series
from detectors.values.durations import humanize
from sinks.contract.series_scale import (
    FAR_ON,
    FAR_UP,
    Points,
    UnitScale,
    drawable,
    drawable_time,
    drawable_value,
    scale_for,
)
from sinks.contract.wording import clock_time, moment
from sinks.web.templating import render

_WIDTH, _HEIGHT = 480, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 466, 12, 194
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)
_TIME_TICKS, _VALUE_TICKS = 6, 4
_MOST_CHANGES = 100


class Tick(msgspec.Struct, frozen=True):
    """A mark of an axis: its place in the picture, and its label."""

    at: float
    label: str


class Axes(msgspec.Struct, frozen=True):
    """The times and values that the picture shows, and where each is in it. Values are divided by the unit's factor."""

    first: int
    last: int
    low: float
    high: float

    def x(self, time: int) -> float:
        return round(_LEFT + (time - self.first) / (self.last - self.first) * (_RIGHT - _LEFT), 1)

    def y(self, value: float) -> float:
        return round(_BOTTOM - (value - self.low) / (self.high - self.low) * (_BOTTOM - _TOP), 1)

    def shows(self, time: int) -> bool:
        return self.first <= time <= self.last


class Curves(msgspec.Struct, frozen=True):
    """What can be drawn of a series, in the unit of `scale`. `limit` is None if it is far outside."""

    points: Points
    fit: Points
    failed: Points
    scale: UnitScale
    limit: float | None


def draw_chart(
    series: Series, forecast: Forecast | None = None, changes: Sequence[int] = (), *, name: str = "chart"
) -> Markup:
    """The figure of a series; empty if nothing of it can be drawn.

    `changes` are the times of the incident's transitions (epoch ms), `name` the figure's ID in the page.
    """
    curves = _curves(series)
    if curves is None:
        return Markup()
    ahead = _drawable_forecast(forecast, curves)
    axes = _axes(curves, ahead, changes)
    html = render(
        "chart.svg.j2",
        name=name,
        series=series,
        scale=curves.scale,
        axes=axes,
        box=(_LEFT, _TOP, _RIGHT, _BOTTOM),
        size=(_WIDTH, _HEIGHT),
        points=_path(axes, curves.points),
        dots=[(axes.x(time), axes.y(value)) for time, value in curves.points],
        fit=_path(axes, curves.fit),
        failed=[(axes.x(time), axes.y(value)) for time, value in curves.failed],
        limit=None if curves.limit is None else axes.y(curves.limit),
        limit_words=_limit_words(series, curves),
        forecast=ahead and (axes.x(ahead.earliest), axes.x(min(ahead.latest, axes.last)), axes.x(ahead.at)),
        forecast_words=_forecast_words(forecast, ahead),
        changes=[axes.x(time) for time in changes[-_MOST_CHANGES:] if axes.shows(time)],
        times=_time_ticks(axes),
        values=_value_ticks(axes),
        words=_in_words(series, curves),
        first=moment(curves.points[0][0]),
    )
    return Markup(html)  # noqa: S704  # nosec B704 - it was rendered with escaped values


def _curves(series: Series) -> Curves | None:
    points, fit, failed = map(drawable, (series.points, series.fit, series.failed))
    if not points:
        return None
    values = [value for _, value in (*points, *failed)]
    scale = scale_for(series.unit, values)

    def scaled(found: Points) -> Points:
        return [(time, value / scale.factor) for time, value in found]

    most = max(map(abs, values))
    limit = series.threshold
    shown = limit is not None and drawable_value(limit) and abs(limit) <= FAR_UP * most
    # A fitted curve that leaves the picture would flatten the points.
    near = [point for point in fit if abs(point[1]) <= 2 * max(most, abs(limit) if shown and limit else 0.0)]
    return Curves(
        scaled(points),
        scaled(near),
        scaled(failed),
        scale,
        limit / scale.factor if shown and limit is not None else None,
    )


def _span(curves: Curves) -> tuple[int, int]:
    times = [time for time, _ in (*curves.points, *curves.failed)]
    first, last = min(times), max(times)
    return first, max(last, first + _MINUTE)


def _drawable_forecast(forecast: Forecast | None, curves: Curves) -> Forecast | None:
    """The forecast if it is near enough to be in the picture."""
    if forecast is None or not all(map(drawable_time, (forecast.at, forecast.earliest, forecast.latest))):
        return None
    first, last = _span(curves)
    near = first <= forecast.earliest <= forecast.at <= last + FAR_ON * (last - first)
    return forecast if near else None


def _axes(curves: Curves, ahead: Forecast | None, changes: Sequence[int]) -> Axes:
    first, last = _span(curves)
    span = last - first
    near = [time for time in changes if last < time <= last + span // 2]
    end = max([last, *near])
    if ahead is not None:
        end = max(end, ahead.at + span // 10, min(ahead.latest, ahead.at + span // 2))
    values = [value for _, value in (*curves.points, *curves.failed, *curves.fit)]
    values += [] if curves.limit is None else [curves.limit]
    low, high = min(values), max(values)
    if low >= 0 and low < high / 2:
        low = 0.0
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axes(first, end, low if low == 0.0 else low - room, high + room)


def _path(axes: Axes, points: Points) -> str:
    return " ".join(f"{axes.x(time)},{axes.y(value)}" for time, value in points)


def _value_ticks(axes: Axes) -> list[Tick]:
    rough = (axes.high - axes.low) / _VALUE_TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * n for n in (1, 2, 2.5, 5, 10) if size * n >= rough * 0.999)
    first = math.ceil(axes.low / step - 1e-9)
    found = [step * n for n in range(first, first + 2 * _VALUE_TICKS + 2)]
    return [Tick(axes.y(value), f"{value:,.6g}") for value in found if value <= axes.high]


def _time_ticks(axes: Axes) -> list[Tick]:
    span = axes.last - axes.first
    step = next((step for step in _STEPS if span / step <= _TIME_TICKS), span // _TIME_TICKS)
    first = -(-axes.first // step) * step
    return [Tick(axes.x(time), _label(time, step, span)) for time in range(first, axes.last + 1, step)]


def _label(time: int, step: int, span: int) -> str:
    at = datetime.fromtimestamp(time / 1000, tz=UTC)
    if step >= _DAY:
        return f"{at:%b %d}" if span < 300 * _DAY else f"{at:%Y-%m}"
    if span > _DAY:
        return f"{at:%d. %H:%M}"
    return f"{at:%H:%M}" if step >= _MINUTE else f"{at:%H:%M:%S}"


def _limit_words(series: Series, curves: Curves) -> str:
    if series.threshold is None or not drawable_value(series.threshold):
        return ""
    outside = "" if curves.limit is not None else " (outside the chart)"
    return f"limit {curves.scale.format(series.threshold)}{outside}"


def _forecast_words(forecast: Forecast | None, ahead: Forecast | None) -> str:
    if forecast is None:
        return ""
    outside = "" if ahead is not None else " (outside the chart)"
    return f"{forecast.what}, {moment(forecast.at)}{outside}"


def _in_words(series: Series, curves: Curves) -> str:
    """The chart for someone who cannot see it."""
    points, scale = curves.points, curves.scale
    unit = UnitScale(1.0, scale.unit)
    (first, begins), (last, ends) = points[0], points[-1]
    least, most = min(value for _, value in points), max(value for _, value in points)
    words = [
        f"{series.name}, {len(points)} values over {humanize(last - first)}, from {moment(first)} to {moment(last)}",
        f"first {unit.format(begins)}, last {unit.format(ends)}",
        f"lowest {unit.format(least)}, highest {unit.format(most)}",
    ]
    if limit := _limit_words(series, curves):
        words.append(limit)
    words += [f"failed at {clock_time(time, last)} UTC: {unit.format(value)}" for time, value in curves.failed[-5:]]
    return "; ".join(words) + "."
