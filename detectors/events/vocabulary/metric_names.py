"""Flink's metric names, and readers for the two most common formats: Prometheus text and Telegraf JSON.

Names are Flink's own in Prometheus form (`flink_` + scope + `_` + metric), which Telegraf keeps. Label values are also
compared in Prometheus form, where every character outside [a-zA-Z0-9:_] is an underscore.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from detectors.events.event import Sample
from detectors.events.layouts import times
from detectors.events.vocabulary.container_metrics import CONTAINER_NAMES, OF_CONTAINERS, container_labels, is_unread
from detectors.values.decoding import UndecodableError

NAMES: dict[str, str] = {
    # JobManager, process
    "flink_jobmanager_numRegisteredTaskManagers": "registered_task_managers",
    "flink_jobmanager_taskSlotsAvailable": "task_slots_available",
    "flink_jobmanager_taskSlotsTotal": "task_slots_total",
    "flink_jobmanager_Status_JVM_Memory_Heap_Used": "jm_heap_used",
    "flink_jobmanager_Status_JVM_Memory_Heap_Max": "jm_heap_max",
    "flink_jobmanager_Status_JVM_Memory_Metaspace_Used": "jm_metaspace_used",
    "flink_jobmanager_Status_JVM_Memory_Metaspace_Max": "jm_metaspace_max",
    "flink_jobmanager_Status_JVM_Threads_Count": "jm_threads",
    # JobManager, job
    "flink_jobmanager_job_lastCheckpointDuration": "last_checkpoint_duration",
    "flink_jobmanager_job_lastCheckpointSize": "last_checkpoint_size",
    "flink_jobmanager_job_lastCheckpointFullSize": "last_checkpoint_full_size",
    "flink_jobmanager_job_numberOfCompletedCheckpoints": "completed_checkpoints",
    "flink_jobmanager_job_numberOfFailedCheckpoints": "failed_checkpoints",
    "flink_jobmanager_job_numberOfInProgressCheckpoints": "checkpoints_in_progress",
    "flink_jobmanager_job_numRestarts": "restarts",
    "flink_jobmanager_job_fullRestarts": "full_restarts",
    # TaskManager, process
    "flink_taskmanager_Status_JVM_Memory_Heap_Used": "heap_used",
    "flink_taskmanager_Status_JVM_Memory_Heap_Max": "heap_max",
    "flink_taskmanager_Status_JVM_Memory_Metaspace_Used": "metaspace_used",
    "flink_taskmanager_Status_JVM_Memory_Metaspace_Max": "metaspace_max",
    "flink_taskmanager_Status_JVM_Threads_Count": "threads",
    "flink_taskmanager_Status_JVM_GarbageCollector_All_TimeMsPerSecond": "gc_time_per_second",
    # TaskManager, task
    "flink_taskmanager_job_task_numRecordsIn": "records_in",
    "flink_taskmanager_job_task_numRecordsOut": "records_out",
    "flink_taskmanager_job_task_busyTimeMsPerSecond": "busy_time",
    "flink_taskmanager_job_task_backPressuredTimeMsPerSecond": "backpressured_time",
    "flink_taskmanager_job_task_isBackPressured": "is_backpressured",
    "flink_taskmanager_job_task_buffers_inPoolUsage": "in_pool_usage",
    "flink_taskmanager_job_task_Shuffle_Netty_Input_Buffers_inPoolUsage": "in_pool_usage",
    "flink_taskmanager_job_task_buffers_inputQueueLength": "input_queue_length",
    "flink_taskmanager_job_task_Shuffle_Netty_Input_Buffers_inputQueueLength": "input_queue_length",
    "flink_taskmanager_job_task_currentInputWatermark": "input_watermark",
    # TaskManager, source operators
    "flink_taskmanager_job_task_operator_KafkaSourceReader_commitsSucceeded": "commits_succeeded",
    "flink_taskmanager_job_task_operator_KafkaSourceReader_commitsFailed": "commits_failed",
    "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_currentOffset": "current_offset",
    "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_committedOffset": "committed_offset",
    "flink_taskmanager_job_task_operator_numRecordsIn": "operator_records_in",
    "flink_taskmanager_job_task_operator_numRecordsOut": "operator_records_out",
    "flink_taskmanager_job_task_operator_pendingRecords": "pending_records",
    "flink_taskmanager_job_task_operator_currentOutputWatermark": "output_watermark",
    "flink_taskmanager_job_task_operator_currentEmitEventTimeLag": "event_time_lag",
    "flink_taskmanager_job_task_operator_sourceIdleTime": "source_idle_time",
    "flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_records_lag_max": "records_lag_max",
    "flink_taskmanager_job_task_operator_KafkaConsumer_records_lag_max": "records_lag_max",
    "flink_taskmanager_job_task_operator_KinesisStreamSource_accountId_region_stream_shardId_millisBehindLatest": (
        "behind_latest"
    ),
    "flink_taskmanager_job_task_operator_KinesisConsumer_stream_shardId_millisBehindLatest": "behind_latest",
    # TaskManager, connections of Kafka clients
    "flink_taskmanager_job_task_operator_KafkaSourceReader_KafkaConsumer_connection_count": "kafka_connections",
    "flink_taskmanager_job_task_operator_KafkaConsumer_connection_count": "kafka_connections",
    "flink_taskmanager_job_task_operator_KafkaProducer_connection_count": "kafka_connections",
    # TaskManager, window operators
    "flink_taskmanager_job_task_operator_numLateRecordsDropped": "late_records",
    # TaskManager, sink operators
    "flink_taskmanager_job_task_operator_numRecordsSend": "records_sent",
    "flink_taskmanager_job_task_operator_numRecordsOutErrors": "records_out_errors",
    "flink_taskmanager_job_task_operator_numRecordsSendErrors": "records_send_errors",
    # Containers
    **CONTAINER_NAMES,
}
"""The names that detectors use, by Prometheus name. Durations are milliseconds, as in Flink."""

_COLLECTOR = re.compile(r"flink_(task|job)manager_Status_JVM_GarbageCollector_(\w+)_(Count|Time)$")
"""Names with a garbage collector in them. Detectors use `gc_count` and `gc_time` (cumulative ms), or `jm_gc_…`."""

_OF_ROCKSDB = {
    "is_write_stopped": "rocksdb_write_stopped",
    "actual_delayed_write_rate": "rocksdb_delayed_write_rate",
    "estimate_pending_compaction_bytes": "rocksdb_pending_compaction",
}
_ROCKSDB = re.compile(rf"flink_taskmanager_job_task_operator_\w*_?(?:rocksdb|forst)_({'|'.join(_OF_ROCKSDB)})$")
"""Names with a state of the user in them, unless column families are labels: those of RocksDB and of ForSt."""

_SUFFIX = re.compile(r"_(?:value|gauge|counter|total)$")
"""Suffixes added by the Prometheus outputs of Telegraf and OpenTelemetry. No metric of Flink ends with them."""

LABELS = (
    "job_id",
    "job_name",
    "tm_id",
    "host",
    "task_id",
    "task_name",
    "subtask_index",
    "operator_id",
    "operator_name",
    "topic",
    "partition",
    "collector",
)

PREFILTER: tuple[str, ...] = (
    *dict.fromkeys(n.removeprefix("flink_jobmanager_").removeprefix("flink_taskmanager_") for n in NAMES),
    "Status_JVM_GarbageCollector_",
    *("rocksdb", "forst"),
)
"""Literals of which every metric record of interest contains at least one."""

_NAME = r"([a-zA-Z_:][a-zA-Z0-9_:]*)"
# OpenMetrics writes the time in seconds with decimals.
_VALUE = r" +(\S+)(?: +-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)?"
_SAMPLE = re.compile(rf"{_NAME}(?:\{{(.*)\}})?{_VALUE}\s*$")
# OpenMetrics may add an exemplar, which has braces and a value of its own.
_WITH_EXEMPLAR = re.compile(
    rf'{_NAME}(?:\{{([^"{{}}]*(?:"(?:[^"\\]|\\.)*"[^"{{}}]*)*)\}})?{_VALUE} +# \{{.*\}} +\S+(?: +\S+)?\s*$'
)
OTHER_REPORTER = "other_reporter"
"""The reason for which metrics of another reporter's format are rejected."""

