"""The dashboard of all clusters: open incidents, where, since when, and how long until they get worse."""

from collections.abc import Iterator

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
    return fill(made, {"": _panels()})


def _panels() -> Iterator[Panel]:
    yield from (
        number("Critical", "Critical incidents that are not resolved.", _count("critical"), (1, RED)),
        number("Warning", "Warning incidents that are not resolved.", _count("warning"), (1, ORANGE)),
        number(
            "Silenced",
            "Open incidents that are silenced.",
            f"sum({_SERIES} (flinkwatch_incident_silenced)) or vector(0)",
        ),
        number("Clusters", "Flink clusters that send data to flinkwatch.", f"count({_CLUSTERS})"),
        number(
            "Clusters with incidents",
            "Clusters with open incidents.",
            f"count(count by (cluster) ({_OPEN})) or vector(0)",
            (1, ORANGE),
        ),
        number(
            "Next limit in",
            "Time until the first open incident is expected to get worse.",
            f"min({_FORECAST} - time() > 0)",
            unit="s",
        ),
        states(
            "Health of each cluster",
            "Highest severity of the cluster's open incidents.",
            Query(_worst(), "{{cluster}}"),
            {0: ("healthy", GREEN), 1: ("warning", ORANGE), 2: ("critical", RED)},
        ),
        graph(
            "Open incidents by kind",
            "Incidents that are not resolved.",
            Query(f"sum by (kind) ({_OPEN})", "{{kind}}"),
            stacked=True,
        ),
        graph(
            "Open incidents by cluster",
            "Incidents that are not resolved.",
            Query(f"sum by (cluster) ({_OPEN})", "{{cluster}}"),
            stacked=True,
        ),
        listing(
            "Open incidents",
            "Incidents that are not resolved. The notification of each has evidence and advice.",
            Column(_OPEN, "incidents"),
            Column(f"time() - {_SINCE}", "duration", "s"),
            Column(f"{_FORECAST} - time()", "worse in", "s"),
        ),
        graph(
            "Time to limits",
            "Forecast time until an incident gets worse: checkpoint timeout, full heap, registration timeout.",
            Query(f"{_FORECAST} - time()", "{{cluster}} {{job}}: {{kind}}"),
            unit="s",
        ),
        graph(
            "Time to limits, earliest and latest",
            "Earliest and latest forecast time until an incident gets worse.",
            Query(
                f"{_SERIES} (flinkwatch_incident_forecast_earliest_timestamp_seconds) - time()",
                "{{cluster}} {{job}}: {{kind}}, earliest",
            ),
            Query(
                f"{_SERIES} (flinkwatch_incident_forecast_latest_timestamp_seconds) - time()",
                "{{cluster}} {{job}}: {{kind}}, latest",
            ),
            unit="s",
        ),
        graph(
            "Incidents opened",
            "Incidents opened in the last hour, by kind.",
            Query("max by (kind, severity) (increase(flinkwatch_incidents_total[1h])) > 0", "{{kind}} ({{severity}})"),
            width=24,
        ),
    )
