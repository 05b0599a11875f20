"""All metrics with name, type, labels and help. docs/metrics.md is generated from this table.

Names are as Prometheus stores them, without the namespace. Units are base units: seconds, bytes, ratios.
"""

from typing import Literal, NamedTuple

NAMESPACE = "flinkwatch_"

Origin = Literal["process", "incidents", "readings", "delivery", "job"]


class MetricDescription(NamedTuple):
    """One metric. `fold` says how the values of the job's buckets are combined."""

    name: str
    type: Literal["gauge", "counter", "histogram", "info"]
    labels: tuple[str, ...]
    help: str
    fold: Literal["", "sum"] = ""


_INCIDENT = ("kind", "severity", "cluster", "job")
_JOB, _TM = ("cluster", "job"), ("cluster", "tm")
_TO = ("integration",)

TABLE: dict[Origin, tuple[MetricDescription, ...]] = {
    "process": (
        MetricDescription("ready", "gauge", ("check",), "Whether a check of /-/ready passes: 1 or 0."),
        MetricDescription("build_info", "info", ("version",), "The running version."),
    ),
    "incidents": (
        MetricDescription(
            "incident_open",
            "gauge",
            ("incident", "cluster"),
            "Severity of an open incident: 1 info, 2 warning, 3 critical; 0 while silenced. The labels never change.",
        ),
        MetricDescription(
            "incident_info",
            "info",
            ("incident", *_INCIDENT),
            "Current cause, severity and job of an open incident. The labels change with them.",
        ),
        MetricDescription("incident_active", "gauge", _INCIDENT, "Incidents that are not resolved."),
        MetricDescription("incident_silenced", "gauge", _INCIDENT, "Incidents that are not resolved and silenced."),
        MetricDescription(
            "incident_since_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Time of the first symptom of the oldest incident that is not resolved.",
        ),
        MetricDescription(
            "incident_forecast_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Time at which the incident is expected to get worse.",
        ),
        MetricDescription(
            "incident_forecast_earliest_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Earliest time at which the incident is expected to get worse.",
        ),
        MetricDescription(
            "incident_forecast_latest_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Latest time at which the incident is expected to get worse.",
        ),
        MetricDescription(
            "incidents_total", "counter", ("kind", "severity"), "Incidents opened since this process started."
        ),
    ),
    "readings": (
        MetricDescription(
            "checkpoint_duration_usual_seconds", "gauge", _JOB, "Median duration of the job's checkpoints."
        ),
        MetricDescription(
            "checkpoint_duration_last_seconds", "gauge", _JOB, "Duration of the last completed checkpoint."
        ),
        MetricDescription(
            "checkpoint_duration_slope_ratio",
            "gauge",
            _JOB,
            "Growth of checkpoint durations: seconds of duration per second.",
        ),
        MetricDescription(
            "checkpoint_limit_reached_timestamp_seconds",
            "gauge",
            _JOB,
            "Forecast time at which growing checkpoint durations reach the checkpoint timeout or interval.",
        ),
        MetricDescription(
            "checkpoint_overdue_limit_seconds", "gauge", _JOB, "Age from which a checkpoint in flight is overdue."
        ),
        MetricDescription(
            "checkpoint_in_flight_since_timestamp_seconds",
            "gauge",
            _JOB,
            "Time at which the oldest checkpoint in flight was triggered.",
        ),
        MetricDescription(
            "checkpoint_consecutive_failures", "gauge", _JOB, "Failed checkpoints since the last completed one."
        ),
        MetricDescription(
            "checkpoints_since_commit",
            "gauge",
            _JOB,
            "Checkpoints completed since the Kafka source last committed offsets for one.",
        ),
        MetricDescription(
            "busiest_subtask_ratio", "gauge", _JOB, "Share of time for which the job's busiest subtask is busy."
        ),
        MetricDescription(
            "input_skew_ratio",
            "gauge",
            _JOB,
            "Input of the busiest subtask of a busy task, divided by the median of its subtasks.",
        ),
        MetricDescription(
            "gc_time_ratio", "gauge", _TM, "Share of time that a TaskManager spends in garbage collection."
        ),
        MetricDescription("heap_floor_bytes", "gauge", _TM, "Heap still in use after garbage collections."),
        MetricDescription(
            "heap_full_timestamp_seconds", "gauge", _TM, "Forecast time at which a leak has filled the heap."
        ),
        MetricDescription(
            "last_sample_timestamp_seconds",
            "gauge",
            ("cluster", "process"),
            "Time of the last metric sample of a Flink process.",
        ),
        MetricDescription(
            "last_log_line_timestamp_seconds", "gauge", _JOB, "Time of the last log line about a job's checkpoints."
        ),
        MetricDescription(
            "source_clock_ahead_seconds",
            "gauge",
            ("cluster", "source"),
            "How far the clock of a source of records is ahead of Kafka's; absent while it is not ahead.",
        ),
        MetricDescription("records_read_total", "counter", (), "Records read from the log and metric topics.", "sum"),
        MetricDescription(
            "records_rejected_total",
            "counter",
            ("reason",),
            "Records that could not be read, by reason. They are in the dead-letter topic.",
            "sum",
        ),
        MetricDescription(
            "records_understood_total",
            "counter",
            ("topic",),
            "Records with a known log layout or metric name, estimated from a sample.",
            "sum",
        ),
        MetricDescription(
            "records_not_understood_total",
            "counter",
            ("topic",),
            "Records without a known log layout or metric name, estimated from a sample.",
            "sum",
        ),
        MetricDescription(
            "input_not_understood_ratio",
            "gauge",
            ("topic", "cluster", "source"),
            "Share of a source's records without a known log layout or metric name; absent unless it is nearly all.",
        ),
        MetricDescription(
            "outputs_cut_total",
            "counter",
            ("topic",),
            "Output records of flinkwatch that were too large for their topic and were cut or sent as dead letters.",
            "sum",
        ),
        MetricDescription(
            "cluster_entries_cut_total",
            "counter",
            ("cluster", "what"),
            "Live jobs or TaskManagers that were dropped because their cluster has more than flinkwatch keeps.",
            "sum",
        ),
        MetricDescription(
            "state_rows", "gauge", (), "Rows of state: one for each cluster and one for each bucket.", "sum"
        ),
        MetricDescription(
            "stream_time_timestamp_seconds",
            "gauge",
            (),
            "Time that the stream has reached, on which deadlines run. It is updated every 15 s.",
        ),
        MetricDescription(
            "clock_host_ahead_seconds",
            "gauge",
            (),
            "How far the clock of the job's host is ahead of the time in use; negative if it is behind.",
        ),
        MetricDescription(
            "cluster_waits_seconds",
            "gauge",
            ("cluster",),
            "How long events of a cluster wait for older ones, because one of its partitions lags.",
        ),
    ),
    "delivery": (
        MetricDescription(
            "canary_round_trip_seconds",
            "gauge",
            (),
            "Time that the last canary record took from Kafka to delivery.",
        ),
        MetricDescription(
            "canary_timestamp_seconds", "gauge", (), "Time at which the last canary record that arrived was sent."
        ),
        MetricDescription("notifications_total", "counter", _TO, "Attempts to send a notification, including retries."),
        MetricDescription(
            "notifications_failed_total",
            "counter",
            (*_TO, "reason"),
            "Failed attempts to send a notification, by reason.",
        ),
        MetricDescription(
            "notifications_suppressed_total",
            "counter",
            (*_TO, "reason"),
            "Notifications suppressed by a silence, quiet hours or a digest, by reason.",
        ),
        MetricDescription(
            "notification_latency_seconds", "histogram", _TO, "Duration of a call until its response or its timeout."
        ),
        MetricDescription(
            "notification_delay_seconds",
            "histogram",
            _TO,
            "Time from the incident's record in Kafka to the response that confirms the delivery.",
        ),
        MetricDescription("notifications_queue_length", "gauge", _TO, "Notifications that wait to be sent."),
        MetricDescription(
            "notifications_oldest_waiting_timestamp_seconds",
            "gauge",
            _TO,
            "Time since which the oldest notification waits; absent while none waits.",
        ),
        MetricDescription(
            "notifications_undelivered",
            "gauge",
            _TO,
            "Notifications that could not be sent for a day. They are kept and retried.",
        ),
        MetricDescription("notification_log_entries", "gauge", _TO, "Number of incidents in the notification log."),
        MetricDescription(
            "notification_log_oldest_unsettled_timestamp_seconds",
            "gauge",
            _TO,
            "When the notification log's oldest entry without a known outcome was written; absent if there is none.",
        ),
        MetricDescription(
            "delivery_records_skipped_total",
            "counter",
            ("topic", "reason"),
            "Records in flinkwatch's own topics that delivery could not read.",
        ),
    ),
    "job": (
        MetricDescription("batch_duration_seconds", "histogram", (), "Duration of the job's batches."),
        MetricDescription(
            "trigger_seconds", "gauge", (), "Configured trigger interval. A longer batch delays the next one."
        ),
        MetricDescription("batch_last_timestamp_seconds", "gauge", (), "Time at which the last batch finished."),
        MetricDescription("input_records_total", "counter", (), "Records read by the job, from all topics."),
        MetricDescription(
            "input_records_per_second", "gauge", (), "Arrival rate before the last batch, as measured by Spark."
        ),
        MetricDescription(
            "processed_records_per_second", "gauge", (), "Processing rate of the last batch, as measured by Spark."
        ),
        MetricDescription("consumer_lag_records", "gauge", ("topic",), "Records that the last batch left unread."),
        MetricDescription("state_memory_bytes", "gauge", (), "Memory used by RocksDB for the state."),
        MetricDescription(
            "state_disk_bytes", "gauge", (), "Size of RocksDB's files for the state, as of the last snapshots."
        ),
        MetricDescription(
            "state_commit_seconds", "gauge", (), "Time to commit the state in the last batch, summed over all tasks."
        ),
        MetricDescription(
            "query_restarts_total", "counter", (), "Restarts of the query after a failure since this process started."
        ),
        MetricDescription("config_info", "info", ("hash",), "The hash of the configuration in force."),
        MetricDescription(
            "config_last_reload_successful",
            "gauge",
            (),
            "Whether the last reload of the configuration file succeeded. If 0, the previous configuration stays in "
            "force.",
        ),
        MetricDescription(
            "config_last_reload_success_timestamp_seconds",
            "gauge",
            (),
            "Time of the last successful reload of the configuration file.",
        ),
    ),
}

BY_NAME = {one.name: one for group in TABLE.values() for one in group}
READINGS = {one.name: one for one in TABLE["readings"]}
"""Metrics whose values come from the readings topic."""
