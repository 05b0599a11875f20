"""The dashboard of one cluster: each detector's readings with their limits, and incidents as annotations."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery

from dashboards.frame import board, choice, fill
from dashboards.panels import DATASOURCE, GREEN, ORANGE, RED, SEVERITIES, Column, Panel, Query, graph, listing, states
from detectors.kinds.checkpoints.checkpoint_failing import CheckpointFailing
from detectors.kinds.data.backpressure import Backpressure
from detectors.kinds.memory.heap_exhaustion import HeapExhaustion
from detectors.kinds.memory.zero_input_leak import ZeroInputLeak
from detectors.kinds.telemetry.clock_skew import ClockSkew
from detectors.kinds.telemetry.telemetry_lost import TelemetryLost

_SERIES = "max by (kind, severity, cluster, job)"
_HERE = 'cluster="$cluster"'
_JOB, _TM = f'{_HERE}, job=~"$job"', f'{_HERE}, tm=~"$tm"'
_DEFAULT = " The line is the default threshold; your settings and overrides may differ."


def _job(metric: str) -> str:
    return f"max by (job) (flinkwatch_{metric}{{{_JOB}}})"


def _tm(metric: str) -> str:
    return f"max by (tm) (flinkwatch_{metric}{{{_TM}}})"


def _labels(metrics: str, label: str) -> str:
    where = "" if label == "cluster" else f", {_HERE}"
    return f'label_values({{__name__=~"flinkwatch_{metrics}"{where}}}, {label})'


def cluster() -> dashboard.Dashboard:
    made = board("flinkwatch-cluster", "Flink cluster", "Detector readings and incidents of one cluster.", "now-6h")
    last_seen = "last_(sample|log_line)_timestamp_seconds"
    made.with_variable(
        choice("cluster", "Cluster", _labels(f"({last_seen}|incident_active)", "cluster"), several=False)
    )
    made.with_variable(choice("job", "Job", _labels("(checkpoint.*|busiest.*|last_log_line.*)", "job")))
    made.with_variable(choice("tm", "TaskManager", _labels("(gc_time_ratio|heap_.*)", "tm")))
    for severity in ("critical", "warning"):
        made.annotation(_Incidents(severity))
    rows = {"": _incidents(), "Checkpoints": _checkpoints(), "Load": _load(), "Memory": _memory()}
    return fill(made, {**rows, "Telemetry": _telemetry(), "Set-up": _set_up()})


class _Incidents(AnnotationQuery, Builder[AnnotationQuery]):
    """Open incidents of a severity as annotations on every panel."""

    def __init__(self, severity: str) -> None:
        super().__init__(
            name=f"{severity} incidents",
            datasource=DATASOURCE,
            icon_color=SEVERITIES[severity],
            expr=f'{_SERIES} (flinkwatch_incident_active{{{_HERE}, severity="{severity}"}}) > 0',
        )

    def build(self) -> AnnotationQuery:
        return self

    def to_json(self) -> dict[str, object]:
        """Also contains the fields that only Grafana's Prometheus data source reads."""
        own = {"step": "15s", "titleFormat": "{{kind}}", "textFormat": "{{job}}", "tagKeys": "severity,kind"}
        return super().to_json() | own


def _incidents() -> Iterator[Panel]:
    here = f"flinkwatch_incident_active{{{_HERE}}}"
    yield listing(
        "Open incidents",
        "Incidents of this cluster that are not resolved. The notification of each has evidence and advice.",
        Column(f"{_SERIES} ({here})", "incidents"),
        Column(f"time() - {_SERIES} (flinkwatch_incident_since_timestamp_seconds{{{_HERE}}})", "duration", "s"),
        Column(f"{_SERIES} (flinkwatch_incident_forecast_timestamp_seconds{{{_HERE}}}) - time()", "worse in", "s"),
        hidden=("cluster",),
    )
    yield states(
        "Severity of each incident",
        "One row per incident, with cause and job at that time.",
        Query(
            f"max by (incident) (flinkwatch_incident_open{{{_HERE}}}) * on (incident) group_left (kind, job) "
            # Without staleness markers the series of a former cause is still there for a while.
            f"topk by (incident) (1, max by (incident, kind, job) (flinkwatch_incident_info{{{_HERE}}}))",
            "{{incident}} {{kind}} {{job}}",
        ),
        {0: ("silenced", GREEN), 1: ("info", SEVERITIES["info"]), 2: ("warning", ORANGE), 3: ("critical", RED)},
    )


