"""Panels with the same style and kind of queries on every dashboard."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.models import common as looks
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT = 8
GREEN, ORANGE, RED = "green", "orange", "red"
SEVERITIES = {"critical": RED, "warning": ORANGE, "info": "blue"}

Panel = timeseries.Panel | stat.Panel | table.Panel | statetimeline.Panel
_Panel = TypeVar("_Panel", timeseries.Panel, stat.Panel, table.Panel, statetimeline.Panel)


class Query(NamedTuple):
    """A query of a panel. With `limit`, the result is drawn as a dashed limit."""

    expr: str
    legend: str = ""
    limit: bool = False


class Column(NamedTuple):
    """A column of a table: query, heading and unit."""

    expr: str
    name: str
    unit: str = "short"


def graph(
    title: str,
    about: str,
    *queries: Query,
    unit: str = "short",
    limit: float | None = None,
    stacked: bool = False,
    width: int = 12,
) -> timeseries.Panel:
    """Lines over time; `limit` is a fixed limit in the panel's unit."""
    panel = (
        _asking(timeseries.Panel(), title, about, width, HEIGHT, queries)
        .unit(unit)
        .axis_soft_min(0)
        .line_width(1)
        .fill_opacity(25 if stacked else 5)
        .line_interpolation(looks.LineInterpolation.STEP_AFTER if stacked else looks.LineInterpolation.LINEAR)
        .show_points(looks.VisibilityMode.NEVER)
        .tooltip(common.VizTooltipOptions().mode(looks.TooltipDisplayMode.MULTI))
        .legend(
            common.VizLegendOptions()
            .display_mode(looks.LegendDisplayMode.LIST)
            .placement(looks.LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(looks.StackingMode.NORMAL)).decimals(0)
    if limit is not None:
        panel.thresholds(_levels((None, GREEN), (limit, RED)))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(looks.GraphTresholdsStyleMode.DASHED))
    dashed = {
        "color": {"mode": "fixed", "fixedColor": RED},
        "custom.lineStyle": {"fill": "dash", "dash": [10, 10]},
        "custom.fillOpacity": 0,
    }
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        if query.limit:
            panel.override_by_query(letter, [models.DynamicConfigValue(*each) for each in dashed.items()])
    return panel


def number(
    title: str, about: str, expr: str, *levels: tuple[float, str], unit: str = "short", width: int = 4
) -> stat.Panel:
    """One current number. From each of `levels` it has the given colour, below the first it is green."""
    return (
        _asking(stat.Panel(), title, about, width, 4, [Query(expr)], instant=True)
        .unit(unit)
        .no_value("none")
        .thresholds(_levels((None, GREEN), *levels))
        .color_mode(looks.BigValueColorMode.BACKGROUND if levels else looks.BigValueColorMode.NONE)
        .graph_mode(looks.BigValueGraphMode.NONE)
    )


def word(title: str, about: str, expr: str, label: str, width: int = 4) -> stat.Panel:
    """The value of a label of an info metric."""
    return (
        _asking(stat.Panel(), title, about, width, 4, [Query(expr, f"{{{{{label}}}}}")], instant=True)
        .no_value("none")
        .text_mode(looks.BigValueTextMode.NAME)
        .color_mode(looks.BigValueColorMode.NONE)
        .graph_mode(looks.BigValueGraphMode.NONE)
    )


def listing(title: str, about: str, *columns: Column, hidden: tuple[str, ...] = (), width: int = 24) -> table.Panel:
    """A table of the current series: their labels, then a column for each query."""
    queries = [Query(column.expr) for column in columns]
    panel = _asking(table.Panel(), title, about, width, 6, queries, instant=True, shape=PromQueryFormat.TABLE)
    # Grafana names the value of a single query differently.
    values = [f"Value #{letter}" for letter, _ in zip(ascii_uppercase, columns, strict=False)]
    names = dict(zip(values if len(columns) > 1 else ["Value"], (c.name for c in columns), strict=True))
    panel.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    organize = {"excludeByName": dict.fromkeys(("Time", *hidden), True), "renameByName": names}
    panel.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
    for column in columns:
        panel.override_by_name(column.name, [models.DynamicConfigValue("unit", column.unit)])
    colours = {s: {"color": c, "text": s} for s, c in SEVERITIES.items()}
    coloured = [
        models.DynamicConfigValue("mappings", [{"type": "value", "options": colours}]),
        models.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
    ]
    return panel.override_by_name("severity", coloured)


def states(
    title: str, about: str, query: Query, names: dict[int, tuple[str, str]], width: int = 24
) -> statetimeline.Panel:
    """Coloured bars over time; `names` has text and colour of each value."""
    options = {
        str(value): models.ValueMappingResult(text=text, color=colour) for value, (text, colour) in names.items()
    }
    return (
        _asking(statetimeline.Panel(), title, about, width, HEIGHT, [query])
        .mappings([models.ValueMap(options=options)])
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .show_value(looks.VisibilityMode.NEVER)
        .merge_values(True)
    )


def _levels(*levels: tuple[float | None, str]) -> dashboard.ThresholdsConfig:
    return (
        dashboard.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=colour) for value, colour in levels])
    )


def _asking(
    panel: _Panel,
    title: str,
    about: str,
    width: int,
    height: int,
    queries: Sequence[Query],
    *,
    instant: bool = False,
    shape: PromQueryFormat = PromQueryFormat.TIME_SERIES,
) -> _Panel:
    panel.title(title).description(about).datasource(DATASOURCE).span(width).height(height)
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter).format(shape)
        panel.with_target((target.instant() if instant else target.range()).datasource(DATASOURCE))
    return panel
