"""A process has no direct memory left.

Opens at `OutOfMemoryError: Direct buffer memory` (or `Cannot reserve N bytes of direct buffer memory`, Java ≥ 17) and
at Netty's `OutOfDirectMemoryError`, in any stack trace of any log or .out file: one finding for each process, however
many lines. Resolved when a checkpoint completes `recovered_after` the last of them.

Why it matters: the task fails and the job restarts, but the process lives on with its buffers still taken, so the next
attempt fails too, until the restarts are used up. `restart_loop` and `job_failed` are its effects.

Reference: Flink, "Set up TaskManager Memory", off-heap; a recording of four failures in 18 s.
"""

from typing import TypeAlias

from detectors.detector import View, on
from detectors.flink.facts import Failure
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import (
    ExhaustedProcess,
    OutOfMemory,
    OutOfMemoryConfig,
    OutOfMemoryState,
    named,
    writer,
)

_DIRECT = ("Direct buffer memory", "Cannot reserve ")

_View: TypeAlias = "View[DirectMemoryExhaustion.Config, DirectMemoryExhaustion.State]"


class DirectMemoryExhaustion(OutOfMemory):
    """Detects processes without direct memory left."""

    kind = "direct_memory_exhaustion"
    belongs_to = "process"

    class Config(OutOfMemoryConfig):
        """Settings of the detector `direct_memory_exhaustion`."""

    class State(OutOfMemoryState):
        """Processes out of direct memory."""

    advice = keep_state() + (
        "Restart that TaskManager: it does not free this memory by itself. Its jobs go back to their last completed "
        "checkpoint. To prevent it: find what allocates direct memory (a client library, Netty, a leak: does it grow "
        "with each restart?), or raise taskmanager.memory.task.off-heap.size. If Flink's own network stack needs it, "
        "raise taskmanager.memory.framework.off-heap.size."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        name = fact.name.rpartition(".")[2]
        direct = name == "OutOfDirectMemoryError" or (name == "OutOfMemoryError" and fact.message.startswith(_DIRECT))
        if direct and fact.of not in OF_WHOLE_JOB:
            self.exhausted(view, writer(view, fact.tm, fact.host, fact.attempt), fact.message.partition(". ")[0])

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} has no direct memory left ({known.text})"
