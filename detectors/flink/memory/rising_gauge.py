"""A number of one process that may rise until the process dies: the memory of its container, its threads."""

import msgspec

from detectors.flink.calm import CalmSamples
from detectors.incident import Evidence
from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.steady_rise import SteadyRise, steady_rise
from detectors.values.bounded import put_bounded, to_int

_MAX_PROCESSES = 400
_KEEP_MS = 3_600_000
_FELL = 0.5


class RisingGauge(msgspec.Struct, array_like=True):
    """The number `value` at the event time `time`, and its history since the process was first seen (`started`).

    `limit` is what it may reach (0: unknown), `record` the address of the newest sample in Kafka. While a warning is
    open: `warned` is its event time, it rose from `base` to `top` on the time scale `scale`, `full` is when it reaches
    the limit.
    """

    host: str
    started: int
    value: int = 0
    time: int = 0
    limit: int = 0
    record: tuple[str, int, int] = ("", 0, 0)
    warned: int = 0
    base: float = 0.0
    top: int = 0
    scale: int = 0
    full: int = 0
    history: MultiscaleSeries = msgspec.field(default_factory=MultiscaleSeries)
    calm: CalmSamples = msgspec.field(default_factory=CalmSamples)

    def take(self, value: float, time: int, every: int, record: tuple[str, int, int]) -> bool:
        """Take in a sample, unless it is late. Returns whether the history has a new point: one for each `every` ms.

        A number that falls by half is that of a new process.
        """
        if time <= self.time or value < 0:
            return False
        if value < _FELL * self.value:
            self.history, self.started = MultiscaleSeries(), time
        self.value, self.time, self.record = to_int(value), time, record
        if time - self.history.last < every:
            return False
        self.history.add(Point(time, value))
        return True

    def rise(self, least: float, significance: float, warm_up: int, duration: int = 0) -> SteadyRise | None:
        """A rise by at least `least` over `duration` ms, after the first `warm_up` ms of the process."""
        return steady_rise(self.history, least, significance, duration, self.started + warm_up)

    def evidence(self, text: str) -> Evidence:
        """The newest sample as evidence."""
        return Evidence(*self.record, self.time, text)


class RisingGauges(msgspec.Struct, array_like=True):
    """The numbers of the processes of a cluster, by their label in metrics."""

    by_label: dict[str, RisingGauge] = {}

    def of(self, label: str, host: str, time: int) -> RisingGauge:
        """The number of one process. A new process makes room for itself."""
        known = self.by_label.get(label)
        if known is None:
            known = RisingGauge(host, time)
            put_bounded(self.by_label, label, known, _MAX_PROCESSES)
        return known

    def gone(self, time: int) -> list[str]:
        """The labels of processes that have not been measured for an hour."""
        return [label for label, gauge in self.by_label.items() if time - gauge.time > _KEEP_MS and gauge.time]
