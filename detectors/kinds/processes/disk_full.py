"""A process cannot write, because its disk or its quota is full.

Opens at `No space left on device`, `Disk quota exceeded` and `There is not enough space on the disk` in any stack trace
of any log: RocksDB's local directory, spilled records, a checkpoint directory on a local or a network disk. Also opens
when Kubernetes evicts a TaskManager for the ephemeral storage that it or its node uses. One finding for each process,
named by the line or by the directory (`tm_ID`), with the directory. Resolved when a checkpoint completes
`recovered_after` the last sign, or twice as long as the signs are apart.

Not reported: HDFS without a datanode to write to (`could only be written to 0 of the 1 minReplication nodes`), which
has many reasons.

Why it matters: tasks on that disk fail, each restart restores the state to the same full disk, and the job loops until
its restarts are used up. `restart_loop`, `checkpoint_failing` and `restore_failed` are its effects. Reference: Flink,
"Working Directory" and `io.tmp.dirs`; a recording of RocksDB on a full disk.
"""

import re
from typing import TypeAlias

from detectors.detector import View, on, threshold
from detectors.flink import facts
from detectors.flink.facts import Failure
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.patterns.per_process import (
    ExhaustedProcess,
    OutOfMemory,
    OutOfMemoryConfig,
    OutOfMemoryState,
    ProcessRef,
    named,
    process_of_label,
    writer,
)
from detectors.values.durations import Duration
from detectors.values.texts import shorten_paths

_ERROR = re.compile(r"No space left on device|Disk quota exceeded|There is not enough space on the disk")
_PATH = re.compile(r"((?:/[^\s/'\"(),;]+)+)/[^\s/'\"(),;]+")
_TM_DIRECTORY = re.compile(r"/tm_([^\s/]+)/")
_EVICTED = re.compile(
    r"low on resource: ephemeral-storage|ephemeral(?: local)? storage (?:usage|limit)|EmptyDir volume \S+ exceeds"
)

_View: TypeAlias = "View[DiskFull.Config, DiskFull.State]"


class DiskFull(OutOfMemory):
    """Detects processes whose disk is full."""

    kind = "disk_full"
    belongs_to = "process"

    class Config(OutOfMemoryConfig):
        """Settings of the detector `disk_full`."""

        recovered_after: Duration = threshold(
            120_000,
            "Time after the last sign from which a completed checkpoint resolves the finding, or twice as long as the "
            "signs are apart. A restart frees space, so checkpoints complete until the disk is full again.",
        )

    class State(OutOfMemoryState):
        """Processes with a full disk."""

    advice = (
        "Find what fills that disk (df -h, then du -x): state of RocksDB, logs, core dumps, or directories that "
        "earlier TaskManagers left in io.tmp.dirs. Make room or enlarge the volume: the job then recovers by itself "
        "from its last completed checkpoint. Do not touch the directories of processes that run. To prevent it: an "
        "alert on free space, larger volumes, more TaskManagers so that each has less state, or a time-to-live for "
        "state."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        error = _ERROR.search(fact.thrown)
        # Each frame repeats the failure of the line before it.
        if error is None or fact.again or view.line.text.lstrip().startswith("at "):
            return
        at = ProcessRef("", "") if fact.of in OF_WHOLE_JOB else writer(view, fact.tm, fact.host, fact.attempt)
        if not at.tm and (found := _TM_DIRECTORY.search(view.line.text)) is not None:
            at = process_of_label(view.topology, found[1])
        path = _PATH.search(fact.message)
        self.exhausted(view, at, f"{error[0]} in {shorten_paths(path[1])}" if path is not None else error[0])

    @on(facts.TaskManagerDisconnected)
    def evicted(self, view: _View, fact: facts.TaskManagerDisconnected) -> None:
        if _EVICTED.search(fact.reason):
            at = ProcessRef(fact.tm, view.topology.host_of(fact.tm))
            self.exhausted(view, at, "Kubernetes evicted it for its ephemeral storage")

    def calm(self, known: ExhaustedProcess) -> int:
        apart = (known.last - known.since) // max(known.count - 1, 1)
        return max(self.config.recovered_after, 2 * apart)

    def summary(self, known: ExhaustedProcess) -> str:
        return f"the disk of {named(known)} is full ({known.text})"
