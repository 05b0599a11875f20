"""Incidents and readings for Prometheus: a board that holds the latest of each.

It is a collector: every scrape builds everything afresh, so a series vanishes with what it was about.
"""

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field

from detectors.incidents.incident import Reading, Transition
from sinks.outcome import Failure

_NAMESPACE = "flinkwatch_"
_METRIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_RESERVED = re.compile(r"incident_active|incidents|notifications\w*|delivery_\w+|build\w*")
_READING_HELP = "A number the detectors work with."
_HELP = {
    "checkpoint_duration_usual_seconds": "Duration that this job's checkpoints usually do not exceed.",
    "checkpoint_duration_last_seconds": "Duration of the last completed checkpoint.",
    "checkpoint_duration_slope_ratio": "How fast checkpoint durations grow: seconds per second.",
    "checkpoint_limit_reached_timestamp_seconds": "When checkpoint durations reach the checkpoint timeout or interval.",
    "checkpoints_failed_in_a_row": "Failed checkpoints since the last completed one.",
    "checkpoint_overdue_limit_seconds": "Age at which a checkpoint in flight is called overdue.",
    "checkpoint_in_flight_since_timestamp_seconds": "When the checkpoint in flight was triggered.",
    "records_read_total": "Records read from the log and metric topics.",
    "records_rejected_total": "Records that could not be understood, by reason; they are in the topic of dead letters.",
}


class PageConfig(BaseModel):
    """The HTTP page with /metrics, /-/healthy and /-/ready."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Serve the page.")
    address: str = Field(
        default="0.0.0.0",  # noqa: S104 - Prometheus scrapes from another host, as with every exporter
        description="Address to listen on; 127.0.0.1 when only this host may read it.",
    )
    port: int = Field(default=9108, ge=0, le=65535, description="TCP port to listen on; 0 takes a free one.")


class Board(Collector):
    """The latest incidents and readings, and the counters of delivery. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._incidents: dict[str, Transition] = {}
        self._readings: dict[str, Reading] = {}
        self._opened: Counter[tuple[str, str]] = Counter()
        self._attempts: Counter[str] = Counter()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, int] = {}

    def integrate(self, integration: str) -> None:
        """Makes the counters of a sink start at 0, so that the first failure is an increase."""
        with self._lock:
            self._attempts[integration] += 0
            self._waiting.setdefault(integration, 0)
            for failure in get_args(Failure):
                self._failures[integration, failure] += 0

    def show_incident(self, incident: str, transition: Transition | None) -> None:
        """The incident as it stands; None: it is forgotten."""
        with self._lock:
            # A stale incident stays: silence is no recovery.
            if transition is None or transition.transition == "resolved":
                self._incidents.pop(incident, None)
            else:
                self._incidents[incident] = transition

    def show_reading(self, key: str, reading: Reading | None) -> None:
        """A reading's newest value; None: its series ends.

        Raises ValueError for a name or label that would make the whole page unreadable.
        """
        if reading is not None and (problem := _naming_problem(reading)):
            raise ValueError(problem)
        with self._lock:
            if reading is None:
                self._readings.pop(key, None)
            else:
                self._readings[key] = reading

    def count_opened(self, transition: Transition) -> None:
        """An incident has opened."""
        with self._lock:
            self._opened[transition.cause, transition.severity] += 1

    def count_attempt(self, integration: str, failure: Failure | None) -> None:
        """A notification was tried; `failure` says why it did not succeed."""
        with self._lock:
            self._attempts[integration] += 1
            if failure is not None:
                self._failures[integration, failure] += 1

    def count_skipped(self, topic: str, reason: str) -> None:
        """A record of our own topics could not be read."""
        with self._lock:
            self._skipped[topic, reason] += 1

    def set_waiting(self, integration: str, length: int) -> None:
        """How many notifications wait."""
        with self._lock:
            self._waiting[integration] = length

    def collect(self) -> Iterator[Metric]:
        """Everything as metrics, called at each scrape."""
        with self._lock:
            yield from [*self._incident_metrics(), *self._delivery_metrics(), *self._reading_metrics()]

    def describe(self) -> Iterator[Metric]:
        """Nothing: names come and go, and registration need not collect."""
        return iter(())

    def _incident_metrics(self) -> Iterator[Metric]:
        active = Counter((one.cause, one.severity, one.cluster, one.job_name) for one in self._incidents.values())
        labels = ("kind", "severity", "cluster", "job")
        gauge = GaugeMetricFamily(_NAMESPACE + "incident_active", "Incidents that are not resolved.", labels=labels)
        for values, count in active.items():
            gauge.add_metric(values, count)
        yield gauge
        opened = CounterMetricFamily(
            _NAMESPACE + "incidents", "Incidents opened since this process began.", labels=("kind", "severity")
        )
        for (kind, severity), count in self._opened.items():
            opened.add_metric((kind, severity), count)
        yield opened

    def _delivery_metrics(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            _NAMESPACE + "notifications", "Notifications tried, retries included.", labels=("integration",)
        )
        for integration, count in self._attempts.items():
            attempts.add_metric((integration,), count)
        yield attempts
        failures = CounterMetricFamily(
            _NAMESPACE + "notifications_failed", "Notifications that failed.", labels=("integration", "reason")
        )
        for (integration, reason), count in self._failures.items():
            failures.add_metric((integration, reason), count)
        yield failures
        waiting = GaugeMetricFamily(
            _NAMESPACE + "notifications_queue_length", "Notifications that wait to be sent.", labels=("integration",)
        )
        for integration, count in self._waiting.items():
            waiting.add_metric((integration,), count)
        yield waiting
        skipped = CounterMetricFamily(
            _NAMESPACE + "delivery_records_skipped",
            "Records of flinkwatch's own topics that delivery could not read.",
            labels=("topic", "reason"),
        )
        for (topic, reason), count in self._skipped.items():
            skipped.add_metric((topic, reason), count)
        yield skipped
        yield InfoMetricFamily(_NAMESPACE + "build", "The version that runs.", value={"version": _version()})

    def _reading_metrics(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        sums: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
        for reading in self._readings.values():
            name = reading.name.removesuffix("_total") if reading.type == "counter" else reading.name
            if _NAMESPACE + name not in families:
                help_text = _HELP.get(reading.name, _READING_HELP)
                families[_NAMESPACE + name] = Metric(_NAMESPACE + name, help_text, reading.type)
            family = families[_NAMESPACE + name]
            if family.type == "counter":
                # Each bucket of the job counts for itself.
                labels = tuple(sorted((k, v) for k, v in reading.labels.items() if k != "bucket"))
                sums[family.name, labels] += reading.value
            else:
                family.add_sample(family.name, reading.labels, reading.value)
        for (name, labels), total in sums.items():
            families[name].add_sample(f"{name}_total", dict(labels), total)
        yield from families.values()


def _naming_problem(reading: Reading) -> str:
    if not _METRIC_NAME.fullmatch(reading.name):
        return "not a metric name"
    if _RESERVED.fullmatch(reading.name.removesuffix("_total")):
        return "a name of delivery itself"
    if any(not _METRIC_NAME.fullmatch(label) or label.startswith("__") for label in reading.labels):
        return "not a label name"
    return ""


def _version() -> str:
    try:
        return version("flinkwatch")
    except PackageNotFoundError:
        return "unknown"
