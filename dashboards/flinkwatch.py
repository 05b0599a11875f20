"""flinkwatch itself: is it keeping up, does it read everything, does it tell, what configuration is in force."""

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


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({_of(metric)}[$__rate_interval]))"


def flinkwatch() -> dashboard.Dashboard:
    made = board("flinkwatch-itself", "flinkwatch", "The job and delivery of flinkwatch itself.", "now-3h")
    made.with_variable(choice("instance", "Instance", "label_values(flinkwatch_build_info, instance)"))
    rows = {"": _overview(), "Reading": _reading(), "Batches and state": _batches(), "Delivery": _delivery()}
    return fill(made, {**rows, "What delivery remembers": _notification_log(), "Configuration": _configuration()})


def _overview() -> Iterator[Panel]:
    yield number("Not ready", "Checks of /-/ready that find something wrong.", f"sum(1 - {_of('ready')})", (1, RED))
    yield number(
        "Behind",
        "Records the last batch left unread for its limit.",
        f"sum({_of('consumer_lag_records')})",
        (100_000, ORANGE),
    )
    yield number(
        "Since the last batch",
        "A batch comes every trigger.",
        _newest("batch_last_timestamp_seconds"),
        (60, RED),
        unit="s",
    )
    yield number("Canary takes", "From Kafka to delivery.", f"max({_of('canary_round_trip_seconds')})", unit="s")
    yield number(
        "Undelivered",
        "Waiting for longer than a day; they are kept.",
        f"sum({_of('notifications_undelivered')})",
        (1, RED),
    )
    yield word("Version", "The version that runs.", f"max by (version) ({_of('build_info')})", "version")


def _reading() -> Iterator[Panel]:
    yield graph(
        "Records behind",
        "Left unread by the last batch for its limit.",
        Query(f"max by (topic) ({_of('consumer_lag_records')})", "{{topic}}"),
    )
    yield graph(
        "The stream's clock is behind by",
        "How old the newest is that every partition has reached; deadlines run on this clock.",
        Query(_newest("stream_time_timestamp_seconds"), "clock"),
        Query(f"max({_of('clock_host_ahead_seconds')})", "the job's host is ahead by"),
        Query(f"max({_of('cluster_waits_seconds')})", "a cluster waits for a partition that lags"),
        unit="s",
    )
    yield graph(
        "Records a second",
        "In: as Kafka has them. Worked through: what the last batch did in its time; below `in` the job falls behind.",
        Query(f"max({_of('input_records_per_second')})", "in"),
        Query(f"max({_of('processed_records_per_second')})", "worked through"),
        Query(f"sum(rate({_of('input_records_total')}[$__rate_interval]))", "taken in, all topics"),
        Query(f"max(rate({_of('records_read_total')}[$__rate_interval]))", "of logs and metrics"),
        unit="cps",
    )
    yield graph(
        "Rejected records",
        "Records a second that could not be understood, by reason; docs/inputs.md explains each.",
        Query(f"max by (reason) (rate({_of('records_rejected_total')}[$__rate_interval]))", "{{reason}}"),
        Query(f"max by (topic) (rate({_of('outputs_cut_total')}[$__rate_interval]))", "cut, for {{topic}}"),
        Query(
            f"max by (cluster, what) (rate({_of('cluster_entries_cut_total')}[$__rate_interval]))",
            "{{what}} cut, of {{cluster}}",
        ),
        unit="cps",
    )
    yield graph(
        "Records not understood",
        "Share of a topic's records without a known log layout or metric name, and sources of which nearly all are.",
        Query(
            f"max by (topic) (rate({_of('records_not_understood_total')}[$__rate_interval])) / max by (topic) ("
            f"rate({_of('records_understood_total')}[$__rate_interval]) + "
            f"rate({_of('records_not_understood_total')}[$__rate_interval]))",
            "{{topic}}",
        ),
        Query(f"max by (topic, cluster, source) ({_of('input_not_understood_ratio')})", "{{cluster}} {{source}}"),
        unit="percentunit",
    )


