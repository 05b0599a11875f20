"""The metrics of delivery, with the names that Alertmanager uses for its own."""

from collections.abc import Iterator
from typing import get_args

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric

from detectors import DETECTORS
from detectors.incident import Transition
from sinks.contract.outcome import Failure
from sinks.prometheus.catalogue import lasting

_LATENCY_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# The goal is 0.3 s. Notifications that wait for a rate limit or an outage take minutes or hours.
_DELAY_S = (0.1, 0.3, 1.0, 3.0, 10.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0)


class DeliveryMetrics:
    """One attribute for each metric, named as in the catalogue; safe to use from several threads."""

    def __init__(self) -> None:
        self.opened = lasting(Counter, "incidents_total")
        for kind in (detector.kind for detector in DETECTORS):
            for severity in ("warning", "critical"):
                # Prometheus sees no increase in a series that begins with 1.
                self.opened.labels(kind, severity)
        self.attempts = lasting(Counter, "notifications_total")
        self.failures = lasting(Counter, "notifications_failed_total")
        self.suppressed = lasting(Counter, "notifications_suppressed_total")
        self.latency = lasting(Histogram, "notification_latency_seconds", buckets=_LATENCY_S)
        self.delay = lasting(Histogram, "notification_delay_seconds", buckets=_DELAY_S)
        self.waiting = lasting(Gauge, "notifications_queue_length")
        self.oldest_waiting = lasting(Gauge, "notifications_oldest_waiting_timestamp_seconds")
        self.undelivered = lasting(Gauge, "notifications_undelivered")
        self.log_entries = lasting(Gauge, "notification_log_entries")
        self.unsettled = lasting(Gauge, "notification_log_oldest_unsettled_timestamp_seconds")
        self.actions = lasting(Counter, "slack_actions_total")
        self.socket_lost = lasting(Counter, "slack_socket_lost_total")
        self.skipped = lasting(Counter, "delivery_records_skipped_total")

    def add_receiver(self, receiver: str) -> None:
        """Start the series of a receiver at 0, so that its first failure is an increase."""
        for metric in (self.attempts, self.latency, self.delay, self.waiting, self.undelivered, self.log_entries):
            metric.labels(receiver)
        for failure in get_args(Failure):
            self.failures.labels(receiver, failure)

    def count_opened(self, transition: Transition) -> None:
        self.opened.labels(transition.cause, transition.severity).inc()

    def count_attempt(self, receiver: str, failure: Failure | None) -> None:
        self.attempts.labels(receiver).inc()
        if failure is not None:
            self.failures.labels(receiver, failure).inc()

    def undelivered_words(self) -> str | None:
        """The numbers of undelivered incidents as text; None if there are none."""
        samples = [sample for metric in self.undelivered.collect() for sample in metric.samples if sample.value]
        counts = sorted((sample.labels["integration"], f"{sample.value:.0f}") for sample in samples)
        named = ", ".join(f"{count} on {receiver}" for receiver, count in counts)
        return f"undelivered incidents, which are kept and retried: {named}" if named else None

    def collect(self) -> Iterator[Metric]:
        for metric in vars(self).values():
            yield from metric.collect()


def set_time(gauge: Gauge, receiver: str, at_ms: int | None) -> None:
    """Set the series of a receiver to a time, or remove it if there is none: its age would cause an alert."""
    if at_ms is None:
        gauge.remove_by_labels({"integration": receiver})
    else:
        gauge.labels(receiver).set(at_ms / 1000)
