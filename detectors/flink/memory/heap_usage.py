"""The heap floor of each TaskManager and the records that it reads: whether its input explains a rise."""

import msgspec

from detectors.events.event import Sample
from detectors.flink.memory.gc_window import collects_old
from detectors.flink.memory.heap_floor import HeapFloor
from detectors.values.bounded import intern_index, put_bounded, to_int

_MAX_TMS = 400
_MAX_COUNTERS = 40
_MAX_COLLECTORS = 16
_KEEP_MS = 3_600_000


class HeapUsage(msgspec.Struct, array_like=True):
    """The heap floor of one TaskManager, and the records that it has read or written since then (`read`).

    `counters` are its tasks' counters; `overlooked`: there were more than are kept. `busy`: so much was read that it
    explains any growth, and the counters are no longer needed.
    """

    floor: HeapFloor
    counters: dict[str, int] = {}
    read: int = 0
    overlooked: bool = False
    busy: bool = False

    def count(self, key: str, value: int, enough: int) -> None:
        """Take in the counter of a task. More than `enough` records explain a full heap."""
        before = self.counters.get(key)
        if before is None and len(self.counters) >= _MAX_COUNTERS:
            self.overlooked = True
            return
        self.counters[key] = value
        self.read += max(value - before, 0) if before is not None else 0
        if self.read > enough > 0:
            self.busy, self.counters = True, {}
            self.floor.forget()


class HeapUsages(msgspec.Struct, array_like=True):
    """The heaps of a cluster by the TaskManager's label, with collectors by their index in `collectors`."""

    by_tm: dict[str, HeapUsage] = {}
    collectors: list[str] = []

    def measure(self, tm: str, sample: Sample, time: int, bytes_per_record: int) -> HeapUsage | None:
        """Take in a sample of one TaskManager. Returns its heap if a GC cycle has ended.

        Jobs share a TaskManager, and it is not known which of them read its records: all of them count.
        """
        heap = self.by_tm.get(tm)
        if heap is None:
            self.by_tm = {t: h for t, h in self.by_tm.items() if time - h.floor.now() <= _KEEP_MS}
            heap = HeapUsage(HeapFloor(time))
            put_bounded(self.by_tm, tm, heap, _MAX_TMS)
        floor = heap.floor
        if sample.name == "heap_used":
            return heap if floor.take(time, sample.value) else None
        if sample.name == "heap_max":
            floor.limit = to_int(sample.value)
        elif sample.name == "gc_count":
            collector = sample.labels.get("collector", "")
            floor.g1 = floor.g1 or collector.startswith("G1")
            number = intern_index(self.collectors, collector, _MAX_COLLECTORS)
            if number >= 0 and floor.counted(number, collects_old(collector), time, to_int(sample.value)):
                self.by_tm[tm] = HeapUsage(HeapFloor(time, limit=floor.limit))
        elif not heap.busy:
            labels = sample.labels
            key = f"{labels.get('task_id', '')[:12]}|{labels.get('subtask_index', '')}|{sample.name[-2:]}"
            heap.count(key, to_int(sample.value), floor.limit // bytes_per_record)
        return None
