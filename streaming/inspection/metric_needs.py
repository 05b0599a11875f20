"""Which metrics the detectors need, and what is not found without them. A table, because detectors do not declare it:
most kinds use metrics in addition to log lines, and some metrics replace each other.
"""

from collections.abc import Collection
from typing import NamedTuple


class MetricNeed(NamedTuple):
    """Metrics of which any is enough, by the names that detectors use, and `title`, Flink's name for a person.

    Without them `blind` kinds are not found at all, and `weaker` ones later or only from log lines. `only_with` names
    what a job must have to export them: their absence is normal otherwise.
    """

    title: str
    any_of: frozenset[str]
    blind: tuple[str, ...] = ()
    weaker: tuple[str, ...] = ()
    only_with: str = ""


_TASKS = frozenset({"records_in", "records_out"})
_LAG = frozenset({"pending_records", "event_time_lag", "records_lag_max", "behind_latest"})
_BUSY = frozenset({"busy_time", "in_pool_usage", "input_queue_length"})

NEEDS: tuple[MetricNeed, ...] = (
    MetricNeed(
        "TaskManagers' Status.JVM.Memory.Heap.Used",
        frozenset({"heap_used"}),
        weaker=("heap_exhaustion", "zero_input_leak", "telemetry_lost"),
    ),
    MetricNeed(
        "TaskManagers' Status.JVM.GarbageCollector.*.Time",
        frozenset({"gc_time"}),
        weaker=("heap_exhaustion",),
    ),
    MetricNeed(
        "TaskManagers' Status.JVM.Memory.Metaspace.Used",
        frozenset({"metaspace_used"}),
        weaker=("metaspace_exhaustion",),
    ),
    MetricNeed("Status.JVM.Threads.Count", frozenset({"threads"}), weaker=("thread_exhaustion",)),
    MetricNeed(
        "cAdvisor's container_memory_working_set_bytes",
        frozenset({"container_memory"}),
        weaker=("memory_limit_kill",),
        only_with="containers",
    ),
    MetricNeed(
        "the JobManager's Status.JVM.Memory.Heap.Used",
        frozenset({"jm_heap_used"}),
        weaker=("heap_exhaustion", "jobmanager_lost"),
    ),
    MetricNeed("numRegisteredTaskManagers", frozenset({"registered_task_managers"}), weaker=("slots_unavailable",)),
    MetricNeed(
        "lastCheckpointDuration", frozenset({"last_checkpoint_duration"}), weaker=("checkpoint_duration_creep",)
    ),
    MetricNeed("tasks' numRecordsIn and numRecordsOut", _TASKS, blind=("task_stuck", "watermark_stalled")),
    MetricNeed(
        "tasks' busyTimeMsPerSecond or buffers.inPoolUsage",
        _BUSY,
        blind=("backpressure", "task_stuck"),
        weaker=("late_barrier_acks",),
    ),
    MetricNeed("tasks' currentInputWatermark", frozenset({"input_watermark"}), blind=("watermark_stalled",)),
    MetricNeed(
        "sources' pendingRecords or currentEmitEventTimeLag",
        _LAG,
        blind=("lag_growing",),
        only_with="a source that measures its lag",
    ),
    MetricNeed(
        "numLateRecordsDropped",
        frozenset({"late_records"}),
        blind=("late_records_dropped",),
        only_with="windows in event time",
    ),
    MetricNeed(
        "KafkaSourceReader's commitsSucceeded, committedOffset and currentOffset",
        frozenset({"commits_succeeded", "committed_offset", "current_offset"}),
        weaker=("zero_input_leak",),
        only_with="a KafkaSource",
    ),
    MetricNeed(
        "connection-count of Kafka clients",
        frozenset({"kafka_connections"}),
        weaker=("broker_unreachable", "late_barrier_acks"),
        only_with="Kafka clients",
    ),
    MetricNeed(
        "sinks' numRecordsSendErrors",
        frozenset({"records_out_errors", "records_send_errors"}),
        weaker=("sink_data_lost",),
        only_with="a sink of the new API",
    ),
)


def missing(seen: Collection[str]) -> list[MetricNeed]:
    """The needs that none of the metrics seen meets."""
    return [need for need in NEEDS if need.any_of.isdisjoint(seen)]


def without_metrics(seen: Collection[str]) -> tuple[list[str], list[str]]:
    """The kinds that are not found, and those that are found later, with the metrics seen alone."""
    absent = missing(seen)
    blind = sorted({kind for need in absent for kind in need.blind})
    return blind, sorted({kind for need in absent for kind in need.weaker} - {*blind})
