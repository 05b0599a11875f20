"""All metrics, and what makes prometheus_client's objects of them. docs/metrics.md is generated from the table.

Names are as Prometheus stores them, without the namespace. Units are base units: seconds, bytes, ratios. The end of a
name gives the type: `_total` is a counter, `_info` an info, and others are gauges, but for those in `_HISTOGRAMS`.
"""

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal, NamedTuple, TypeVar

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import Metric

NAMESPACE = "flinkwatch_"

Origin = Literal["process", "incidents", "readings", "delivery", "job"]

# By name with labels: the help.
_HELP: dict[Origin, dict[str, str]] = {
    "process": {
        "ready{check}": "Whether the check of this name passes, 1 or 0; /-/ready fails if one does not.",
        "build_info{version}": "The running version.",
        "config_last_reload_successful": "Whether the last reload of the configuration file succeeded. If 0, the "
        "previous configuration stays in force.",
        "config_last_reload_success_timestamp_seconds": "Time of the last successful reload of the configuration file.",
    },
    "incidents": {
        "incident_open{incident,cluster}": "Severity of an open incident: 1 info, 2 warning, 3 critical; 0 while "
        "silenced. The series of an incident has the same labels until it is resolved.",
        "incident_info{incident,kind,severity,cluster,job}": "Current cause, severity and job of an open incident. "
        "The labels change with them.",
        "incident_active{kind,severity,cluster,job}": "Incidents that are not resolved.",
        "incident_silenced{kind,severity,cluster,job}": "Incidents that are not resolved and silenced.",
        "incident_since_timestamp_seconds{kind,severity,cluster,job}": "Time of the first symptom of the oldest "
        "incident that is not resolved.",
        "incident_forecast_timestamp_seconds{kind,severity,cluster,job}": "Time at which the incident is expected to "
        "get worse.",
        "incident_forecast_earliest_timestamp_seconds{kind,severity,cluster,job}": "Earliest time at which the "
        "incident is expected to get worse.",
        "incident_forecast_latest_timestamp_seconds{kind,severity,cluster,job}": "Latest time at which the incident "
        "is expected to get worse.",
        "incident_acknowledged_timestamp_seconds{incident,cluster,person}": "Time at which an open incident was "
        "acknowledged, and by whom.",
        "incidents_total{kind,severity}": "Incidents opened since this process started.",
    },
    "readings": {
        "checkpoint_duration_usual_seconds{cluster,job}": "Median duration of the job's checkpoints.",
        "checkpoint_duration_last_seconds{cluster,job}": "Duration of the last completed checkpoint.",
        "checkpoint_duration_slope_ratio{cluster,job}": "Growth of checkpoint durations: seconds of duration per "
        "second.",
        "checkpoint_limit_reached_timestamp_seconds{cluster,job}": "Forecast time at which growing checkpoint "
        "durations reach the checkpoint timeout or interval.",
        "checkpoint_overdue_limit_seconds{cluster,job}": "Age from which a checkpoint in flight is overdue.",
        "checkpoint_in_flight_since_timestamp_seconds{cluster,job}": "Time at which the oldest checkpoint in flight "
        "was triggered.",
        "checkpoint_consecutive_failures{cluster,job}": "Failed checkpoints since the last completed one.",
        "checkpoints_since_commit{cluster,job}": "Checkpoints completed since the Kafka source last committed offsets "
        "for one.",
        "busiest_subtask_ratio{cluster,job}": "Share of time for which the job's busiest subtask is busy.",
        "input_skew_ratio{cluster,job}": "Records read by the subtask with the most input, divided by the median of "
        "its task's subtasks; for tasks that are busy all the time.",
        "gc_time_ratio{cluster,tm}": "Share of time that a TaskManager spends in garbage collection.",
        "heap_floor_bytes{cluster,tm}": "Heap still in use after garbage collections.",
        "heap_full_timestamp_seconds{cluster,tm}": "Forecast time at which a leak has filled the heap.",
        "last_sample_timestamp_seconds{cluster,process}": "Time of the last metric sample of a Flink process.",
        "last_log_line_timestamp_seconds{cluster,job}": "Time of the last log line about a job's checkpoints.",
        "source_clock_ahead_seconds{cluster,source}": "How far the clock of a source of records is ahead of Kafka's; "
        "absent while it is not ahead.",
        "records_read_total": "Records read from the log and metric topics.",
        "records_rejected_total{reason}": "Records that could not be read, by reason. They are in the dead-letter "
        "topic.",
        "entries_ignored_total{topic,reason}": "Entries of OpenTelemetry records that were read and passed over on "
        "purpose, by reason: metrics, events and spans that no detector uses.",
        "records_understood_total{topic}": "Records with a known log layout or metric name, estimated from a sample.",
        "records_not_understood_total{topic}": "Records without a known log layout or metric name, estimated from a "
        "sample.",
        "input_not_understood_ratio{topic,cluster,source}": "Share of a source's records without a known log layout "
        "or metric name; absent unless it is nearly all.",
        "outputs_cut_total{topic}": "Output records of flinkwatch that were too large for their topic and were cut or "
        "sent as dead letters.",
        "cluster_entries_cut_total{cluster,what}": "Live jobs or TaskManagers that were dropped because their cluster "
        "has more than flinkwatch keeps.",
        "state_rows": "Rows of flinkwatch's state: one for each cluster and one for each bucket.",
        "flink_info{cluster,version}": "Flink's version, as the last process that started printed it.",
        "flink_setting_info{cluster,key,value}": "A setting that Flink printed at a start, from a short list of those "
        "that incidents depend on. The keys are in docs/commands.md.",
        "checkpoint_size_bytes{cluster,job}": "Size of the largest of the job's last twelve checkpoints, without what "
        "incremental checkpoints share with earlier ones.",
        "stream_time_timestamp_seconds": "Time up to which the input has been read; deadlines are measured by it. "
        "It is updated every 15 s.",
        "clock_host_ahead_seconds": "How far the clock of the job's host is ahead of the time in use; negative if it "
        "is behind.",
        "cluster_waits_seconds{cluster}": "How long events of a cluster wait for older ones, because one of its "
        "partitions lags.",
    },
    "delivery": {
        "canary_round_trip_seconds": "Time that the last canary record took from Kafka to delivery.",
        "canary_timestamp_seconds": "Unix time at which the newest canary record that came back was sent.",
        "notifications_total{integration}": "Attempts to send a notification, including retries.",
        "notifications_failed_total{integration,reason}": "Failed attempts to send a notification, by reason.",
        "notifications_suppressed_total{integration,reason}": "Notifications suppressed by a silence, quiet hours, "
        "a platform incident or a digest, by reason.",
        "notification_latency_seconds{integration}": "Duration of a call until the receiver's response or the timeout.",
        "notification_delay_seconds{integration}": "Time from flinkwatch's record of the change in Kafka to the "
        "receiver's successful response.",
        "notifications_queue_length{integration}": "Notifications that wait to be sent.",
        "notifications_oldest_waiting_timestamp_seconds{integration}": "Time since which the oldest notification "
        "waits; absent while none waits.",
        "notifications_undelivered{integration}": "Notifications that could not be sent for a day. They are kept and "
        "retried.",
        "notification_log_entries{integration}": "Incidents in the notification log.",
        "notification_log_oldest_unsettled_timestamp_seconds{integration}": "Unix time at which the oldest entry "
        "of the notification log without a known outcome was written; absent if there is none.",
        "slack_actions_total{action,result}": "Buttons pressed and commands given in Slack, by what became of them: "
        "done, duplicate, refused, failed or invalid.",
        "slack_socket_lost_total{reason}": "Connections for Slack's buttons that ended or could not be opened, by "
        "reason.",
        "routing_info{hash}": "The hash of the routes, quiet hours and mentions in force. It differs if two deliverers "
        "read different files.",
        "delivery_records_skipped_total{topic,reason}": "Records in flinkwatch's own topics that delivery could not "
        "read and skipped.",
    },
    "job": {
        "batch_duration_seconds": "Duration of the job's batches.",
        "trigger_seconds": "Configured trigger interval. A batch that takes longer delays the next one.",
        "batch_last_timestamp_seconds": "Time at which the last batch finished.",
        "input_records_total": "Records read by the job, from all topics.",
        "input_records_per_second": "Arrival rate before the last batch, as measured by Spark.",
        "processed_records_per_second": "Processing rate of the last batch, as measured by Spark.",
        "consumer_lag_records{topic}": "Records that the last batch left unread.",
        "state_memory_bytes": "Memory that RocksDB uses for flinkwatch's state.",
        "state_disk_bytes": "Size of RocksDB's files with flinkwatch's state when they were last saved.",
        "state_commit_seconds": "Time to commit flinkwatch's state in the last batch, summed over all tasks.",
        "query_restarts_total": "Restarts of the query after a failure since this process started.",
        "config_info{hash}": "The hash of the configuration in force.",
    },
}
_HISTOGRAMS = frozenset({"notification_latency_seconds", "notification_delay_seconds", "batch_duration_seconds"})