def _checkpoints() -> Iterator[Panel]:
    yield graph(
        "Checkpoint duration",
        "`checkpoint_duration_creep` detects a trend of the last duration, `checkpoint_overdue` a duration above the "
        "limit.",
        Query(_job("checkpoint_duration_last_seconds"), "{{job}}, last"),
        Query(_job("checkpoint_duration_usual_seconds"), "{{job}}, usual"),
        Query(_job("checkpoint_overdue_limit_seconds"), "{{job}}, overdue above", limit=True),
        unit="s",
    )
    yield graph(
        "Age of the checkpoint in flight",
        "`checkpoint_overdue`: the oldest checkpoint that is neither completed nor failed.",
        Query(f"time() - {_job('checkpoint_in_flight_since_timestamp_seconds')}", "{{job}}"),
        Query(_job("checkpoint_overdue_limit_seconds"), "{{job}}, overdue above", limit=True),
        unit="s",
    )
    yield graph(
        "Checkpoint size",
        "The largest of the last twelve checkpoints. `flinkwatch doctor` compares it with the state backend.",
        Query(_job("checkpoint_size_bytes"), "{{job}}"),
        unit="bytes",
    )
    yield graph(
        "Growth of checkpoint durations",
        "`checkpoint_duration_creep`: increase of the duration per hour.",
        Query(f"3600 * {_job('checkpoint_duration_slope_ratio')}", "{{job}}"),
        unit="s",
    )
    yield graph(
        "Time until checkpoints reach their limit",
        "`checkpoint_duration_creep`: forecast time until durations reach the checkpoint timeout or interval.",
        Query(f"{_job('checkpoint_limit_reached_timestamp_seconds')} - time()", "{{job}}"),
        unit="s",
    )
    yield graph(
        "Consecutive failed checkpoints",
        "`checkpoint_failing`, `late_barrier_acks`: failures since the last completed checkpoint." + _DEFAULT,
        Query(_job("checkpoint_consecutive_failures"), "{{job}}"),
        limit=CheckpointFailing.Config().in_a_row,
    )
    yield graph(
        "Checkpoints since the last offset commit",
        "`zero_input_leak`: a source that never commits keeps the offsets of all these checkpoints in memory."
        + _DEFAULT,
        Query(_job("checkpoints_since_commit"), "{{job}}"),
        limit=ZeroInputLeak.Config().min_checkpoints,
    )


def _load() -> Iterator[Panel]:
    yield graph(
        "Busiest subtask",
        "`backpressure`: share of time for which the job's busiest subtask is busy." + _DEFAULT,
        Query(_job("busiest_subtask_ratio"), "{{job}}"),
        unit="percentunit",
        limit=Backpressure.Config().busy_ms_per_s / 1000,
    )
    yield graph(
        "Input skew",
        "`backpressure`: input of the busiest subtask of a busy task, divided by the median of its subtasks.",
        Query(_job("input_skew_ratio"), "{{job}}"),
    )


def _memory() -> Iterator[Panel]:
    yield graph(
        "Garbage collection time",
        "`heap_exhaustion`: share of time that a TaskManager spends in garbage collection." + _DEFAULT,
        Query(_tm("gc_time_ratio"), "{{tm}}"),
        unit="percentunit",
        limit=HeapExhaustion.Config().gc_share,
    )
    yield graph(
        "Heap floor",
        "`zero_input_leak`, `heap_exhaustion`: heap still in use after garbage collections.",
        Query(_tm("heap_floor_bytes"), "{{tm}}"),
        unit="bytes",
    )
    yield graph(
        "Time until the heap is full",
        "`zero_input_leak`: forecast time until the leak has filled the heap.",
        Query(f"{_tm('heap_full_timestamp_seconds')} - time()", "{{tm}}"),
        unit="s",
    )


def _telemetry() -> Iterator[Panel]:
    yield graph(
        "Clock skew",
        "`clock_skew`: how far the clock of a source of records is ahead of Kafka's." + _DEFAULT,
        Query(f"max by (source) (flinkwatch_source_clock_ahead_seconds{{{_HERE}}})", "{{source}}"),
        unit="s",
        limit=ClockSkew.Config().ahead / 1000,
    )
    yield graph(
        "Time since the last sample",
        "`telemetry_lost`: time since the last metric sample of a Flink process. The limit depends on the usual "
        "interval "
        "and is never below the line." + _DEFAULT,
        Query(f"time() - max by (process) (flinkwatch_last_sample_timestamp_seconds{{{_HERE}}})", "{{process}}"),
        unit="s",
        limit=TelemetryLost.Config().min_gap / 1000,
    )
    yield graph(
        "Time since the last log line",
        "`telemetry_lost`: time since the last log line about a checkpoint of the job. The limit depends on the usual "
        "interval and is never below the line." + _DEFAULT,
        Query(f"time() - {_job('last_log_line_timestamp_seconds')}", "{{job}}"),
        unit="s",
        limit=TelemetryLost.Config().min_gap / 1000,
    )


def _set_up() -> Iterator[Panel]:
    yield listing(
        "Flink's version",
        "As the last process that started printed it. `flinkwatch doctor` lists its known issues.",
        Column(f"max by (version) (flinkwatch_flink_info{{{_HERE}}})", "known", "none"),
        hidden=("Value",),
        width=8,
    )
    yield listing(
        "Flink's settings",
        "Those on which incidents depend, as the last process that started printed them. `flinkwatch doctor` judges "
        "them.",
        Column(f"max by (key, value) (flinkwatch_flink_setting_info{{{_HERE}}})", "known", "none"),
        hidden=("Value",),
        width=16,
    )
