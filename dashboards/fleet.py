"""The dashboard of all clusters: open incidents, where, since when, and how long until they get worse."""

from collections.abc import Iterator
from itertools import chain

from grafana_foundation_sdk.builders import dashboard

from dashboards.frame import board, fill
from dashboards.panels import GREEN, ORANGE, RED, Column, Panel, Query, graph, listing, number, states

# Every delivery process exports every incident.
_SERIES = "max by (kind, severity, cluster, job)"
_OPEN = f"{_SERIES} (flinkwatch_incident_active)"
_SINCE = f"{_SERIES} (flinkwatch_incident_since_timestamp_seconds)"
_FORECAST = f"{_SERIES} (flinkwatch_incident_forecast_timestamp_seconds)"
_CLUSTERS = 'max by (cluster) ({__name__=~"flinkwatch_last_(sample|log_line)_timestamp_seconds"})'


def _count(severity: str) -> str:
    return f'sum({_SERIES} (flinkwatch_incident_active{{severity="{severity}"}})) or vector(0)'


def _worst() -> str:
    critical = 'max by (cluster) (flinkwatch_incident_active{severity="critical"} > bool 0)'
    warning = 'max by (cluster) (flinkwatch_incident_active{severity="warning"} > bool 0)'
    return f"2 * {critical} or {warning} or 0 * {_CLUSTERS}"


def fleet() -> dashboard.Dashboard:
    made = board("flinkwatch-fleet", "Flink fleet", "Incidents of all Flink clusters.", "now-24h")
    return fill(made, {"": chain(_numbers(), _incidents(), _forecasts())})


def _numbers() -> Iterator[Panel]:
    yield number("Critical", "Critical incidents that are not resolved.", _count("critical"), (1, RED))
    yield number("Warning", "Warning incidents that are not resolved.", _count("warning"), (1, ORANGE))
    silenced = f"sum({_SERIES} (flinkwatch_incident_silenced)) or vector(0)"
    yield number("Silenced", "Open incidents that are silenced.", silenced)
    yield number("Clusters", "Flink clusters that send data to flinkwatch.", f"count({_CLUSTERS})")
    affected = f"count(count by (cluster) ({_OPEN})) or vector(0)"
    yield number("Clusters with incidents", "Clusters with open incidents.", affected, (1, ORANGE))
    about = "Time until the first open incident is expected to get worse."
    yield number("Next limit in", about, f"min({_FORECAST} - time() > 0)", unit="s")


def _incidents() -> Iterator[Panel]:
    yield states(
        "Health of each cluster",
        "Highest severity of the cluster's open incidents.",
        Query(_worst(), "{{cluster}}"),
        {0: ("healthy", GREEN), 1: ("warning", ORANGE), 2: ("critical", RED)},
    )
    for by in ("kind", "cluster"):
        query = Query(f"sum by ({by}) ({_OPEN})", f"{{{{{by}}}}}")
        yield graph(f"Open incidents by {by}", "Incidents that are not resolved.", query, stacked=True)
    yield listing(
        "Open incidents",
        "Incidents that are not resolved. The notification of each has evidence and advice.",
        Column(_OPEN, "incidents"),
        Column(f"time() - {_SINCE}", "duration", "s"),
        Column(f"{_FORECAST} - time()", "worse in", "s"),
    )
    acknowledged = "max by (incident, cluster, person) (flinkwatch_incident_acknowledged_timestamp_seconds)"
    yield listing(
        "Acknowledged incidents",
        "Open incidents that someone has acknowledged in Slack.",
        Column(f"time() - {acknowledged}", "acknowledged for", "s"),
    )


def _forecasts() -> Iterator[Panel]:
    about = "Forecast time until an incident gets worse: checkpoint timeout, full heap, registration timeout."
    query = Query(f"{_FORECAST} - time()", "{{cluster}} {{job}}: {{kind}}")
    yield graph("Time to limits", about, query, unit="s")
    bounds = [
        Query(
            f"{_SERIES} (flinkwatch_incident_forecast_{bound}_timestamp_seconds) - time()",
            f"{{{{cluster}}}} {{{{job}}}}: {{{{kind}}}}, {bound}",
        )
        for bound in ("earliest", "latest")
    ]
    about = "Earliest and latest forecast time until an incident gets worse."
    yield graph("Time to limits, earliest and latest", about, *bounds, unit="s")
    opened = "max by (kind, severity) (increase(flinkwatch_incidents_total[1h])) > 0"
    about = "Incidents opened in the last hour, by kind."
    yield graph("Incidents opened", about, Query(opened, "{{kind}} ({{severity}})"), width=24)
