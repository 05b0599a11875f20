"""The frame of a dashboard: title, links, variables and rows."""

from collections.abc import Iterable

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from dashboards.panels import DATASOURCE, Panel


def choice(name: str, label: str, query: str, *, several: bool = True) -> dashboard.QueryVariable:
    """A variable at the top of a dashboard, filled by a query. With `several`, all values are selected at first."""
    menu = (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )
    # `.*` also matches series without the label.
    return menu.multi(True).include_all(True).all_value(".*") if several else menu


def board(uid: str, title: str, about: str, since: str, *tags: str) -> dashboard.Dashboard:
    """An empty dashboard with a variable for the data source and links to the other dashboards."""
    others = (
        dashboard.DashboardLink("flinkwatch")
        .type(models.DashboardLinkType.DASHBOARDS)
        .tags(["flinkwatch"])
        .keep_time(True)
        .as_dropdown(False)
    )
    return (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["flinkwatch", *tags])
        .refresh("30s")
        .time(since, "now")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .link(others)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )


def fill(made: dashboard.Dashboard, rows: dict[str, Iterable[Panel]]) -> dashboard.Dashboard:
    """Add panels in rows with headings; panels under "" get no heading. IDs are numbered in order."""
    number = 0
    for heading, panels in rows.items():
        if heading:
            number += 1
            made.with_row(dashboard.Row(heading).id(number))
        for panel in panels:
            number += 1
            made.with_panel(panel.id(number))
    return made
