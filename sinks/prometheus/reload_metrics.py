"""Metrics of settings that are reloaded."""

import time
from collections.abc import Callable, Iterator

from prometheus_client import Gauge
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from sinks.prometheus.catalogue import info, lasting


class ReloadMetrics(Collector):
    """Whether the configuration file could be read, and when it was read last. Reading it at the start counts."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._successful = lasting(Gauge, "config_last_reload_successful")
        self._at = lasting(Gauge, "config_last_reload_success_timestamp_seconds")
        self.reloaded(successful=True)

    def reloaded(self, successful: bool) -> None:
        self._successful.set(successful)
        if successful:
            self._at.set(self._wall())

    def collect(self) -> Iterator[Metric]:
        yield from self._successful.collect()
        yield from self._at.collect()


class SettingInfo(Collector):
    """A metric whose label names the settings in force."""

    def __init__(self, name: str, value: Callable[[], str]) -> None:
        self._name, self._value = name, value

    def collect(self) -> Iterator[Metric]:
        yield info(self._name, self._value())
