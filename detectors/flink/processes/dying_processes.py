"""Processes that are about to die of an error of their own, and so do not end in an orderly way.

After a fatal error or an OutOfMemoryError the shutdown hook of a process writes what an orderly end writes (`Shutting
StandaloneSessionClusterEntrypoint down with application status UNKNOWN`), or a script of the JVM or of Kubernetes sends
SIGTERM. One rule for all detectors: such an end is not orderly, and nothing that it explains is planned.
"""

import msgspec

from detectors.flink.facts import Fact, Failure, JobManagerFatal, ProcessFatal
from detectors.flink.processes.process_ends import HowEnded
from detectors.values.bounded import put_bounded

_MAX_SOURCES = 200
# A process with a full heap can take minutes to die: each thread needs memory for its own last words.
_WITHIN_MS = 300_000
_OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
_FATAL = frozenset({"jm_fatal", "process_fatal"})


class DyingProcesses(msgspec.Struct, array_like=True):
    """Event time of the last fatal error of each source."""

    since: dict[str, int] = {}

    def take(self, source: str, fact: Fact, time: int) -> None:
        """Take in a line."""
        fatal = isinstance(fact, JobManagerFatal | ProcessFatal) or (
            isinstance(fact, Failure) and out_of_its_own_memory(fact) and not fact.again
        )
        if fatal:
            put_bounded(self.since, source, max(time, self.since.get(source, time)), _MAX_SOURCES)

    def how_ended(self, source: str, time: int) -> HowEnded:
        """How a process ended that prints an orderly end: empty if it died, because its own words do not show how."""
        return "" if 0 <= time - self.since.get(source, time + 1) <= _WITHIN_MS else "orderly"


def out_of_its_own_memory(fact: Failure) -> bool:
    """Whether the process that wrote a failure is out of memory. Other lines quote the error of another process."""
    return _OUT_OF_MEMORY in fact.thrown and (
        fact.of in _FATAL or (not fact.of and fact.first.startswith(_OUT_OF_MEMORY))
    )
