"""A container was killed because it used more memory than its limit.

Opens at YARN's `is running … beyond the 'PHYSICAL' memory limit` (Hadoop 3, `beyond physical memory limits` in Hadoop
2), written by the NodeManager or quoted in the diagnostics of the JobManager's `Worker … is terminated` and `Closing
TaskExecutor connection`, and at Kubernetes' `reason=OOMKilled` in the same diagnostics. Exit codes 143 and 137 alone
prove nothing. Resolved when a checkpoint completes `recovered_after` the kill.

Why it matters: the JVM was healthy until the kill, so its log shows nothing, and YARN sends SIGTERM, so that it looks
like a planned stop. The memory over the limit is native memory, or the heap is nearly as large as the container.
`zero_input_leak` or `heap_exhaustion` may show what grew; `taskmanager_lost` follows. A constant period means a leak.

Reference: post-mortem 001; FLINK-21986, FLINK-7289 (RocksDB), glibc's arenas (FLINK-19125).
"""

import re
from typing import TypeAlias

from detectors.detector import View, on
from detectors.flink import facts
from detectors.flink.facts import ContainerOverLimit, quoted_fact
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import (
    ExhaustedProcess,
    OutOfMemory,
    OutOfMemoryConfig,
    OutOfMemoryState,
    ProcessRef,
    named,
)

_OOM_KILLED = re.compile(r"\bOOMKilled\b")
_BEYOND = re.compile(r"beyond (?:the '(?:PHYSICAL|VIRTUAL)' memory limit|(?:physical|virtual) memory limits)")

_View: TypeAlias = "View[MemoryLimitKill.Config, MemoryLimitKill.State]"


class MemoryLimitKill(OutOfMemory):
    """Detects containers that were killed for exceeding their memory limit."""

    kind = "memory_limit_kill"
    belongs_to = "process"
    ends_process = True

    class Config(OutOfMemoryConfig):
        """Settings of the detector `memory_limit_kill`."""

    class State(OutOfMemoryState):
        """Containers killed for exceeding their memory limit."""

    advice = keep_state() + (
        "The container is started again by itself, and will be killed again. Find what grows: heap after GC, "
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

    def _killed(self, view: _View, tm: str, text: str) -> None:
        self.exhausted(view, ProcessRef(tm, view.topology.host_of(tm)), text)

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} was killed for exceeding its container's memory limit ({known.text})"
