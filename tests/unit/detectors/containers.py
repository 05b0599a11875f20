"""Containers of Flink on Kubernetes, as the kubelet measures them, for stories."""

from collections.abc import Callable
from typing import Self, TypeVar

from detectors.events.event import Sample
from tests.unit.detectors.story import MINUTE, SECOND, Story

POD = "orders-taskmanager-1-1"
LIMIT = 2e9
CONTAINER = {"namespace": "flink", "pod": POD, "container": "flink-main-container", "app": "orders"}

S = TypeVar("S", bound=Story)


def throttled(history: S, pod: str, until: int, share: float = 0.6) -> S:
    """The same story with a container `taskmanager` that is throttled for three minutes until a time in ms."""
    labels = {"pod": pod, "container": "taskmanager", "app": "c"}
    for number, at in enumerate(range(until - 3 * MINUTE, until, 15 * SECOND)):
        history.scrape(
            Sample("container_cpu_periods", labels, 150.0 * number),
            Sample("container_cpu_throttled_periods", labels, 150.0 * share * number),
            at=at,
            source="node-7",
            host="node-7",
        )
    return history


class Contained(Story):
    """Containers that are measured once a minute."""

    def memory(
        self, share: Callable[[int], float], until: int, *, limit: float = LIMIT, pod: str = POD, every: int = 1
    ) -> Self:
        """The share of its limit that a container uses at each minute, until a minute."""
        labels = {**CONTAINER, "pod": pod}
        for minute in range(0, until, every):
            self.scrape(
                Sample("container_memory_limit", labels, limit),
                Sample("container_memory", labels, share(minute) * (limit or LIMIT)),
                at=minute * MINUTE,
                source="node-7",
                host="node-7",
            )
        return self
