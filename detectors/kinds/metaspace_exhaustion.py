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

from collections.abc import Iterator
from itertools import pairwise

import msgspec
from pydantic import Field

from detectors.detector import Now
from detectors.events.event import LogEvent, MetricEvent
from detectors.events.names import filtered
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Series
from detectors.patterns.keep_state import about, keep_state
from detectors.patterns.per_process import (
    MAX_TMS,
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
    event_types = frozenset(
        [
            FAILURE,
            "checkpoint_completed",
            "job_state",
            "tm_registered",
            "cluster_ending",
            "metaspace_used",
            "metaspace_max",
        ]
    )

    class Config(OutOfMemoryConfig):
        """Settings of the detector `metaspace_exhaustion`."""

        usage_warning: float = Field(
            0.8,
            gt=0,
            lt=1,
            description="Share of the Metaspace limit in use below which no warning is given.",
        )
        growth_factor: float = Field(
            1.5,
            gt=1,
            description="Growth factor of Metaspace since the first deployment below which no warning is given. At "
            "larger growth the JVM has already tried to unload classes.",
        )
        min_deployments: int = Field(
            3,
            ge=2,
            le=_MAX_MARKS,
            description="Number of deployments that must each have left more Metaspace in use.",
        )

    class State(OutOfMemoryState):
        """Processes without Metaspace left. `stairs` is Metaspace by process id as written in metrics."""

        stairs: dict[str, MetaspaceSteps] = msgspec.field(default_factory=dict)
        deployed: dict[str, int] = msgspec.field(default_factory=dict)

    config: Config
    advice = keep_state() + (
        "Restart the TaskManagers at a time you choose: nothing else frees the memory. For good: find what holds the "
        "old class loader (threads not stopped in close(), JDBC drivers, static caches; a heap dump shows the path to "
        "ChildFirstClassLoader), or put such jars into lib/. A larger taskmanager.memory.jvm-metaspace.size only buys "
        "time."
    )

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            for sample in event.samples:
                if sample.name in self.event_types and sample.labels.get("tm_id"):
                    host = sample.labels.get("host", "") or event.host
                    used = sample.name == "metaspace_used"
                    yield from self._measured(
                        state, filtered(sample.labels["tm_id"]), host, used, sample.value, event, now, topology
                    )
            return
        match event.event_type:
            case "failure":
                name, message = event.fields["class"].rpartition(".")[2], event.fields["message"]
                if name == "OutOfMemoryError" and message.startswith(_TEXTS) and event.fields["of"] not in OF_WHOLE_JOB:
                    at = writer(event, topology)
                    text = message.partition(". ")[0]
                    yield from self.report(state, at, text, event, now, topology)
            case "checkpoint_completed":
                yield from self.recovered(state, now, topology)
            case "job_state" if event.fields.get("before") == "CREATED":
                self._deployed(state, event, now)
            case "tm_registered":
                yield from self._replaced(state, event.fields["tm"], now, topology)
            case "cluster_ending":
                for key in list(state.stairs):
                    yield from self._process_ended(state, key, now, topology, "the cluster ended")

    def _deployed(self, state: State, event: LogEvent, now: Now) -> None:
        """A new job starts: what is in use now was left by the deployments before it."""
        if now.time <= state.deployed.get(event.fields["job"], LONG_AGO) + _SAME_DEPLOYMENT_MS:
            return
        put_bounded(state.deployed, event.fields["job"], now.time, MAX_TMS)
        for stairs in state.stairs.values():
            if stairs.used >= 0:
                stairs.marks = [*stairs.marks, stairs.used][-_MAX_MARKS:]

    def _measured(
        self,
        state: State,
        key: str,
        host: str,
        used: bool,
        value: float,
        event: MetricEvent,
        now: Now,
        topology: Topology,
    ) -> Iterator[Finding]:
        stairs = state.stairs.get(key)
        if stairs is None:
            stairs = MetaspaceSteps(host)
            put_bounded(state.stairs, key, stairs, MAX_TMS)
        if not used:
            stairs.limit = to_int(value)
            return
        if event.time <= stairs.time or value < 0:
            return
        fell = value < _FELL * stairs.used
        stairs.take(event.time, to_int(value))
        stairs.record = (event.topic, event.partition, event.offset)
        if fell:
            stairs.marks = []
        if stairs.warned and value < self.config.usage_warning * stairs.limit:
            yield self._warning(key, stairs, now, topology, f"Metaspace in use is down to {value / _MB:.0f} MB")
            stairs.warned = 0
        elif not stairs.warned and self._next_is_too_much(stairs):
            stairs.warned = event.time
            yield self._warning(key, stairs, now, topology)

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

    def _replaced(self, state: State, tm: str, now: Now, topology: Topology) -> Iterator[Finding]:
        """A new process on the same host has replaced one that was about to run out."""
        host = topology.host_of(tm)
        for key, stairs in list(state.stairs.items()):
            same = host and filtered(host) == filtered(stairs.host)
            if same and key != filtered(tm) and now.time > stairs.time:
                yield from self._process_ended(state, key, now, topology, f"TaskManager {tm} replaced it")

    def _process_ended(self, state: State, key: str, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        stairs = state.stairs.pop(key)
        if stairs.warned and topology.tm_of_label(key) not in state.open:
            yield self._warning(key, stairs, now, topology, why)

    def _warning(
        self, key: str, stairs: MetaspaceSteps, now: Now, topology: Topology, closed_because: str = ""
    ) -> Finding:
        tm = topology.tm_of_label(key)
        job, name = topology.only_job()
        host = topology.host_of(tm) or stairs.host
        left = len(stairs.marks)
        finding = Finding(
            kind=self.kind,
            subject=tm,
            entity={"tm_id": tm, "host": host, "job_id": job, "job_name": name},
            since=stairs.warned,
            at=now.clock,
            severity="warning",
            summary=f"TaskManager {tm} uses {stairs.used / _MB:.0f} of {stairs.limit / _MB:.0f} MB Metaspace after "
            f"{left} deployments that each left classes behind; the next deployment exhausts it",
            evidence=[stairs.evidence()],
            series=stairs.series(),
            advice=about(job, self.advice),
        )
        if closed_because:
            finding.closed_at, finding.closed_because = now.clock, closed_because
        return finding

    def finding(self, state: OutOfMemoryState, known: ExhaustedProcess, now: int, topology: Topology) -> Finding:
        """Add the series of Metaspace in use, if there are metrics."""
        finding = super().finding(state, known, now, topology)
        stairs = state.stairs.get(filtered(known.tm)) if isinstance(state, self.State) else None
        if stairs is not None and stairs.points:
            finding.series = stairs.series()
        return finding

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} has no Metaspace left for classes"
