"""Draws the numbers behind an incident as a PNG, in a separate process (`python -m` this module).

The process reads a request as JSON from standard input and writes the picture to standard output. Its end frees the
memory that matplotlib used.
"""

import os
import sys
import warnings
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from typing import Any, NamedTuple

import msgspec

from detectors.incident import Forecast, Series

WIDTH, HEIGHT = 900, 420
"""Pixels."""

_DPI = 100
_POINTS = 64
_TITLE_LIMIT, _NAME_LIMIT = 90, 50
# Times that can be drawn: from 1970 to the year 9000.
_TIMES = range(221_845_392_000_000)
_MUCH = 1e300
# A limit or a forecast beyond this multiple of the values or of the time span would flatten the curve.
_FAR_UP, _FAR_ON = 8.0, 4.0
# Tick labels have no seconds in a chart of more than 20 minutes, and no time of day in one of more than 8 days.
_SECONDS_BELOW_DAYS, _DATES_FROM_DAYS = 20 / 1440, 8.0
# Of each unit in the readings: the units that people use, their size, and the value from which each is used. 1 kB is
# 1,024 bytes, as in Flink's web UI.
_UNITS: dict[str, list[tuple[str, float, float]]] = {
    "bytes": [("bytes", 1, 0), *((name, 1024**n, 1024**n) for n, name in enumerate(("kB", "MB", "GB", "TB"), 1))],
    "s": [("ms", 0.001, 0), ("s", 1, 1), ("min", 60, 180), ("h", 3600, 10_800), ("days", 86_400, 259_200)],
}
_WORDS = {"ms": "milliseconds", "s": "seconds", "min": "minutes", "h": "hours"}

Points = list[tuple[int, float]]


class ChartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to draw: `since` is the first symptom, `until` the end of the incident or None (epoch ms)."""

    title: str
    series: Series
    since: int
    until: int | None = None
    forecast: Forecast | None = None


class UnitScale(NamedTuple):
    """Values divided by `factor` are in `unit`; an empty one is a plain number."""

    factor: float
    unit: str

    def format(self, value: float) -> str:
        """A value with its unit, for instance "30 s"."""
        return f"{value / self.factor:,.4g} {self.unit}".rstrip()

    @property
    def full_name(self) -> str:
        return _WORDS.get(self.unit, self.unit)


def scale_for(unit: str, values: Iterable[float]) -> UnitScale:
    """The unit in which the greatest of `values` is a readable number.

    >>> scale_for("bytes", [3e9]), scale_for("s", [240.0]), scale_for("MB", [12.0])
    (UnitScale(factor=1073741824.0, unit='GB'), UnitScale(factor=60.0, unit='min'), UnitScale(factor=1.0, unit='MB'))
    """
    greatest = max(map(abs, values), default=0.0)
    fitting = [UnitScale(float(size), name) for name, size, least in _UNITS.get(unit, ()) if greatest >= least]
    return fitting[-1] if fitting else UnitScale(1.0, unit)


def draw(order: ChartRequest) -> bytes:
    """The chart as a PNG of WIDTH × HEIGHT pixels, the same bytes for the same request.

    Raises ValueError if no point can be drawn.
    """
    # Imported here, so that processes that only request charts do not load matplotlib.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    points, fit, failed = map(_drawable, (order.series.points, order.series.fit, order.series.failed))
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


def _drawable(points: Points) -> Points:
    """The newest points that can be drawn, in order of time."""
    return sorted(point for point in points if point[0] in _TIMES and abs(point[1]) < _MUCH)[-_POINTS:]


def _columns(points: Points, scale: UnitScale) -> tuple[list[datetime], list[float]]:
    return [_moment(time) for time, _ in points], [value / scale.factor for _, value in points]


def _mark_limit(axes: Any, threshold: float | None, points: Points, scale: UnitScale) -> None:
    if threshold is None or not abs(threshold) < _MUCH:
        return
    label = f"limit {scale.format(threshold)}"
    if abs(threshold) <= _FAR_UP * max(abs(value) for _, value in points):
        axes.axhline(threshold / scale.factor, color="#e01e5a", lw=1.2, label=label)
    else:
        axes.plot([], [], color="#e01e5a", lw=1.2, label=f"{label} (outside the chart)")


def _mark_times(axes: Any, order: ChartRequest, points: Points) -> None:
    first, last = points[0][0], points[-1][0]
    span = max(last - first, 60_000)
    if first <= order.since <= last:
        axes.axvline(_moment(order.since), color="#616061", ls=":", lw=1.2, label="first symptom")
    if order.until is not None and order.until in _TIMES and order.until - last <= _FAR_ON * span:
        axes.axvline(_moment(order.until), color="#2eb67d", lw=1.2, label="resolved")
    forecast = order.forecast
    if forecast is None or not all(time in _TIMES for time in (forecast.at, forecast.earliest, forecast.latest)):
        return
    what = f"{_text(forecast.what)}, {_moment(forecast.at):%Y-%m-%d %H:%M} UTC"
    if forecast.at - last <= _FAR_ON * span:
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
