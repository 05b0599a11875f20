"""The canary: a record that goes through the whole pipeline and says when it was sent.

The job writes it to the heartbeat topic, its state stage makes a reading of it, and that reading comes back here. When
it does not, something between the brokers and this process stands still, whatever the rest says of itself.
"""

import threading
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from sinks.prometheus.families import MetricFamily

READING = "canary_timestamp_seconds"
_MISSES = 3


class Canary:
    """The last one that came back. Safe to use from several threads."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        """`wall` gives epoch seconds."""
        self._wall = wall
        self._began = wall()
        self._lock = threading.Lock()
        self._sent = 0.0
        self._took: float | None = None

    def back(self, sent: float) -> None:
        """One that was sent at `sent` (epoch s) is here."""
        with self._lock:
            if sent <= self._sent:
                return
            self._sent = sent
            # The topic still holds one from before this process began: what that took, nobody knows.
            if sent >= self._began:
                self._took = max(0.0, self._wall() - sent)

    def problem(self, every_ms: int) -> str | None:
        """Why it is late, when one is sent every so often: for three of these none has come. None when it is not."""
        with self._lock:
            sent = self._sent
        if not sent:
            return "no canary has come back yet"
        age = self._wall() - sent
        if age <= _MISSES * every_ms / 1000:
            return None
        return f"the last canary that came back was sent {age:.0f} s ago"

    def collect(self) -> Iterator[Metric]:
        """What it took and when it was sent; nothing while that is not known."""
        with self._lock:
            sent, took = self._sent, self._took
        for name, value in (("canary_round_trip_seconds", took), ("canary_timestamp_seconds", sent or None)):
            if value is not None:
                gauge = MetricFamily(name)
                gauge.add((), value)
                yield gauge.metric
