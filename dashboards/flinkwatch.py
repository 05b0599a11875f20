"""The dashboard of flinkwatch itself: lag, rejected records, batches, state, notifications, configuration."""

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard

from dashboards.frame import board, choice, fill
from dashboards.panels import ORANGE, RED, Panel, Query, graph, number, word

_WHERE = 'instance=~"$instance"'


def _of(metric: str, more: str = "") -> str:
    return f"flinkwatch_{metric}{{{_WHERE}{more}}}"


def _newest(metric: str) -> str:
    return f"time() - max({_of(metric)})"


def _quantile(share: float, metric: str, by: str) -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({_of(metric)}[$__rate_interval])))"


def _max(metric: str) -> str:
    return f"max({_of(metric)})"


def _sum(metric: str) -> str:
    return f"sum({_of(metric)})"


def _rate(metric: str, by: str, over: str = "sum") -> str:
    return f"{over} by ({by}) (rate({_of(metric)}[$__rate_interval]))"


def flinkwatch() -> dashboard.Dashboard:
    made = board("flinkwatch-itself", "flinkwatch", "Job and delivery of flinkwatch itself.", "now-3h")
    made.with_variable(choice("instance", "Instance", "label_values(flinkwatch_build_info, instance)"))
    rows = {"": _overview(), "Reading": _reading(), "Batches and state": _batches(), "Delivery": _delivery()}
    return fill(made, {**rows, "Notification log": _notification_log(), "Configuration": _configuration()})


def _overview() -> Iterator[Panel]:
    yield number("Not ready", "Failing checks of /-/ready.", f"sum(1 - {_of('ready')})", (1, RED))
    yield number(
        "Consumer lag",
        "Records that the last batch left unread because of its limit.",
        _sum("consumer_lag_records"),
        (100_000, ORANGE),
    )
    yield number(
        "Last batch",
        "Time since the last batch, which should be about the trigger interval.",
        _newest("batch_last_timestamp_seconds"),
        (60, RED),
        unit="s",
    )
    yield number(
        "Canary round trip",
        "Time of a canary record from Kafka to delivery.",
        _max("canary_round_trip_seconds"),
        unit="s",
    )
    yield number(
        "Undelivered",
        "Notifications that could not be sent for a day. They are kept and retried.",
        _sum("notifications_undelivered"),
        (1, RED),
    )
    yield word("Version", "The running version.", f"max by (version) ({_of('build_info')})", "version")


def _reading() -> Iterator[Panel]:
    yield graph(
        "Consumer lag by topic",
        "Records that the last batch left unread because of its limit.",
        Query(f"max by (topic) ({_of('consumer_lag_records')})", "{{topic}}"),
    )
    yield graph(
        "Delay of the stream's clock",
        "Age of the time that every partition has reached. Deadlines run on this clock.",
        Query(_newest("stream_time_timestamp_seconds"), "clock"),
        Query(_max("clock_host_ahead_seconds"), "clock of the job's host, ahead"),
        Query(_max("cluster_waits_seconds"), "longest wait of a cluster for a late partition"),
        unit="s",
    )
    yield graph(
        "Records per second",
        "The job falls behind if the processing rate stays below the arrival rate.",
        Query(_max("input_records_per_second"), "arrival rate"),
        Query(_max("processed_records_per_second"), "processing rate"),
        Query(f"sum(rate({_of('input_records_total')}[$__rate_interval]))", "read, all topics"),
        Query(f"max(rate({_of('records_read_total')}[$__rate_interval]))", "read, logs and metrics"),
        unit="cps",
    )
    yield graph(
        "Rejected records",
        "Records per second that could not be read, by reason. docs/inputs.md explains the reasons.",
        Query(_rate("records_rejected_total", "reason", "max"), "{{reason}}"),
        Query(_rate("outputs_cut_total", "topic", "max"), "cut, for {{topic}}"),
        Query(
            f"max by (cluster, what) (rate({_of('cluster_entries_cut_total')}[$__rate_interval]))",
            "{{what}} dropped in {{cluster}}",
        ),
        unit="cps",
    )
    yield graph(
        "Records not understood",
        "Share of records without a known log layout or metric name, by topic, and for sources where it is nearly all.",
        Query(
            f"max by (topic) (rate({_of('records_not_understood_total')}[$__rate_interval])) / max by (topic) ("
            f"rate({_of('records_understood_total')}[$__rate_interval]) + "
            f"rate({_of('records_not_understood_total')}[$__rate_interval]))",
            "{{topic}}",
        ),
        Query(f"max by (topic, cluster, source) ({_of('input_not_understood_ratio')})", "{{cluster}} {{source}}"),
        unit="percentunit",
    )
    yield graph(
        "Entries passed over",
        "Points, events and spans in OpenTelemetry records that no detector uses, by topic and reason.",
        Query(
            f"max by (topic, reason) (rate({_of('entries_ignored_total')}[$__rate_interval]))", "{{topic}} {{reason}}"
        ),
        unit="cps",
    )