def _batches() -> Iterator[Panel]:
    yield graph(
        "Duration of a batch",
        "A batch that takes longer than the trigger delays the next.",
        Query(_quantile(0.5, "batch_duration_seconds_bucket", ""), "half are quicker"),
        Query(_quantile(0.99, "batch_duration_seconds_bucket", ""), "99 % are quicker"),
        Query(f"max({_of('state_commit_seconds')})", "commit of the state, all tasks"),
        Query(f"max({_of('trigger_seconds')})", "trigger", limit=True),
        unit="s",
    )
    yield graph(
        "Canary",
        "How long a record takes through everything, and how long ago the last one that came back was sent.",
        Query(f"max({_of('canary_round_trip_seconds')})", "takes"),
        Query(_newest("canary_timestamp_seconds"), "last one sent before"),
        unit="s",
    )
    yield graph(
        "State",
        "Memory and files of RocksDB.",
        Query(f"max({_of('state_memory_bytes')})", "memory"),
        Query(f"max({_of('state_disk_bytes')})", "files"),
        unit="bytes",
    )
    yield graph(
        "Rows of state", "One for each cluster and one for each bucket.", Query(f"max({_of('state_rows')})", "rows")
    )
    yield graph(
        "Restarts of the query",
        "Failures within an hour after which the job started its query again by itself; its log has the reason.",
        Query(f"sum(increase({_of('query_restarts_total')}[1h]))", "restarts"),
    )


def _delivery() -> Iterator[Panel]:
    yield graph(
        "Notifications",
        "In a minute, retries included; failed ones by reason.",
        Query(f"60 * {_rate('notifications_total', 'integration')}", "{{integration}}"),
        Query(
            f"60 * {_rate('notifications_failed_total', 'integration, reason')}", "{{integration}} failed: {{reason}}"
        ),
        unit="cpm",
    )
    yield graph(
        "Not sent on purpose",
        "In a minute, by reason: quiet hours, silence, digest.",
        Query(f"60 * {_rate('notifications_suppressed_total', 'integration, reason')}", "{{integration}}: {{reason}}"),
        unit="cpm",
    )
    yield graph(
        "From the incident's record to its delivery",
        "99 % are quicker: the delay counts all waiting, the call is that of Slack or the sink alone.",
        Query(_quantile(0.99, "notification_delay_seconds_bucket", "integration"), "{{integration}}, delay"),
        Query(_quantile(0.99, "notification_latency_seconds_bucket", "integration"), "{{integration}}, call"),
        unit="s",
    )
    yield graph(
        "Waiting",
        "Notifications that wait to be sent, and those given up after a day, which are kept.",
        Query(f"max by (integration) ({_of('notifications_queue_length')})", "{{integration}}"),
        Query(f"max by (integration) ({_of('notifications_undelivered')})", "{{integration}}, undelivered"),
    )
    yield graph(
        "The oldest waits for",
        "Nothing while none waits.",
        Query(
            f"time() - min by (integration) ({_of('notifications_oldest_waiting_timestamp_seconds')})",
            "{{integration}}",
        ),
        unit="s",
    )


def _notification_log() -> Iterator[Panel]:
    yield graph(
        "Notification log",
        "Incidents that the notification log has an entry of.",
        Query(f"sum by (integration) ({_of('notification_log_entries')})", "{{integration}}"),
    )
    yield graph(
        "Notification log unsettled for",
        "Age of the oldest entry without a known outcome; nothing while every outcome is known.",
        Query(
            f"time() - min by (integration) ({_of('notification_log_oldest_unsettled_timestamp_seconds')})",
            "{{integration}}",
        ),
        unit="s",
    )
    yield graph(
        "Records delivery could not read",
        "Of flinkwatch's own topics, in the last hour.",
        Query(
            f"sum by (topic, reason) (increase({_of('delivery_records_skipped_total')}[1h]))", "{{topic}}: {{reason}}"
        ),
    )


def _configuration() -> Iterator[Panel]:
    yield number(
        "Reload refused",
        "0: the configuration in force is the newest. 1: the newest was refused; the log says why.",
        f"1 - min({_of('config_last_reload_successful')})",
        (1, RED),
    )
    yield number(
        "In force for",
        "Since the last successful load.",
        _newest("config_last_reload_success_timestamp_seconds"),
        unit="s",
    )
    yield word("In force", "The hash of the configuration in force.", f"max by (hash) ({_of('config_info')})", "hash")
