"""Every metric by name: its type, its labels, and what it tells. docs/metrics.md is made from this table.

Names stand here as Prometheus stores them, without the namespace. Units are base units: seconds, bytes, ratios.
"""

from typing import Literal, NamedTuple

NAMESPACE = "flinkwatch_"

Origin = Literal["process", "incidents", "readings", "delivery", "job"]


class MetricDescription(NamedTuple):
    """One metric. `fold` says how the values of the job's buckets become one."""

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
        MetricDescription("ready", "gauge", ("check",), "Whether a check of /-/ready finds nothing wrong: 1 or 0."),
        MetricDescription("build_info", "info", ("version",), "The version that runs."),
    ),
    "incidents": (
        MetricDescription(
            "incident_open",
            "gauge",
            ("incident", "cluster"),
            "Severity of an open incident: 1 info, 2 warning, 3 critical; 0 while silenced. Its labels never change.",
        ),
        MetricDescription(
            "incident_info",
            "info",
            ("incident", *_INCIDENT),
            "Current cause, severity and job of an open incident; its labels change with them.",
        ),
        MetricDescription("incident_active", "gauge", _INCIDENT, "Incidents that are not resolved."),
        MetricDescription("incident_silenced", "gauge", _INCIDENT, "How many of them are silenced; 0 when none is."),
        MetricDescription(
            "incident_since_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "First symptom of the oldest incident that is not resolved.",
        ),
        MetricDescription(
            "incident_forecast_timestamp_seconds", "gauge", _INCIDENT, "When the incident is expected to get worse."
        ),
        MetricDescription(
            "incident_forecast_earliest_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Earliest time at which it may get worse, as forecast.",
        ),
        MetricDescription(
            "incident_forecast_latest_timestamp_seconds",
            "gauge",
            _INCIDENT,
            "Latest time at which it may get worse, as forecast.",
        ),
        MetricDescription(
            "incidents_total", "counter", ("kind", "severity"), "Incidents opened since this process began."
        ),
    ),
    "readings": (
        MetricDescription(
            "checkpoint_duration_usual_seconds", "gauge", _JOB, "Median duration of this job's checkpoints."
        ),
        MetricDescription(
            "checkpoint_duration_last_seconds", "gauge", _JOB, "Duration of the last completed checkpoint."
        ),
        MetricDescription(
            "checkpoint_duration_slope_ratio",
            "gauge",
            _JOB,
            "How fast checkpoint durations grow: seconds of duration per second.",
        ),
        MetricDescription(
            "checkpoint_limit_reached_timestamp_seconds",
            "gauge",
            _JOB,
            "When growing checkpoint durations reach the checkpoint timeout or interval, as forecast.",
        ),
        MetricDescription(
            "checkpoint_overdue_limit_seconds", "gauge", _JOB, "Age at which a checkpoint in flight is called overdue."
        ),
        MetricDescription(
            "checkpoint_in_flight_since_timestamp_seconds",
            "gauge",
            _JOB,
            "When the oldest checkpoint in flight was triggered.",
        ),
        MetricDescription(
            "checkpoint_consecutive_failures", "gauge", _JOB, "Checkpoints that failed since the last completed one."
        ),
        MetricDescription(
            "checkpoints_since_commit",
            "gauge",
            _JOB,
            "Checkpoints completed since the Kafka source last committed offsets for one.",
        ),
        MetricDescription(
            "busiest_subtask_ratio", "gauge", _JOB, "Share of its time for which the job's busiest subtask is busy."
        ),
        MetricDescription(
            "input_skew_ratio",
            "gauge",
            _JOB,
            "Input of the busiest subtask of a busy task, divided by the median of its subtasks.",
        ),
        MetricDescription(
            "gc_time_ratio", "gauge", _TM, "Share of its time that a TaskManager spends in garbage collection."
        ),
        MetricDescription("heap_floor_bytes", "gauge", _TM, "Heap that is still in use after garbage collections."),
        MetricDescription("heap_full_timestamp_seconds", "gauge", _TM, "When a leak has filled the heap, as forecast."),
        MetricDescription(
            "last_sample_timestamp_seconds",
            "gauge",
            ("cluster", "process"),
            "When a process of Flink was last heard of in the metrics.",
        ),
        MetricDescription(
            "last_log_line_timestamp_seconds", "gauge", _JOB, "When the log last told of a job's checkpoints."
        ),
        MetricDescription(
            "source_clock_ahead_seconds",
            "gauge",
            ("cluster", "source"),
            "How far the clock of a source of records is ahead of Kafka's; absent while it is right.",
        ),
        MetricDescription("records_read_total", "counter", (), "Records read from the log and metric topics.", "sum"),
        MetricDescription(
            "records_rejected_total",
            "counter",
            ("reason",),
            "Records that could not be understood, by reason; they are in the topic of dead letters.",
            "sum",
        ),
        MetricDescription(
            "records_understood_total",
            "counter",
            ("topic",),
            "Records with a log line of a known layout or a metric of a known name, estimated from a sample.",
            "sum",
        ),
        MetricDescription(
            "records_not_understood_total",
            "counter",
            ("topic",),
            "Records without any log line of a known layout or any metric of a known name, estimated from a sample.",
            "sum",
        ),
        MetricDescription(
            "input_not_understood_ratio",
            "gauge",
            ("topic", "cluster", "source"),
            "Share of a source's records that are not understood; absent unless nearly all of them are not.",
        ),
        MetricDescription(
            "outputs_cut_total",
            "counter",
            ("topic",),
            "Records of flinkwatch that were larger than their topic takes, and were cut or replaced by a dead letter.",
            "sum",
        ),
        MetricDescription(
            "cluster_entries_cut_total",
            "counter",
            ("cluster", "what"),
            "Live jobs or TaskManagers that were forgotten because their cluster has more than are kept of one.",
            "sum",
        ),
        MetricDescription(
            "state_rows", "gauge", (), "Rows of state: one for each cluster and one for each bucket.", "sum"
        ),
        MetricDescription(
            "stream_time_timestamp_seconds",
            "gauge",
            (),
            "How far the stream has come; deadlines run on this clock, told every 15 s.",
        ),
        MetricDescription(
            "clock_host_ahead_seconds",
            "gauge",
            (),
            "How far the clock of the job's host is ahead of what is believed; negative where it is behind.",
        ),
        MetricDescription(
            "cluster_waits_seconds",
            "gauge",
            ("cluster",),
            "How long events of a cluster wait for older ones: a partition of theirs lags.",
        ),
    ),
    "delivery": (
        MetricDescription(
            "canary_round_trip_seconds",
            "gauge",
            (),
            "Time the last canary record took from Kafka to delivery.",
        ),
        MetricDescription(
            "canary_timestamp_seconds", "gauge", (), "When the last canary record that came back was sent."
        ),
        MetricDescription("notifications_total", "counter", _TO, "Notifications tried, retries included."),
        MetricDescription(
            "notifications_failed_total", "counter", (*_TO, "reason"), "Notifications that failed, by reason."
        ),
        MetricDescription(
            "notifications_suppressed_total",
            "counter",
            (*_TO, "reason"),
            "Notifications not sent on purpose, by reason.",
        ),
        MetricDescription(
            "notification_latency_seconds", "histogram", _TO, "How long a call took until it was answered or given up."
        ),
        MetricDescription(
            "notification_delay_seconds",
            "histogram",
            _TO,
            "From the incident's record in Kafka to the answer that delivers it.",
        ),
        MetricDescription("notifications_queue_length", "gauge", _TO, "Notifications that wait to be sent."),
        MetricDescription(
            "notifications_oldest_waiting_timestamp_seconds",
            "gauge",
            _TO,
            "Since when the oldest of them waits; absent while none does.",
        ),
        MetricDescription(
            "notifications_undelivered",
            "gauge",
            _TO,
            "Notifications that wait for longer than a day, kept for the time when they can be sent.",
        ),
        MetricDescription(
            "notification_log_entries", "gauge", _TO, "Incidents that the notification log has an entry of."
        ),
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
            "Records of flinkwatch's own topics that delivery could not read.",
        ),
    ),
    "job": (
        MetricDescription("batch_duration_seconds", "histogram", (), "Duration of the job's batches."),
        MetricDescription(
            "trigger_seconds", "gauge", (), "Time from batch to batch, as configured; a longer batch delays the next."
        ),
        MetricDescription("batch_last_timestamp_seconds", "gauge", (), "When the last batch finished."),
        MetricDescription(
            "input_records_total", "counter", (), "Records the job has taken in, of all topics it reads."
        ),
        MetricDescription(
            "input_records_per_second", "gauge", (), "Records that came per second before the last batch, by Spark."
        ),
        MetricDescription(
            "processed_records_per_second", "gauge", (), "Records the last batch worked through per second, by Spark."
        ),
        MetricDescription("consumer_lag_records", "gauge", ("topic",), "Records that the last batch left unread."),
        MetricDescription("state_memory_bytes", "gauge", (), "Memory that RocksDB uses for the state."),
        MetricDescription("state_disk_bytes", "gauge", (), "RocksDB's files of the state, as of the last snapshots."),
        MetricDescription(
            "state_commit_seconds", "gauge", (), "What the state's commit took in the last batch, all tasks."
        ),
        MetricDescription(
            "query_restarts_total", "counter", (), "Restarts of the query after a failure, since this process began."
        ),
        MetricDescription("config_info", "info", ("hash",), "The hash of the configuration in force."),
        MetricDescription(
            "config_last_reload_successful",
            "gauge",
            (),
            "Whether the configuration file could be used when last read; 0: it was refused, the last good one stays.",
        ),
        MetricDescription(
            "config_last_reload_success_timestamp_seconds",
            "gauge",
            (),
            "When a configuration file that could be used was last read.",
        ),
    ),
}

BY_NAME = {one.name: one for group in TABLE.values() for one in group}
READINGS = {one.name: one for one in TABLE["readings"]}
"""Metrics whose values come from the topic of readings."""
