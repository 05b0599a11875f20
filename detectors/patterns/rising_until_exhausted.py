"""The base of detectors that report a process with nothing left of something, and warn while it still rises.

The warning and the exhaustion are one finding: the warning becomes critical. A warning ends when half of the rise is
undone, when the number no longer rises, or with its process.
"""

from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec

from detectors.detector import View, on, threshold
from detectors.events.names import OF_JOBMANAGER
from detectors.flink import facts
from detectors.flink.memory.rising_gauge import RisingGauge, RisingGauges
from detectors.incident import Finding, Forecast, Series
from detectors.numerics.rise import settled
from detectors.numerics.steady_rise import SteadyRise
from detectors.numerics.trend import Crossing
from detectors.patterns.keep_state import about
from detectors.patterns.per_process import OutOfMemory, OutOfMemoryConfig, OutOfMemoryState, ProcessRef, named
from detectors.values.durations import Duration, humanize

_MOVED = 2
_AS_BEFORE = 1.05
# A number that no longer rises must not reach its limit within this time.
_HORIZON_MS = 86_400_000

_View: TypeAlias = "View[Any, Any]"


class RisingConfig(OutOfMemoryConfig):
    """The settings that these detectors share."""

    warm_up: Duration = threshold(
        1_800_000,
        "Age of a process before which no rise is judged, because threads, buffers and caches are filled at first.",
    )
    significance: float = threshold(
        0.001, "Significance level (p-value) of the Mann-Kendall test for a rise.", gt=0, lt=0.1
    )


class RisingState(OutOfMemoryState):
    """`gauges` has the numbers that may rise, by the label of the process."""

    gauges: RisingGauges = msgspec.field(default_factory=RisingGauges)


class Threat(NamedTuple):
    """A rise that leads to exhaustion, and when, if that is known."""

    rise: SteadyRise
    full: Crossing | None


class RisingUntilExhausted(OutOfMemory):
    """One finding for each process whose number rises, or that has none left."""

    Config = RisingConfig
    State = RisingState
    what: ClassVar[str]
    """The name of the number."""
    unit: ClassVar[str]
    exhausted_at: ClassVar[str] = ""
    """What happens at the limit."""
    every: ClassVar[int] = 60_000
    """The time in ms between two points of the history."""

    def threat(self, gauge: RisingGauge) -> Threat | None:
        """The rise of a number, if it is to be warned of."""
        raise NotImplementedError

    def warning(self, who: str, gauge: RisingGauge) -> str:
        """Return the summary of the warning about a process."""
        raise NotImplementedError

    def amount(self, value: float) -> str:
        """Return a value of the number with its unit."""
        raise NotImplementedError

    def place(self, view: _View, label: str) -> ProcessRef:
        """Return the process with this label."""
        raise NotImplementedError

    @on(facts.ClusterEnding)
    def cluster_ending(self, view: _View, _: facts.ClusterEnding) -> None:
        for label in list(view.state.gauges.by_label):
            self._forget(view, label, "the cluster ended")

    def take(self, view: _View, label: str, host: str, value: float) -> None:
        """Take in a sample of the number of one process."""
        gauges, event = view.state.gauges, view.event
        if label not in gauges.by_label:
            for gone in gauges.gone(view.time):
                self._forget(view, gone, "its process is gone")
        gauge = gauges.of(label, host, view.time)
        late = view.time <= gauge.time
        new = gauge.take(value, view.time, self.every, (event.topic, event.partition, event.offset))
        if late or self._ends(view, label, gauge, new) or not new:
            return
        threat = self.threat(gauge)
        if threat is not None and not self._is_exhausted(view, label):
            self._warn(view, label, gauge, threat)

    def _warn(self, view: _View, label: str, gauge: RisingGauge, threat: Threat) -> None:
        full = threat.full.at if threat.full is not None else 0
        if gauge.warned and abs(full - gauge.full) <= max(gauge.full - view.time, self.every) / _MOVED:
            return
        if not gauge.warned:
            gauge.warned, gauge.base, gauge.top = view.time, threat.rise.first, gauge.value
        gauge.full, gauge.scale = full, threat.rise.scale
        view.report(self._warning(view, label, gauge, threat))

    def _ends(self, view: _View, label: str, gauge: RisingGauge, new: bool) -> bool:
        """Close the warning if its reason has ended."""
        if not gauge.warned:
            return False
        gauge.calm.take(gauge.value < (gauge.base + gauge.top) / 2, view.time)
        why = f"it is down to {self.amount(gauge.value)}" if gauge.calm.enough() else ""
        if not why and new and gauge.scale < len(gauge.history.scales):
            limits = [gauge.limit] if gauge.limit else []
            level = settled(gauge.history, gauge.scale, limits, _HORIZON_MS)
            # A coarse scale may not have the newest values yet.
            if level is not None and gauge.value <= _AS_BEFORE * level[0]:
                why = f"it has stayed at about {self.amount(level[0])} for {humanize(level[1])}"
        if why:
            self._close(view, label, gauge, why)
        return bool(why)

    def _forget(self, view: _View, label: str, why: str) -> None:
        gauge = view.state.gauges.by_label.pop(label)
        if gauge.warned:
            self._close(view, label, gauge, why)

    def _close(self, view: _View, label: str, gauge: RisingGauge, why: str) -> None:
        if not self._is_exhausted(view, label):
            view.close(self._warning(view, label, gauge, None), why)
        gauge.warned, gauge.calm.count = 0, 0

    def _is_exhausted(self, view: _View, label: str) -> bool:
        place = self.place(view, label)
        return (place.tm or place.host) in view.state.open

    def _warning(self, view: _View, label: str, gauge: RisingGauge, threat: Threat | None) -> Finding:
        place, (job, name) = self.place(view, label), view.topology.only_job()
        of_jobmanager = label.startswith(OF_JOBMANAGER)
        text = self.warning(f"JobManager {place.host}" if of_jobmanager else named(place), gauge)
        full, forecast = threat.full if threat is not None else None, None
        if full is not None:
            forecast = Forecast(self.exhausted_at, *full)
            text += f"; {self.exhausted_at} in {humanize(full.at - view.time)}" * (full.at > view.time)
        points = [(q.time, q.value) for q in (threat.rise.points if threat is not None else ())]
        return view.finding(
            label if of_jobmanager else place.tm or place.host,
            {"tm_id": place.tm, "host": place.host or gauge.host, "job_id": job, "job_name": name},
            since=gauge.warned,
            severity="warning",
            summary=text,
            confidence="fair",
            evidence=[gauge.evidence(text[:500])],
            forecast=forecast,
            series=Series(self.what, self.unit, points, gauge.limit or None) if points else None,
            advice=about(job, self.advice),
        )
