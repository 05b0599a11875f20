"""A container of Flink on native Kubernetes, as the kubelet measures it, for stories."""

from collections.abc import Callable
from typing import Self

from detectors.events.event import Sample
from tests.unit.detectors.story import MINUTE, Story

POD = "orders-taskmanager-1-1"
LIMIT = 2e9
CONTAINER = {"namespace": "flink", "pod": POD, "container": "flink-main-container", "app": "orders"}


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