_OTHER_NAME = re.compile(r"(?:task|job)manager[_.]")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_MAX_LABEL = 300
# Larger numbers are not exact, and sums of them would not fit into 64 bits. No count, size or time is that large.
_MOST = 2.0**53
_UNESCAPED = {"n": "\n"}


class _TelegrafMetric(msgspec.Struct):
    name: str
    fields: dict[str, float | str | bool | None]
    tags: dict[str, str] = {}
    timestamp: int | float = 0


class _TelegrafBatch(msgspec.Struct):
    metrics: list[_TelegrafMetric]


_decode_metric = msgspec.json.Decoder(_TelegrafMetric).decode
_decode_batch = msgspec.json.Decoder(_TelegrafBatch).decode

Tags = dict[str, str]


@lru_cache(maxsize=4096)
def detector_name(name: str) -> tuple[str, str]:
    """(name that detectors use, garbage collector) of a Prometheus name; both may be empty."""
    name = _SUFFIX.sub("", name)
    known = NAMES.get(name)
    if known is not None:
        return known, ""
    if (stalled := _ROCKSDB.match(name)) is not None:
        return _OF_ROCKSDB[stalled[1]], ""
    found = _COLLECTOR.match(name)
    # `All` is the sum over all collectors, since Flink 1.19.
    if found is None or found[2] == "All":
        return "", ""
    return f"{'jm_' if found[1] == 'job' else ''}gc_{found[3].lower()}", found[2]


