"""Subtasks whose writes to their state RocksDB stops or slows down, because flushes and compactions do not keep up.

Flink reports it as `is-write-stopped` and `actual-delayed-write-rate` (bytes per second, 0: not delayed), if these
metrics of RocksDB are enabled. A stall of moments is ordinary. One that lasts makes an operator slow and checkpoints
long: detectors of both ask for one sentence about it. Reference: RocksDB wiki, "Write Stalls".
"""

import msgspec

from detectors.events.event import Sample
from detectors.flink.calm import ENOUGH_SAMPLES, CalmSamples, still_measured
from detectors.flink.throttling.compaction_backlog import PENDING, CompactionBacklogs
from detectors.values.bounded import put_bounded
from detectors.values.durations import roughly

STOPPED, DELAYED = "rocksdb_write_stopped", "rocksdb_delayed_write_rate"
WRITES = (STOPPED, DELAYED, PENDING)
"""The samples that it takes."""

_MAX_SUBTASKS = 256
_LEAST_MS = 30_000
_MAX_AGE_MS = 180_000


class WriteStall(msgspec.Struct, array_like=True):
    """Stalled writes of one subtask: event times of the first and last stalled sample, their number, longest gap."""

    operator: str
    since: int
    last: int
    count: int = 0
    every: int = 0
    stopped: bool = False
    calm: CalmSamples = msgspec.field(default_factory=CalmSamples)

    def confirmed(self, time: int) -> bool:
        """Whether it has lasted, and is still measured."""
        lasting = self.count >= ENOUGH_SAMPLES and self.last - self.since >= _LEAST_MS
        return lasting and still_measured(self.last, self.every, time, _MAX_AGE_MS)


class WriteStalls(msgspec.Struct, array_like=True):
    """The subtasks of a job whose writes are stalled. Every state of a subtask reports the same.

    `backlogs` are their pending compactions, which grow for long before writes are stalled.
    """

    subtasks: dict[str, WriteStall] = {}
    backlogs: CompactionBacklogs = msgspec.field(default_factory=CompactionBacklogs)

    def take(self, sample: Sample, time: int) -> None:
        """Take in a sample of one state of one subtask."""
        if sample.name == PENDING:
            self.backlogs.take(sample, time)
            return
        labels = sample.labels
        key = f"{sample.name}|{labels.get('operator_id', '')}|{labels.get('subtask_index', '')}"
        known = self.subtasks.get(key)
        if sample.value > 0:
            if known is None:
                operator = labels.get("operator_name") or labels.get("task_name") or "an operator"
                known = WriteStall(operator, time, time - 1, stopped=sample.name == STOPPED)
                put_bounded(self.subtasks, key, known, _MAX_SUBTASKS)
            if time > known.last:
                known.every = max(known.every, time - known.last) if known.count else 0
                known.last, known.count = time, known.count + 1
            known.calm.take(calm=False, time=time)
        elif known is not None and time > known.last:
            known.calm.take(calm=True, time=time)
            if known.calm.enough():
                del self.subtasks[key]

    def sentence(self, time: int) -> str:
        """What RocksDB withholds, or will, to put behind a summary; empty if nothing."""
        stalled = [one for one in self.subtasks.values() if one.confirmed(time)]
        if not stalled:
            return self.backlogs.sentence(time)
        worst = max(stalled, key=lambda one: (one.stopped, -one.since))
        how = "stopped" if worst.stopped else "slowed down"
        number = sum(one.operator == worst.operator and one.stopped == worst.stopped for one in stalled)
        where = worst.operator + (f" ({number} subtasks)" if number > 1 else "")
        return (
            f"; RocksDB has {how} writes of {where} for {roughly(time - worst.since)}, because flushes or compactions "
            "do not keep up"
        )