def _batches() -> Iterator[Panel]:
    yield graph(
        "Batch duration",
        "A batch that takes longer than the trigger interval delays the next one.",
        Query(_quantile(0.5, "batch_duration_seconds_bucket", ""), "median"),
        Query(_quantile(0.99, "batch_duration_seconds_bucket", ""), "99th percentile"),
        Query(_max("state_commit_seconds"), "commit of the state, all tasks"),
        Query(_max("trigger_seconds"), "trigger interval", limit=True),
        unit="s",
    )
    yield graph(
        "Canary",
        "Time of a canary record through the whole pipeline, and age of the last one that arrived.",
        Query(_max("canary_round_trip_seconds"), "round trip"),
        Query(_newest("canary_timestamp_seconds"), "age of the last one"),
        unit="s",
    )
    yield graph(
        "State size",
        "Memory and files of RocksDB.",
        Query(_max("state_memory_bytes"), "memory"),
        Query(_max("state_disk_bytes"), "files"),
        unit="bytes",
    )
    yield graph("State rows", "One row for each cluster and one for each bucket.", Query(_max("state_rows"), "rows"))
    yield graph(
        "Query restarts",
        "Automatic restarts of the query after a failure, per hour. The job's log has the reasons.",
        Query(f"sum(increase({_of('query_restarts_total')}[1h]))", "restarts"),
    )


def _delivery() -> Iterator[Panel]:
    yield graph(
        "Notifications",
        "Attempts per minute, including retries, and failed attempts by reason.",
        Query(f"60 * {_rate('notifications_total', 'integration')}", "{{integration}}"),
        Query(
            f"60 * {_rate('notifications_failed_total', 'integration, reason')}", "{{integration}} failed: {{reason}}"
        ),
        unit="cpm",
    )
    yield graph(
        "Suppressed notifications",
        "Notifications per minute not sent because of quiet hours, a silence or a digest.",
        Query(f"60 * {_rate('notifications_suppressed_total', 'integration, reason')}", "{{integration}}: {{reason}}"),
        unit="cpm",
    )
    yield graph(
        "Notification delay",
        "99th percentiles: the delay from the incident's record to its delivery, and the duration of the call alone.",
        Query(_quantile(0.99, "notification_delay_seconds_bucket", "integration"), "{{integration}}, delay"),
        Query(_quantile(0.99, "notification_latency_seconds_bucket", "integration"), "{{integration}}, call"),
        unit="s",
    )
    yield graph(
        "Notification queue",
        "Notifications that wait to be sent, and those that could not be sent for a day. They are kept and retried.",
        Query(f"max by (integration) ({_of('notifications_queue_length')})", "{{integration}}"),
        Query(f"max by (integration) ({_of('notifications_undelivered')})", "{{integration}}, undelivered"),
    )
    yield graph(
        "Oldest waiting notification",
        "How long the oldest notification has been waiting. Empty if none waits.",
        Query(
            f"time() - min by (integration) ({_of('notifications_oldest_waiting_timestamp_seconds')})",
            "{{integration}}",
        ),
        unit="s",
    )
    yield graph(
        "Actions in Slack",
        "Buttons pressed and commands given in Slack, by result, and lost connections for them, in the last hour.",
        Query(f"sum by (action, result) (increase({_of('slack_actions_total')}[1h]))", "{{action}}: {{result}}"),
        Query(f"sum by (reason) (increase({_of('slack_socket_lost_total')}[1h]))", "connection lost: {{reason}}"),
    )


def _notification_log() -> Iterator[Panel]:
    yield graph(
        "Notification log entries",
        "Number of incidents in the notification log.",
        Query(f"sum by (integration) ({_of('notification_log_entries')})", "{{integration}}"),
    )
    yield graph(
        "Oldest unknown outcome",
        "Age of the oldest entry without a known outcome. Empty if every outcome is known.",
        Query(
            f"time() - min by (integration) ({_of('notification_log_oldest_unsettled_timestamp_seconds')})",
            "{{integration}}",
        ),
        unit="s",
    )
    yield graph(
        "Unreadable records",
        "Records in flinkwatch's own topics that delivery could not read, in the last hour.",
        Query(
            f"sum by (topic, reason) (increase({_of('delivery_records_skipped_total')}[1h]))", "{{topic}}: {{reason}}"
        ),
    )


def _configuration() -> Iterator[Panel]:
    yield number(
        "Reload refused",
        "1: the newest configuration was refused and the previous one is in force. The log has the reason.",
        f"1 - min({_of('config_last_reload_successful')})",
        (1, RED),
    )
    yield number(
        "Last reload",
        "Time since the last successful reload.",
        _newest("config_last_reload_success_timestamp_seconds"),
        unit="s",
    )
    yield word(
        "Configuration hash", "The hash of the configuration in force.", f"max by (hash) ({_of('config_info')})", "hash"
    )
    yield word(
        "Hash of the routes",
        "The hash of the routes, quiet hours and mentions in force. Several values: deliverers read different files.",
        f"max by (hash) ({_of('routing_info')})",
        "hash",
    )
