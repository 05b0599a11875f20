"""The health of delivery, from the metrics of this process and the notification log."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from sinks.prometheus.catalogue import NAMESPACE
from sinks.web.site.documents import ReceiverHealth

_RECEIVER, _REASON = "integration", "reason"


def receivers_health(
    metrics: Iterable[Metric], states: Mapping[str, tuple[dict[str, int], int]]
) -> list[ReceiverHealth]:
    """One entry for each receiver of this process, and for each other one whose notification log still has entries.

    `metrics` are those of delivery. `states` are, for each receiver, its entries by state and the time of the last one.
    """
    samples: dict[str, dict[tuple[str, str], float]] = {}
    for metric in metrics:
        for sample in metric.samples:
            if receiver := sample.labels.get(_RECEIVER):
                name = sample.name.removeprefix(NAMESPACE)
                samples.setdefault(receiver, {})[name, sample.labels.get(_REASON, "")] = sample.value
    return [_health(name, samples.get(name, {}), *states.get(name, ({}, 0))) for name in sorted({*samples, *states})]


def _health(
    receiver: str, samples: Mapping[tuple[str, str], float], states: dict[str, int], last_sent: int
) -> ReceiverHealth:
    def number(name: str) -> int:
        return int(samples.get((name, ""), 0))

    oldest = samples.get(("notifications_oldest_waiting_timestamp_seconds", ""))
    return ReceiverHealth(
        receiver=receiver,
        attempts=number("notifications_total"),
        failures=_by_reason(samples, "notifications_failed_total"),
        suppressed=_by_reason(samples, "notifications_suppressed_total"),
        waiting=number("notifications_queue_length"),
        oldest_waiting=None if oldest is None else int(oldest * 1000),
        undelivered=number("notifications_undelivered"),
        states=states,
        last_sent=last_sent or None,
    )


def _by_reason(samples: Mapping[tuple[str, str], float], name: str) -> dict[str, int]:
    return {reason: int(value) for (found, reason), value in samples.items() if found == name and value}
