"""The samples of a Prometheus server as they are scraped, read in a thread of their own: a server may be slow."""

import queue
import time
from collections.abc import Callable, Iterator

import msgspec

from detectors.events.event import Record
from sinks.secret import SecretError
from streaming.recordings.prometheus_api import PrometheusError, ScrapedSeries
from streaming.recordings.prometheus_samples import PrometheusSamples
from streaming.threads import Background

_EVERY_S = 10.0
# A scrape shows when it has ended, with the time at which it began.
_BACK_MS = 120_000
_NAMES_MS = 300_000
_WAITING = 10_000


class FollowedSamples(Background):
    """The samples after `since` (epoch ms).

    `warn` gets a sentence when the server cannot be read any more, and another one when it answers again.
    """

    def __init__(
        self, samples: PrometheusSamples, since: int, warn: Callable[[str], None], every_s: float = _EVERY_S
    ) -> None:
        super().__init__("followed-samples")
        self._every_s = every_s
        self._samples = samples
        self._since = since
        self._warn = warn
        self._names: list[str] = []
        self._named_at = 0
        self._last: dict[str, float] = {}
        self._found: queue.Queue[Record] = queue.Queue(_WAITING)

    def records(self, now: int) -> Iterator[Record]:
        """What has come since the last call, arriving at `now`."""
        for _ in range(self._found.qsize()):
            yield msgspec.structs.replace(self._found.get_nowait(), timestamp=now)

    def _run(self) -> None:
        failed = False
        while not self._stop.wait(self._every_s):
            try:
                self.poll(round(time.time() * 1000))
                if failed:
                    self._warn(f"Prometheus at {self._samples.name} answers again")
                failed = False
            except (PrometheusError, SecretError) as error:
                if not failed:
                    self._warn(f"{error}; it is tried again")
                failed = True

    def poll(self, now: int) -> None:
        """Read the samples that are new. Raises PrometheusError."""
        begin = max(now - _BACK_MS, self._since)
        if now - self._named_at >= _NAMES_MS or not self._names:
            self._names, self._named_at = self._samples.names(begin, now), now
        if not self._names:
            return
        found = self._samples.series(self._names, begin, now)
        last, self._last = self._last, {}
        for series in found:
            self._keep_new(series, last)
        for record in self._samples.records(found, begin, now):
            self._found.put(record)

    def _keep_new(self, series: ScrapedSeries, last: dict[str, float]) -> None:
        key = repr(sorted(series.metric.items()))
        newest = last.get(key, 0.0)
        series.values = [sample for sample in series.values if sample[0] > newest]
        self._last[key] = series.values[-1][0] if series.values else newest
