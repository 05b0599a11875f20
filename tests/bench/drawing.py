"""Draws a dashboard: its panels at their places, with what a Prometheus answers. As plain as a print of Grafana's."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

from tests.bench.humanize import humanize
from tests.dashboard_queries import filled
from tests.prometheus_server import Prometheus

_UNIT_IN = 0.3
_COLUMN_IN = 0.55
_PAD = {"timeseries": 0.045, "state-timeline": 0.09}
_COLOURS = {"green": "#56a64b", "orange": "#ff9830", "red": "#e02f44", "blue": "#5794f2"}


class View(NamedTuple):
    """What is looked at: the times, epoch s, the step of lines, s, and the cluster that is chosen."""

    server: Prometheus
    first: float
    last: float
    step: float
    cluster: str = ".*"


def draw(dashboard: dict[str, Any], view: View, file: Path, rows: int = 1_000) -> None:
    """Write the panels above line `rows` of the dashboard's grid to a PNG."""
    panels = [p for p in dashboard["panels"] if p["gridPos"]["y"] + p["gridPos"]["h"] <= rows]
    lines = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels) + 1
    mpl.rcParams.update({"font.size": 7, "axes.titlesize": 8, "axes.titleweight": "bold", "axes.titlelocation": "left"})
    figure = Figure(figsize=(24 * _COLUMN_IN, lines * _UNIT_IN + 0.4), facecolor="#f4f5f5")
    figure.suptitle(dashboard["title"], x=0.01, y=0.995, ha="left", va="top", fontsize=11, fontweight="bold")
    scale = lines * _UNIT_IN / (lines * _UNIT_IN + 0.4)
    for panel in panels:
        at = panel["gridPos"]
        top, height = 1 - at["y"] / lines, at["h"] / lines
        pad = _PAD.get(panel["type"], 0.012)
        place = (at["x"] / 24 + pad, (top - height) * scale, at["w"] / 24 - pad - 0.01, height * scale)
        margins = (1.35, 1.6) if panel["type"] == "timeseries" else (0.9, 1.6) if panel["type"] != "row" else (0, 0)
        below, above = margins[0] / lines * scale, margins[1] / lines * scale
        axes = figure.add_axes((place[0], place[1] + below, place[2], max(0.001, place[3] - below - above)))
        _PAINT[panel["type"]](axes, panel, view)
        if panel["type"] == "timeseries":
            _annotate(axes, dashboard, view)
    figure.savefig(file, dpi=90)
    # A print has few colours: a third of the size.
    Image.open(file).convert("P", palette=Image.Palette.ADAPTIVE, colors=128).save(file, optimize=True)


def _line_graph(axes: Axes, panel: dict[str, Any], view: View) -> None:
    axes.set_title(panel["title"])
    options = panel["fieldConfig"]["defaults"]
    limits = {
        o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"] if o["matcher"]["id"] == "byFrameRefID"
    }
    stacked = options["custom"].get("stacking", {}).get("mode") == "normal"
    count, below = 0, dict[datetime, float]()
    for target in panel["targets"]:
        for series in view.server.over(filled(target["expr"], view.cluster), view.first, view.last, view.step):
            times, values = _points(series, view.step)
            style = {"color": _COLOURS["red"], "linestyle": "--"} if target["refId"] in limits else {"linewidth": 1.2}
            label = _legend(target["legendFormat"], series["metric"])[:48] if count < 6 else ""
            if stacked:
                base = [below.get(t, 0.0) for t in times]
                below.update({t: b + v for t, b, v in zip(times, base, values, strict=True) if v == v})
                tops = [b + v for b, v in zip(base, values, strict=True)]
                axes.fill_between(times, base, tops, step="post", alpha=0.6, label=label)  # type: ignore[arg-type]
            else:
                axes.plot(times, values, label=label, **style)  # type: ignore[arg-type]
            count += 1
    if not count:
        axes.text(0.5, 0.5, "No data", transform=axes.transAxes, ha="center", color="grey")
    steps = options.get("thresholds", {}).get("steps", [])
    if len(steps) > 1:
        axes.axhline(steps[-1]["value"], color=_COLOURS["red"], linestyle="--", linewidth=1)
    axes.set_xlim(_time(view.first), _time(view.last))
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]), top=axes.get_ylim()[1] if count else 1)
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M" if view.last - view.first > 1_200 else "%H:%M:%S", tz=UTC))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: humanize(value, options.get("unit", "short"))))
    axes.grid(color="#e4e5e6", linewidth=0.6)
    axes.spines[:].set_visible(False)
    if count:
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(0, -0.1),
            ncols=2 if max(map(len, axes.get_legend_handles_labels()[1]), default=0) > 30 else 3,
            frameon=False,
            fontsize=6,
            borderaxespad=0,
        )


