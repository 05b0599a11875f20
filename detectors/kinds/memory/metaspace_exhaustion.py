"""A process has no Metaspace left for classes, or the next deployment will use up the rest.

Opens as critical at `OutOfMemoryError: Metaspace` (or `Compressed class space`) in any stack trace of any log. Often
only the .out file has it, because the logger could not load a class either, and the process then ends in what looks
like a planned stop. Before that it opens as a warning when metrics show a staircase: `Metaspace.Used` is above
`usage_warning` of its limit, has grown by `growth_factor` since the first of at least `min_deployments` deployments
without ever coming down, and one more step goes over the limit. The JVM unloads classes only when it must, so
growth alone is healthy; growth that outlasts such a collection is not.

Why it matters: each deployment leaves its classes behind (a thread that was never stopped, a driver that stays
registered), and the last one kills all TaskManagers at once, with every job on them.

Reference: Flink, "Debugging Classloading"; FLINK-16408, FLINK-24401; a recording of five deployments.
"""

from itertools import pairwise
from typing import TypeAlias

import msgspec

from detectors.detector import View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.flink import facts
from detectors.flink.calm import CalmSamples
from detectors.flink.facts import Failure
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.incident import Evidence, Finding, Series
from detectors.patterns.keep_state import about, keep_state
from detectors.patterns.per_process import (
    MAX_TMS,
    OC,
    OS,
    ExhaustedProcess,
    OutOfMemory,
    OutOfMemoryConfig,
    OutOfMemoryState,
    named,
    writer,
)
from detectors.values.bounded import put_bounded, to_int
from detectors.values.durations import LONG_AGO

_TEXTS = ("Metaspace", "Compressed class space")
_MAX_MARKS = 12
_MAX_POINTS = 64
_SAME_DEPLOYMENT_MS = 2_000
_FELL = 0.95
_STEP = 0.01
_MB = 1_000_000

_View: TypeAlias = "View[MetaspaceExhaustion.Config, MetaspaceExhaustion.State]"


class MetaspaceSteps(msgspec.Struct, array_like=True):
    """Metaspace of one process in bytes: used and limit now, and used before each deployment (`marks`).

    `marks` starts again when Metaspace comes down. `points` (epoch ms, bytes) are the ends of each step, `record` is
    the address of the newest sample in Kafka.
    """

    host: str
    used: int = -1
    limit: int = -1
    time: int = 0
    marks: list[int] = []
    points: list[tuple[int, int]] = []
    record: tuple[str, int, int] = ("", 0, 0)
    warned: int = 0
    calm: CalmSamples = msgspec.field(default_factory=CalmSamples)

    def take(self, time: int, used: int) -> None:
        """Add a sample. Most are like the previous one and add no point."""
        known = self.points[-1] if self.points else (0, 0)
        if abs(used - known[1]) >= _STEP * known[1]:
            flat = [(self.time, self.used)] if self.points and self.time > known[0] else []
            self.points = [*self.points, *flat, (time, used)]
        if len(self.points) >= _MAX_POINTS:
            self.points = self.points[::2]
        self.used, self.time = used, time

    def series(self) -> Series:
        """The series for a chart, up to the newest sample."""
        points = [*(p for p in self.points if p[0] < self.time), (self.time, self.used)]
        return Series("Metaspace used", "MB", [(t, round(v / _MB, 1)) for t, v in points], round(self.limit / _MB, 1))

    def evidence(self) -> Evidence:
        """The newest sample as evidence."""
        return Evidence(
            *self.record, self.time, f"Metaspace used: {self.used / _MB:.1f} MB of {self.limit / _MB:.1f} MB"
        )


