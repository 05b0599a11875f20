"""docs/metrics.md, made from the table of metrics: it cannot say anything else than /metrics does."""

from collections.abc import Iterator

from sinks.prometheus.catalogue import NAMESPACE, TABLE, MetricDescription, Origin

_HEAD = """\
# Metrics

`/metrics` of `flinkwatch run` and `flinkwatch deliver` (port 9108, `sinks.prometheus.port`) and of `flinkwatch run
--no-deliver` (port 9109, `streaming.metrics_port`), as Prometheus text or, when asked for, as OpenMetrics. This page is
made by `flinkwatch metrics`.

- Times are Unix timestamps in seconds: an age is `time() - flinkwatch_…_timestamp_seconds`, right at every scrape.
- A series ends with what it is about: an incident that is resolved, a job that has ended, a cluster that is forgotten.
- `cluster`, `job` and `tm` name Flink's; a job or TaskManager whose name is not known has its id there. Scrape with
  `honor_labels: true`, or Prometheus renames `job` to `exported_job`.
- No label holds a message, an exception or a checkpoint's id. Only `flinkwatch_incident_open` and
  `flinkwatch_incident_info` carry an incident's id, and these series end with the incident.
- `/metrics` of a process that delivers answers 503 until the incidents and readings that were there when it started are
  completely read. So an incident that is missing on the page is not open, and a restart ends no alert by mistake.
- `/-/healthy` says that the process lives; `/-/ready` answers 503, and says why, while no batch finishes, Kafka cannot
  be read, or canaries do not come back.
"""
_PARTS: dict[Origin, tuple[str, str]] = {
    "process": ("Every process", "On each of these pages, beside the usual metrics of a Python process."),
    "incidents": (
        "Incidents",
        "From `flinkwatch.incidents`. Of several incidents with the same labels the earliest times are shown.",
    ),
    "readings": ("Readings", "Numbers the detectors work with, and counts of the job, from `flinkwatch.readings`."),
    "delivery": ("Delivery", "Of the process that delivers; names and reasons are Alertmanager's."),
    "job": ("The job", "Of the process that runs the query, as Spark tells its progress."),
}


def metrics_page() -> str:
    """The text of docs/metrics.md."""
    parts = [_HEAD]
    for origin, (title, about) in _PARTS.items():
        parts.append(f"\n## {title}\n\n{about}\n\n| metric | type | labels | |\n| --- | --- | --- | --- |\n")
        parts += _rows(TABLE[origin])
    return "".join(parts)


def _rows(group: tuple[MetricDescription, ...]) -> Iterator[str]:
    for one in group:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{NAMESPACE}{one.name}` | {one.type} | {labels} | {one.help} |\n"