def read_prometheus(text: str) -> list[Sample]:
    """The samples of a Prometheus text page that detectors use. Raises ValueError with the first invalid line."""
    samples: list[Sample] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#" or is_unread(line):
            continue
        found = (_WITH_EXEMPLAR.match(line) if " # {" in line else None) or _SAMPLE.match(line)
        if found is None:
            raise ValueError(f"line {number} is not a Prometheus sample: {line[:80]!r}")
        if not detector_name(found[1])[0]:
            continue
        name, labels = _series(found[1], found[2] or "")
        if name and abs(value := float(found[3])) <= _MOST:
            samples.append(Sample(name, labels, value))
    return samples


@lru_cache(maxsize=16_384)
def _series(name: str, labels: str) -> tuple[str, Tags]:
    """(name that detectors use, labels that they use), two times empty if the series is of another container.

    Cached, because every scrape has the same series.
    """
    event_type, collector = detector_name(name)
    tags = {k: _ESCAPE.sub(lambda m: _UNESCAPED.get(m[1], m[1]), v) for k, v in _LABEL.findall(labels)}
    kept = _kept(event_type, {**tags, "collector": collector} if collector else tags)
    return ("", {}) if kept is None else (event_type, kept)


def read_telegraf(value: bytes) -> tuple[list[Sample], Tags, int]:
    """(samples that detectors use, tags of the agent, time in epoch ms or 0) of Telegraf JSON, single or batch.

    Both forms of its Prometheus input are read: `metric_version = 1` (the metric is the name, the value a field) and 2
    (the name is "prometheus", the metric a field). Raises msgspec.MsgspecError (a ValueError) if it is neither.
    """
    batch = b'"metrics"' in value[:64]
    metrics = _decode_batch(value).metrics if batch else [_decode_metric(value)]
    samples: list[Sample] = []
    for metric in metrics:
        for name, collector, number in _fields(metric):
            tags = {**metric.tags, "collector": collector} if collector else metric.tags
            samples.extend(samples_of(name, tags, number))
    if not samples:
        for metric in metrics:
            refuse_other_reporter(metric.name)
    first = metrics[0] if metrics else None
    return samples, (first.tags if first else {}), times.of_number(first.timestamp if first else 0)


def refuse_other_reporter(name: str) -> None:
    """Raises UndecodableError for a name of Flink without `flink_`: none of the supported formats has such names.

    Kafka reporters of third parties write them, each in a JSON of its own, with labels in places of their own.
    """
    if _OTHER_NAME.match(name):
        detail = f"the name {name[:100]!r} does not begin with flink_, as Flink's Prometheus reporter writes it"
        raise UndecodableError(OTHER_REPORTER, detail)


def _fields(metric: _TelegrafMetric) -> Iterator[tuple[str, str, float]]:
    single = detector_name(metric.name)
    for field, value in metric.fields.items():
        name, collector = single if single[0] else detector_name(field)
        if name and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, collector, float(value)
            if single[0]:
                return


def samples_of(name: str, tags: Tags, value: float, until: int = 0) -> Iterator[Sample]:
    """The sample with the labels that detectors use; none if no metric of Flink can have the value or the labels."""
    if abs(value) <= _MOST and (kept := _kept(name, tags)) is not None:
        yield Sample(name, kept, value, until)


def _kept(name: str, tags: Tags) -> Tags | None:
    """The labels that detectors use. None for a container that is not Flink's."""
    if name not in OF_CONTAINERS:
        return {k: tags[k][:_MAX_LABEL] for k in LABELS if k in tags}
    found = container_labels(name, tags)
    return None if found is None else {k: v[:_MAX_LABEL] for k, v in found.items()}