class MetaspaceExhaustion(OutOfMemory):
    """Detects processes without Metaspace left, and warns before that."""

    kind = "metaspace_exhaustion"
    belongs_to = "process"

    class Config(OutOfMemoryConfig):
        """Settings of the detector `metaspace_exhaustion`."""

        usage_warning: float = threshold(
            0.8, "Share of the Metaspace limit in use below which no warning is given.", gt=0, lt=1
        )
        growth_factor: float = threshold(
            1.5,
            "Growth factor of Metaspace since the first deployment below which no warning is given. At larger growth "
            "the JVM has already tried to unload classes.",
            gt=1,
        )
        min_deployments: int = threshold(
            3, "Number of deployments that must each have left more Metaspace in use.", ge=2, le=_MAX_MARKS
        )

    class State(OutOfMemoryState):
        """Processes without Metaspace left. `stairs` is Metaspace by process id as written in metrics."""

        stairs: dict[str, MetaspaceSteps] = msgspec.field(default_factory=dict)
        deployed: dict[str, int] = msgspec.field(default_factory=dict)

    config: Config
    advice = keep_state() + (
        "Restart the TaskManagers at a time you choose: nothing else frees the memory. To prevent it: find what holds "
        "the old class loader (threads not stopped in close(), JDBC drivers, static caches; a heap dump shows the path "
        "to ChildFirstClassLoader), or put such jars into lib/. A larger taskmanager.memory.jvm-metaspace.size only "
        "buys time."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        error = fact.name.rpartition(".")[2] == "OutOfMemoryError" and fact.message.startswith(_TEXTS)
        if error and fact.of not in OF_WHOLE_JOB:
            self.exhausted(view, writer(view, fact.tm, fact.host, fact.attempt), fact.message.partition(". ")[0])

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        """A new job starts: what is in use now was left by the deployments before it."""
        state = view.state
        if fact.before != "CREATED" or view.time <= state.deployed.get(fact.job, LONG_AGO) + _SAME_DEPLOYMENT_MS:
            return
        put_bounded(state.deployed, fact.job, view.time, MAX_TMS)
        for stairs in state.stairs.values():
            if stairs.used >= 0:
                stairs.marks = [*stairs.marks, stairs.used][-_MAX_MARKS:]

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, fact: facts.TaskManagerRegistered) -> None:
        """A new process on the same host has replaced one that was about to run out."""
        host = view.topology.host_of(fact.tm)
        for key, stairs in list(view.state.stairs.items()):
            same = host and filtered(host) == filtered(stairs.host)
            if same and key != filtered(fact.tm) and view.time > stairs.time:
                self._process_ended(view, key, f"TaskManager {fact.tm} replaced it")

    @on(facts.ClusterEnding)
    def cluster_ending(self, view: _View, _: facts.ClusterEnding) -> None:
        for key in list(view.state.stairs):
            self._process_ended(view, key, "the cluster ended")

    @on("metaspace_used", "metaspace_max")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for sample in samples:
            if tm := sample.labels.get("tm_id"):
                key = filtered(tm)
                stairs = view.state.stairs.get(key)
                if stairs is None:
                    stairs = MetaspaceSteps(sample.labels.get("host", "") or view.event.host)
                    put_bounded(view.state.stairs, key, stairs, MAX_TMS)
                if sample.name == "metaspace_max":
                    stairs.limit = to_int(sample.value)
                elif view.time > stairs.time and sample.value >= 0:
                    self._used(view, key, stairs, sample.value)

    def _used(self, view: _View, key: str, stairs: MetaspaceSteps, value: float) -> None:
        fell = value < _FELL * stairs.used
        stairs.take(view.time, to_int(value))
        stairs.record = (view.event.topic, view.event.partition, view.event.offset)
        if fell:
            stairs.marks = []
        stairs.calm.take(value < _FELL * self.config.usage_warning * stairs.limit, view.time)
        if stairs.warned and stairs.calm.enough():
            view.close(self._warning(view, key, stairs), f"Metaspace in use is down to {value / _MB:.0f} MB")
            stairs.warned = 0
        elif not stairs.warned and self._next_is_too_much(stairs):
            stairs.warned = view.time
            view.report(self._warning(view, key, stairs))

    def _next_is_too_much(self, stairs: MetaspaceSteps) -> bool:
        levels = [*stairs.marks, stairs.used]
        steps = [b - a for a, b in pairwise(levels)][-self.config.min_deployments :]
        return (
            len(steps) >= self.config.min_deployments
            and min(steps) > 0
            and stairs.used >= self.config.usage_warning * stairs.limit > 0
            and stairs.used >= self.config.growth_factor * levels[0]
            and stairs.used + min(steps) >= stairs.limit
        )

    def _process_ended(self, view: _View, key: str, why: str) -> None:
        stairs = view.state.stairs.pop(key)
        if stairs.warned and view.topology.tm_of_label(key) not in view.state.open:
            view.close(self._warning(view, key, stairs), why)

    def _warning(self, view: _View, key: str, stairs: MetaspaceSteps) -> Finding:
        topology = view.topology
        tm = topology.tm_of_label(key)
        job, name = topology.only_job()
        return view.finding(
            tm,
            {"tm_id": tm, "host": topology.host_of(tm) or stairs.host, "job_id": job, "job_name": name},
            since=stairs.warned,
            severity="warning",
            summary=f"TaskManager {tm} uses {stairs.used / _MB:.0f} of {stairs.limit / _MB:.0f} MB Metaspace after "
            f"{len(stairs.marks)} deployments that each left classes behind; the next deployment exhausts it",
            confidence="fair",
            evidence=[stairs.evidence()],
            series=stairs.series(),
            advice=about(job, self.advice),
        )

    def finding(self, view: View[OC, OS], known: ExhaustedProcess) -> Finding:
        """Add the series of Metaspace in use, if there are metrics."""
        finding = super().finding(view, known)
        state = view.state
        stairs = state.stairs.get(filtered(known.tm)) if isinstance(state, self.State) else None
        if stairs is not None and stairs.points:
            finding.series = stairs.series()
        return finding

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} has no Metaspace left for classes"
