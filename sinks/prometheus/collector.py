"""The collector of incidents and readings for Prometheus, which keeps the latest record of each.

Every scrape builds all metrics again, so a series ends when its incident or reading ends.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field

from detectors.incident import Reading, Transition
from sinks.contract.outcome import Failure
from sinks.prometheus.canary import READING, Canary
from sinks.prometheus.catalogue import TABLE
from sinks.prometheus.delivery_metrics import DeliveryMetrics
from sinks.prometheus.families import build_info
from sinks.prometheus.incident_metrics import OpenIncident, active_metrics, open_metrics
from sinks.prometheus.reading_metrics import compact, reading_metrics

_METRIC_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SUFFIX = re.compile(r"_(total|info|bucket|sum|count|created)$")
_RESERVED = frozenset(
    _SUFFIX.sub("", one.name) for origin, group in TABLE.items() if origin != "readings" for one in group
)


class PrometheusConfig(BaseModel):
    """The HTTP server with /metrics, /-/healthy and /-/ready."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Whether to start the HTTP server.")
    address: str = Field(
        default="0.0.0.0",  # noqa: S104  # nosec B104 - Prometheus scrapes from another host
        description="Address to listen on. Use 127.0.0.1 to allow access only from this host.",
    )
    port: int = Field(default=9108, ge=0, le=65535, description="TCP port to listen on. 0 selects a free port.")


class IncidentCollector(Collector):
    """The latest incidents and readings, and the counters of delivery. Safe to use from several threads."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._incidents: dict[str, OpenIncident] = {}
        self._readings: dict[str, Reading] = {}
        self._delivery = DeliveryMetrics()
        self._undelivered: dict[str, int] = {}
        self._canary = Canary(wall)

    def show_incident(self, incident: str, transition: Transition | None) -> None:
        """Set the latest transition of an incident; None removes it."""
        with self._lock:
            # A stale incident stays, because missing data is no recovery.
            if transition is None or transition.transition == "resolved":
                self._incidents.pop(incident, None)
            else:
                self._incidents[incident] = OpenIncident.of(transition)

    def show_reading(self, key: str, reading: Reading | None) -> None:
        """Set the latest value of a reading; None ends its series.

        Raises ValueError for a name or label that would make the whole page invalid.
        """
        if reading is not None and reading.name == READING:
            self._canary.back(reading.value)
            return
        if reading is not None and (problem := _naming_problem(reading)):
            raise ValueError(problem)
        with self._lock:
            if reading is None:
                self._readings.pop(key, None)
            else:
                self._readings[key] = compact(reading)

    def canary_problem(self, every_ms: int) -> str | None:
        """Why the pipeline seems to be stuck, given a canary every `every_ms`; else None."""
        return self._canary.problem(every_ms)

    def integrate(self, integration: str) -> None:
        """Start the counters of a receiver at 0, so that its first failure is an increase."""
        self._delivery.integrate(integration)

    def count_opened(self, transition: Transition) -> None:
        """Count an opened incident."""
        self._delivery.opened.labels(transition.cause, transition.severity).inc()

    def count_attempt(self, integration: str, failure: Failure | None) -> None:
        """Count an attempt to send a notification; `failure` is the reason if it failed."""
        self._delivery.attempts.labels(integration).inc()
        if failure is not None:
            self._delivery.failures.labels(integration, failure).inc()

    def count_suppressed(self, integration: str, reason: str) -> None:
        """Count a suppressed notification; `reason` is from a fixed set, such as silence."""
        self._delivery.suppressed.labels(integration, reason).inc()

    def count_skipped(self, topic: str, reason: str) -> None:
        """Count a record of flinkwatch's own topics that could not be read."""
        self._delivery.skipped.labels(topic, reason).inc()

    def observe_latency(self, integration: str, seconds: float) -> None:
        """Observe the duration of a call."""
        self._delivery.latency.labels(integration).observe(seconds)

    def observe_delay(self, integration: str, seconds: float) -> None:
        """Observe the time from a transition's record in Kafka to its delivery."""
        self._delivery.delay.labels(integration).observe(seconds)

    def set_waiting(self, integration: str, length: int) -> None:
        """Set the number of waiting notifications."""
        self._delivery.waiting.labels(integration).set(length)

    def set_oldest_waiting(self, integration: str, since: float | None) -> None:
        """Set the time (epoch s) since which the oldest notification waits; None if none waits."""
        self._delivery.since(self._delivery.oldest_waiting, integration, since)

    def set_undelivered(self, integration: str, count: int) -> None:
        """Set the number of incidents that could not be delivered for a day, or were refused; they are kept."""
        self._delivery.undelivered.labels(integration).set(count)
        self._undelivered = self._undelivered | {integration: count}

    def undelivered(self) -> str | None:
        """The numbers of undelivered incidents as text; None if there are none."""
        counts = [f"{count} on {name}" for name, count in sorted(self._undelivered.items()) if count]
        return f"undelivered incidents, which are kept and retried: {', '.join(counts)}" if counts else None

    def set_notification_log(self, integration: str, entries: int, unsettled_since: float | None) -> None:
        """Its number of incidents, and when (epoch s) the oldest entry without a known outcome was written."""
        self._delivery.log_entries.labels(integration).set(entries)
        self._delivery.since(self._delivery.unsettled, integration, unsettled_since)

    def collect(self) -> Iterator[Metric]:
        """All metrics; called at each scrape."""
        with self._lock:
            incidents, readings = dict(self._incidents), list(self._readings.values())
        yield from open_metrics(incidents)
        yield from active_metrics(incidents.values())
        yield from reading_metrics(readings)
        yield from self._delivery.collect()
        yield from self._canary.collect()
        yield build_info()

    def describe(self) -> Iterator[Metric]:
        """Nothing, because the names change and registration must not collect."""
        return iter(())


def _naming_problem(reading: Reading) -> str:
    if not _METRIC_NAME.fullmatch(reading.name):
        return "invalid metric name"
    if _SUFFIX.sub("", reading.name) in _RESERVED:
        return "metric name reserved for delivery"
    if any(not _METRIC_NAME.fullmatch(label) or label.startswith("__") for label in reading.labels):
        return "invalid label name"
    return ""
