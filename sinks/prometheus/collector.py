"""The collector of incidents and readings for Prometheus, which keeps the latest record of each.

Every scrape builds all metrics again, so a series ends when its incident or reading ends.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Reading, Transition
from detectors.incidents.shared_resources import is_part, is_shared
from sinks.contract.feedback import FeedbackState
from sinks.prometheus.catalogue import build_info
from sinks.prometheus.delivery_metrics import DeliveryMetrics
from sinks.prometheus.incident_metrics import OpenIncident, acknowledged_metric, active_metrics, open_metrics
from sinks.prometheus.reading_metrics import CANARY, Canary, compact, naming_problem, reading_metrics

# One cluster, no cluster, and flinkwatch itself.
_FEW = 3


class IncidentCollector(Collector):
    """The latest incidents and readings, and the metrics of `delivery`. Safe to use from several threads."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._lock = threading.Lock()
        self._incidents: dict[str, OpenIncident] = {}
        self._readings: dict[str, Reading] = {}
        self._platforms: dict[str, Transition] = {}
        self.delivery = DeliveryMetrics()
        self.feedback = FeedbackState()
        self.canary = Canary(wall)

    def show_incident(self, incident: str, transition: Transition | None, place: tuple[int, int] | None = None) -> None:
        """Take the newest record of an incident; `place` is its partition and offset, None for a deleted incident."""
        with self._lock:
            # A stale incident stays, because missing data is no recovery.
            if transition is None or transition.transition == "resolved":
                self._incidents.pop(incident, None)
                self._platforms.pop(incident, None)
            else:
                self._incidents[incident] = OpenIncident.of(transition, place)
                if is_shared(transition):
                    self._platforms[incident] = transition

    def platform_of(self, transition: Transition) -> Transition | None:
        """The open incident of several clusters that this one is part of."""
        with self._lock:
            return next((whole for whole in self._platforms.values() if is_part(transition, whole)), None)

    def open_incidents(self) -> dict[str, OpenIncident]:
        """Those that are not resolved, by ID."""
        with self._lock:
            return dict(self._incidents)

    def place_of(self, incident: str) -> tuple[int, int] | None:
        """Partition and offset of the newest record of an open incident."""
        with self._lock:
            found = self._incidents.get(incident)
        return None if found is None else found.place

    def knows_one_cluster(self) -> bool:
        """Whether there are readings, all of one cluster, and incidents of no other one."""
        with self._lock:
            named = {one.labels[2] for one in self._incidents.values()}
            read: set[str] = set()
            for reading in self._readings.values():
                read.add(reading.labels.get("cluster", ""))
                if len(read) > _FEW:
                    break
        ours = {"", flinkwatch_itself.CLUSTER}
        return bool(read - ours) and len((named | read) - ours) == 1

    def show_reading(self, key: str, reading: Reading | None) -> None:
        """Set the latest value of a reading; None ends its series.

        Raises ValueError for a name or label that would make the whole page invalid.
        """
        if reading is not None and reading.name == CANARY:
            self.canary.arrived(reading.value)
            return
        if reading is not None and (problem := naming_problem(reading)):
            raise ValueError(problem)
        with self._lock:
            if reading is None:
                self._readings.pop(key, None)
            else:
                self._readings[key] = compact(reading)

    def readings_of(self, cluster: str) -> list[Reading]:
        """The latest readings of a cluster."""
        with self._lock:
            return [one for one in self._readings.values() if one.labels.get("cluster") == cluster]

    def readings_by_cluster(self) -> Counter[str]:
        """How many readings each cluster has; those of flinkwatch itself have the name ""."""
        with self._lock:
            return Counter(one.labels.get("cluster", "") for one in self._readings.values())

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            incidents, readings = dict(self._incidents), list(self._readings.values())
        yield from open_metrics(incidents)
        yield from active_metrics(incidents.values())
        yield acknowledged_metric(incidents, self.feedback.acknowledged())
        yield from reading_metrics(readings)
        yield from self.delivery.collect()
        yield from self.canary.collect()
        yield build_info()

    def describe(self) -> Iterator[Metric]:
        """Nothing, because the names change and registration must not collect."""
        return iter(())
