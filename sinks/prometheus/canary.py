"""The canary: a record that passes through the whole pipeline and carries the time at which it was sent.

The job writes it to the heartbeat topic, its state stage turns it into a reading, and the reading arrives here. If it
does not arrive, something between the brokers and this process is stuck, whatever other checks say.
"""

import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from sinks.prometheus.families import MetricFamily

READING = "canary_timestamp_seconds"
_MISSES = 3


class Canary:
    """The last canary that arrived. Safe to use from several threads."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """`wall` gives epoch seconds."""
        self._wall = wall
        self._began = wall()
        self._lock = threading.Lock()
        self._sent = 0.0
        self._took: float | None = None

    def back(self, sent: float) -> None:
        """A canary sent at `sent` (epoch s) has arrived."""
        with self._lock:
            if sent <= self._sent:
                return
            self._sent = sent
            # The topic still has a canary from before this process began, whose round trip is unknown.
            if sent >= self._began:
                self._took = max(0.0, self._wall() - sent)

    def problem(self, every_ms: int) -> str | None:
        """Why the canary is late, if none has arrived for three intervals of `every_ms`; else None."""
        with self._lock:
            sent = self._sent
        if not sent:
            return "no canary has arrived yet"
        age = self._wall() - sent
        if age <= _MISSES * every_ms / 1000:
            return None
        return f"the last canary that arrived was sent {age:.0f} s ago"

    def collect(self) -> Iterator[Metric]:
        """Round trip and send time of the last canary, if known."""
        with self._lock:
            sent, took = self._sent, self._took
        for name, value in (("canary_round_trip_seconds", took), ("canary_timestamp_seconds", sent or None)):
            if value is not None:
                gauge = MetricFamily(name)
                gauge.add((), value)
                yield gauge.metric
