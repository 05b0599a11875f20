"""A container was killed because it used more memory than its limit, or will be.

Opens as critical at YARN's `is running … beyond the 'PHYSICAL' memory limit` (Hadoop 3, `beyond physical memory limits`
in Hadoop 2), written by the NodeManager or quoted in the diagnostics of the JobManager's `Worker … is terminated` and
`Closing TaskExecutor connection`, and at Kubernetes' `reason=OOMKilled` in the same diagnostics. Exit codes 143 and 137
alone prove nothing. Before that it opens as a warning if the kubelet's metrics show that the memory of a TaskManager's
or JobManager's container rises steadily to where it never was, is above `usage_warning` of its limit, and reaches the
limit within `horizon`. Memory that was always high is healthy: a JVM keeps what it once had. Resolved when a checkpoint
completes `recovered_after` the kill; the warning when the memory no longer rises, or falls.

Why it matters: the JVM was healthy until the kill, so its log shows nothing, and YARN sends SIGTERM, so that it looks
like a planned stop. The memory over the limit is native memory, or the heap is nearly as large as the container.
`zero_input_leak` or `heap_exhaustion` may show what grew; `taskmanager_lost` follows. A constant period means a leak.

Reference: post-mortem 001; FLINK-21986, FLINK-7289 (RocksDB), glibc's arenas (FLINK-19125).
"""

import re
from typing import TypeAlias

from detectors.detector import View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import OF_JOBMANAGER
from detectors.events.vocabulary.container_metrics import MEMORY, MEMORY_LIMIT, container_label
from detectors.flink import facts
from detectors.flink.facts import ContainerOverLimit, quoted_fact
from detectors.flink.memory.rising_gauge import RisingGauge
from detectors.flink.throttling.containers import tm_of_pod
from detectors.numerics.trend import crossing
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import ExhaustedProcess, ProcessRef, named
from detectors.patterns.rising_until_exhausted import RisingConfig, RisingState, RisingUntilExhausted, Threat
from detectors.values.bounded import to_int
from detectors.values.durations import Duration
from detectors.values.sizes import mib

_OOM_KILLED = re.compile(r"\bOOMKilled\b")
_BEYOND = re.compile(r"beyond (?:the '(?:PHYSICAL|VIRTUAL)' memory limit|(?:physical|virtual) memory limits)")

_View: TypeAlias = "View[MemoryLimitKill.Config, MemoryLimitKill.State]"
_AS_FAR_AHEAD = 4


class MemoryLimitKill(RisingUntilExhausted):
    """Detects containers that were killed for exceeding their memory limit, and warns before."""

    kind = "memory_limit_kill"
    belongs_to = "process"
    ends_process = True
    what, unit, exhausted_at = "container memory", "bytes", "its limit is reached"

    class Config(RisingConfig):
        """Settings of the detector `memory_limit_kill`."""

        usage_warning: float = threshold(
            0.95,
            "Share of the container's memory limit in use (working set) below which no warning is given. A process "
            "that fills up after its start usually stays below it.",
            gt=0,
            lt=1,
        )
        min_rise: float = threshold(
            0.02,
            "Share of the memory limit by which the working set must have risen. Smaller rises may be noise.",
            gt=0,
        )
        horizon: Duration = threshold(86_400_000, "Time within which the limit must be reached for a warning.")

    class State(RisingState):
        """Containers killed for exceeding their memory limit, and the memory of all containers by pod."""

    config: Config

    advice = keep_state() + (
        "A killed container is started again by itself, and will be killed again. Find what grows: heap after GC, "
        "Metaspace, direct memory, or else native memory (RocksDB outside managed memory; malloc arenas: use "
        "jemalloc or MALLOC_ARENA_MAX=2). Until that is known, raise taskmanager.memory.process.size together with "
        "jvm-overhead, or restart the TaskManager at a time you choose: its jobs go back to their last completed "
        "checkpoint."
    )

    @on(ContainerOverLimit)
    def over_limit(self, view: _View, fact: ContainerOverLimit) -> None:
        self._killed(view, fact.tm, fact.used)

    @on(facts.TaskManagerDisconnected)
    def disconnected(self, view: _View, fact: facts.TaskManagerDisconnected) -> None:
        if (quoted := quoted_fact(view.record().text, ContainerOverLimit)) is not None:
            self._killed(view, fact.tm, quoted.used)
        elif _OOM_KILLED.search(fact.reason):
            self._killed(view, fact.tm, "Kubernetes reported OOMKilled")
        elif _BEYOND.search(fact.reason):
            self._killed(view, fact.tm, "beyond its memory limit")

    @on(MEMORY, MEMORY_LIMIT)
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for sample in samples:
            label = container_label(sample.labels)
            # cAdvisor writes 0 for a container without a limit.
            if label and sample.name == MEMORY_LIMIT:
                view.state.gauges.of(label, view.event.host, view.time).limit = to_int(max(sample.value, 0))
            elif label:
                self.take(view, label, view.event.host, sample.value)

    def threat(self, gauge: RisingGauge) -> Threat | None:
        config, limit = self.config, gauge.limit
        if gauge.value < config.usage_warning * limit or limit <= 0:
            return None
        rise = gauge.rise(config.min_rise * limit, config.significance, config.warm_up)
        full = crossing(rise.line, limit, rise.now) if rise is not None else None
        if rise is None or full is None:
            return None
        near = full.at - rise.now <= min(config.horizon, _AS_FAR_AHEAD * (rise.now - rise.since))
        return Threat(rise, full) if near else None

    def warning(self, who: str, gauge: RisingGauge) -> str:
        return (
            f"the container of {who} uses {gauge.value / gauge.limit:.0%} of its memory limit of {mib(gauge.limit)}, "
            f"rising from {mib(gauge.base)}"
        )

    def amount(self, value: float) -> str:
        return mib(value)

    def place(self, view: _View, label: str) -> ProcessRef:
        if label.startswith(OF_JOBMANAGER):
            return ProcessRef("", label.removeprefix(OF_JOBMANAGER))
        tm = tm_of_pod(view.topology, label)
        return ProcessRef(tm, view.topology.host_of(tm))

    def _killed(self, view: _View, tm: str, text: str) -> None:
        self.exhausted(view, ProcessRef(tm, view.topology.host_of(tm)), text)

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} was killed for exceeding its container's memory limit ({known.text})"