class MetricDescription(NamedTuple):
    """`type` is gauge, counter, histogram or info."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def _described(series: str, about: str) -> MetricDescription:
    name, _, labels = series.removesuffix("}").partition("{")
    by_suffix = {"total": "counter", "info": "info"}
    kind = "histogram" if name in _HISTOGRAMS else by_suffix.get(name.rpartition("_")[2], "gauge")
    return MetricDescription(name, kind, tuple(labels.split(",")) if labels else (), about)


TABLE = {origin: tuple(_described(*row) for row in group.items()) for origin, group in _HELP.items()}
BY_NAME = {one.name: one for group in TABLE.values() for one in group}
READINGS = {one.name: one for one in TABLE["readings"]}
"""Metrics whose values come from the readings topic."""

# They would be an additional gauge for each counter, and no one needs them.
disable_created_metrics()  # type: ignore[no-untyped-call]

_Lasting = TypeVar("_Lasting", Counter, Gauge, Histogram)


def lasting(kind: type[_Lasting], name: str, **options: Any) -> _Lasting:
    """A counter, gauge or histogram that keeps its values between scrapes; it is not registered."""
    one = BY_NAME[name]
    return kind(NAMESPACE + name.removesuffix("_total"), one.help, one.labels, registry=None, **options)


def scraped(name: str, series: Iterable[tuple[Sequence[str], float]]) -> Metric:
    """A gauge, counter or info for one scrape, from its label values, in the order of the table, and values."""
    one, sample = BY_NAME[name], NAMESPACE + name
    metric = Metric(sample.removesuffix("_total").removesuffix("_info"), one.help, one.type)
    for labels, value in series:
        metric.add_sample(sample, dict(zip(one.labels, labels, strict=True)), value)
    return metric


def info(name: str, value: str) -> Metric:
    return scraped(name, [((value,), 1)])


def running_version() -> str:
    """The version of flinkwatch; unknown if it is not installed as a package."""
    try:
        return version("flinkwatch")
    except PackageNotFoundError:
        return "unknown"


def build_info() -> Metric:
    return info("build_info", running_version())