def _number(axes: Axes, panel: dict[str, Any], view: View) -> None:
    target = panel["targets"][0]
    found = view.server.instant(filled(target["expr"], view.cluster), view.last)
    options, colour = panel["fieldConfig"]["defaults"], "white"
    if found and panel["options"]["textMode"] == "name":
        text = _legend(target["legendFormat"], found[0]["metric"])
    elif found:
        value = float(found[0]["value"][1])
        text = humanize(value, options.get("unit", "short"))
        if panel["options"]["colorMode"] == "background":
            steps = [s for s in options["thresholds"]["steps"] if s["value"] is None or value >= s["value"]]
            colour = _COLOURS[steps[-1]["color"]]
    else:
        text = options.get("noValue", "No data")
    axes.set_title(panel["title"])
    axes.set_facecolor(colour)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=14)


def _listing(axes: Axes, panel: dict[str, Any], view: View) -> None:
    organize = panel["transformations"][1]["options"]
    units = {o["matcher"]["options"]: o["properties"][0]["value"] for o in panel["fieldConfig"]["overrides"]}
    names, rows = list(organize["renameByName"].values()), dict[tuple[tuple[str, str], ...], dict[str, str]]()
    for name, target in zip(names, panel["targets"], strict=True):
        for series in view.server.instant(filled(target["expr"], view.cluster), view.last):
            key = tuple(sorted((k, v) for k, v in series["metric"].items() if k not in organize["excludeByName"]))
            rows.setdefault(key, {})[name] = humanize(float(series["value"][1]), units.get(name, "short"))
    labels = sorted({label for key in rows for label, _ in key})
    axes.set_title(panel["title"])
    axes.axis("off")
    if rows:
        cells = [
            [dict(key).get(label, "") for label in labels] + [row.get(n, "") for n in names]
            for key, row in rows.items()
        ]
        table = axes.table(
            cells[:7], colLabels=[*labels, *names], loc="upper center", cellLoc="left", edges="horizontal"
        )
        table.auto_set_font_size(False)
        table.set_fontsize(7)


def _states(axes: Axes, panel: dict[str, Any], view: View) -> None:
    axes.set_title(panel["title"])
    target, names = panel["targets"][0], panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    found = view.server.over(filled(target["expr"], view.cluster), view.first, view.last, view.step)
    for row, series in enumerate(sorted(found, key=lambda one: str(one["metric"]), reverse=True)):
        for at, value in series["values"]:
            colour = _COLOURS[names[value]["color"]]
            axes.barh(row, width=_time(at + view.step) - _time(at), left=_time(at), color=colour, height=0.8)  # type: ignore[arg-type]
    axes.set_yticks(range(len(found)), sorted((str(one["metric"].get("cluster")) for one in found), reverse=True))
    axes.set_xlim(_time(view.first), _time(view.last))
    axes.xaxis.set_major_formatter(DateFormatter("%H:%M" if view.last - view.first > 1_200 else "%H:%M:%S", tz=UTC))
    axes.spines[:].set_visible(False)


def _row(axes: Axes, panel: dict[str, Any], view: View) -> None:
    axes.axis("off")
    axes.text(0, 0.35, f"▾ {panel['title']}", transform=axes.transAxes, fontsize=9, fontweight="bold")


_PAINT: dict[str, Callable[[Axes, dict[str, Any], View], None]] = {
    "timeseries": _line_graph,
    "stat": _number,
    "table": _listing,
    "state-timeline": _states,
    "row": _row,
}


def _annotate(axes: Axes, dashboard: dict[str, Any], view: View) -> None:
    for annotation in dashboard["annotations"].get("list", []):
        for series in view.server.over(filled(annotation["expr"], view.cluster), view.first, view.last, view.step):
            times = [_time(float(t)) for t, _ in series["values"]]
            axes.axvspan(times[0], times[-1], color=_COLOURS[annotation["iconColor"]], alpha=0.2, linewidth=0)  # type: ignore[arg-type]


def _points(series: dict[str, Any], step: float) -> tuple[list[datetime], list[float]]:
    times, values = list[datetime](), list[float]()
    before = 0.0
    for at, value in series["values"]:
        if times and at - before > 1.5 * step:
            times.append(_time(before + step))
            values.append(float("nan"))
        times.append(_time(at))
        values.append(float(value))
        before = at
    return times, values


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, tz=UTC)


def _legend(pattern: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), pattern)
