"""Draws the numbers behind an incident as a PNG, in a separate process (`python -m` this module).

The process reads a request as JSON from standard input and writes the picture to standard output. Its end frees the
memory that matplotlib used.
"""

import os
import sys
import warnings
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import msgspec

from detectors.incident import Forecast, Series
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

WIDTH, HEIGHT = 900, 420
"""Pixels."""

_DPI = 100
_TITLE_LIMIT, _NAME_LIMIT = 90, 50
# Tick labels have no seconds in a chart of more than 20 minutes, and no time of day in one of more than 8 days.
_SECONDS_BELOW_DAYS, _DATES_FROM_DAYS = 20 / 1440, 8.0


class ChartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to draw: `since` is the first symptom, `until` the end of the incident or None (epoch ms)."""

    title: str
    series: Series
    since: int
    until: int | None = None
    forecast: Forecast | None = None


def draw(order: ChartRequest) -> bytes:
    """The chart as a PNG of WIDTH × HEIGHT pixels, the same bytes for the same request.

    Raises ValueError if no point can be drawn.
    """
    # Imported here, so that processes that only request charts do not load matplotlib.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    points, fit, failed = map(drawable, (order.series.points, order.series.fit, order.series.failed))
    if not points:
        raise ValueError("no point of the series can be drawn")
    everything = sorted([*points, *failed])
    scale = scale_for(order.series.unit, [value for _, value in everything])
    figure = Figure(figsize=(WIDTH / _DPI, HEIGHT / _DPI), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.add_subplot()
    axes.plot(*_columns(points, scale), color="#1264a3", marker=".", lw=1.2, label=_text(order.series.name))
    if fit:
        axes.plot(*_columns(fit, scale), color="#e8912d", ls="--", lw=1.5, label="trend")
    if failed:
        axes.plot(
            *_columns(failed, scale), color="#e01e5a", ls="", marker="x", ms=8, mew=2, label="expired at this age"
        )
    _mark_limit(axes, order.series.threshold, everything, scale)
    _mark_times(axes, order, everything)
    _label(axes, order, scale, everything)
    written = BytesIO()
    with warnings.catch_warnings():
        # A character that the font lacks is drawn as a box.
        warnings.simplefilter("ignore")
        figure.savefig(written, format="png", metadata={"Software": None})
    return written.getvalue()


def _columns(points: Points, scale: UnitScale) -> tuple[list[datetime], list[float]]:
    return [_moment(time) for time, _ in points], [value / scale.factor for _, value in points]


def _mark_limit(axes: Any, threshold: float | None, points: Points, scale: UnitScale) -> None:
    if threshold is None or not drawable_value(threshold):
        return
    label = f"limit {scale.format(threshold)}"
    if abs(threshold) <= FAR_UP * max(abs(value) for _, value in points):
        axes.axhline(threshold / scale.factor, color="#e01e5a", lw=1.2, label=label)
    else:
        axes.plot([], [], color="#e01e5a", lw=1.2, label=f"{label} (outside the chart)")


def _mark_times(axes: Any, order: ChartRequest, points: Points) -> None:
    first, last = points[0][0], points[-1][0]
    span = max(last - first, 60_000)
    if first <= order.since <= last:
        axes.axvline(_moment(order.since), color="#616061", ls=":", lw=1.2, label="first symptom")
    if order.until is not None and drawable_time(order.until) and order.until - last <= FAR_ON * span:
        axes.axvline(_moment(order.until), color="#2eb67d", lw=1.2, label="resolved")
    forecast = order.forecast
    if forecast is None or not all(drawable_time(time) for time in (forecast.at, forecast.earliest, forecast.latest)):
        return
    what = f"{_text(forecast.what)}, {_moment(forecast.at):%Y-%m-%d %H:%M} UTC"
    if forecast.at - last <= FAR_ON * span:
        axes.axvspan(_moment(forecast.earliest), _moment(forecast.latest), color="#ecb22e", alpha=0.3, lw=0)
        axes.axvline(_moment(forecast.at), color="#b7791f", lw=1.2, label=what)
        axes.set_xlim(right=_moment(min(max(forecast.latest, last), max(forecast.at, last) + span // 2)))
    else:
        axes.plot([], [], color="#b7791f", lw=1.2, label=f"{what} (outside the chart)")


def _label(axes: Any, order: ChartRequest, scale: UnitScale, points: Points) -> None:
    from matplotlib.dates import AutoDateLocator, DateFormatter  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    unit = f", {scale.full_name}" if scale.unit else ""
    axes.set_title(_text(order.title, _TITLE_LIMIT), loc="left", fontsize=11, fontweight="bold", parse_math=False)
    axes.set_ylabel(_text(f"{order.series.name}{unit}"), parse_math=False)
    axes.set_xlabel(f"UTC, from {_moment(points[0][0]):%Y-%m-%d %H:%M:%S}")
    locator: Any = AutoDateLocator(tz=UTC, minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(DateFormatter(_tick_format(axes.get_xlim()), tz=UTC))  # type: ignore[no-untyped-call]
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.grid(visible=True, color="#e8e8e8")
    axes.spines[["top", "right"]].set_visible(False)
    legend = axes.figure.legend(loc="outside lower left", ncols=3, fontsize=8, frameon=False)
    for text in legend.get_texts():
        # A `$` in a name is not the beginning of a formula.
        text.set_parse_math(False)


def _tick_format(limits: tuple[float, float]) -> str:
    """The format of tick labels: always a complete time of day or date. `limits` are in days."""
    days = limits[1] - limits[0]
    if days > _DATES_FROM_DAYS:
        return "%b %d"
    if days > 1:
        return "%b %d %H:%M"
    return "%H:%M" if days > _SECONDS_BELOW_DAYS else "%H:%M:%S"


def _moment(time: int) -> datetime:
    return datetime.fromtimestamp(time / 1000, tz=UTC)


def _text(text: str, limit: int = _NAME_LIMIT) -> str:
    """The text as one line of printable characters. A leading underscore would hide it from the legend."""
    shown = "".join(character if character.isprintable() else " " for character in text[:limit]).lstrip("_ ")
    return shown or "value"


def main() -> None:
    """Reads a request and writes the chart. On failure: exit status 1 and one line on standard error."""
    # Delivery has priority.
    os.nice(10)
    try:
        picture = draw(msgspec.json.decode(sys.stdin.buffer.read(), type=ChartRequest))
    except (ValueError, OverflowError) as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from None
    sys.stdout.buffer.write(picture)


if __name__ == "__main__":
    main()
