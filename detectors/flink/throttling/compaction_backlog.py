"""Subtasks whose RocksDB falls behind with its compactions, long before it slows down writes.

Flink reports `estimate-pending-compaction-bytes` of each state, if that metric of RocksDB is enabled. Compactions come
in bursts, so a backlog goes up and down all the time. What counts is its lowest value in each ten minutes: if it only
rises, every read has to look at more files, and the disk or the CPU cannot do what the job writes.
"""

from itertools import pairwise

import msgspec

from detectors.events.event import Sample
from detectors.values.bounded import put_bounded, to_int
from detectors.values.durations import roughly
from detectors.values.sizes import si

PENDING = "rocksdb_pending_compaction"
_MAX_SUBTASKS = 256
_SPAN_MS = 600_000
_SPANS = 4
_LEAST_BYTES = 256_000_000
_GROWTH = 2


class CompactionBacklog(msgspec.Struct, array_like=True):
    """The bytes of one subtask: lowest of each full span of ten minutes, since `begun`, and of the present one.

    `value` is that of the newest sample (its time is `last`): the state that waits for most.
    """

    operator: str
    begun: int
    last: int = 0
    value: int = 0
    low: int = -1
    lows: list[int] = []

    def take(self, value: int, time: int) -> None:
        """Take in the sample of one state."""
        if time < self.last:
            return
        if time == self.last:
            self.value = max(self.value, value)
            return
        if self.last:
            self.low = self.value if self.low < 0 else min(self.low, self.value)
        if time - self.begun >= _SPAN_MS:
            self.lows, self.begun, self.low = [*self.lows, max(self.low, 0)][-_SPANS:], time, -1
        self.value, self.last = value, time

    def growing(self, time: int) -> bool:
        """Whether it has only grown for long, and is still measured."""
        rising = len(self.lows) == _SPANS and all(a < b for a, b in pairwise(self.lows))
        much = rising and self.lows[-1] >= max(_LEAST_BYTES, _GROWTH * self.lows[0])
        return much and time - self.last <= _SPAN_MS


class CompactionBacklogs(msgspec.Struct, array_like=True):
    """The subtasks of a job."""

    subtasks: dict[str, CompactionBacklog] = {}

    def take(self, sample: Sample, time: int) -> None:
        """Take in a sample of one state of one subtask."""
        labels = sample.labels
        key = f"{labels.get('operator_id', '')}|{labels.get('subtask_index', '')}"
        known = self.subtasks.get(key)
        if known is None:
            operator = labels.get("operator_name") or labels.get("task_name") or "an operator"
            known = CompactionBacklog(operator, time)
            put_bounded(self.subtasks, key, known, _MAX_SUBTASKS)
        known.take(max(to_int(sample.value), 0), time)

    def sentence(self, time: int) -> str:
        """How the largest backlog has grown, to put behind a summary; empty if none has."""
        growing = [one for one in self.subtasks.values() if one.growing(time)]
        if not growing:
            return ""
        worst = max(growing, key=lambda one: one.lows[-1])
        return (
            f"; RocksDB falls behind with compactions of {worst.operator}: pending bytes grew from {si(worst.lows[0])} "
            f"to {si(worst.lows[-1])} in {roughly(_SPANS * _SPAN_MS)}"
        )
