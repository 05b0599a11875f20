"""Settings of Flink that make incidents likely: each rule is a row with its reason, its remedy and the runbook.

A rule returns what it saw, or an empty string. Defaults are Flink's own; a job may set most of them in its code, which
no line shows, so every sentence says what the configuration says.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from detectors.diagnosis.known_cluster import KnownCluster
from detectors.flink.checkpointing.checkpoints import DEFAULT_TIMEOUT_MS
from detectors.flink.flink_settings import CHECKPOINT_TIMEOUT
from detectors.values.durations import humanize
from detectors.values.sizes import si

_HEARTBEAT, _DEFAULT_HEARTBEAT_MS = "heartbeat.timeout", 50_000
_SHORT_HEARTBEAT_MS = 30_000
_BUSY_GC = 0.1
_INTERVAL = "execution.checkpointing.interval"
_TOLERABLE = "execution.checkpointing.tolerable-failed-checkpoints"
_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
_ROOM = 2
_BACKENDS = ("state.backend.type", "state.backend")
_ON_HEAP = frozenset({"hashmap", "filesystem", "jobmanager"})
_LARGE_STATE = 200_000_000
_METASPACE = "taskmanager.memory.jvm-metaspace.size"
_DEFAULT_METASPACE = 256 << 20
_MEMORY = re.compile(r"(\d{1,15})\s*([a-z]*)")
_UNITS = {"": 0, "b": 0, "bytes": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30}


class SettingRule(NamedTuple):
    """One rule: `seen` returns what was seen in a cluster, `why` it matters, what `to_do`, and the kind it leads to."""

    name: str
    seen: Callable[[KnownCluster], str]
    why: str
    to_do: str
    runbook: str


def memory_bytes(text: str) -> int:
    """A memory size as Flink's configuration writes it, in bytes; 0 if it is not one.

    >>> memory_bytes("160m"), memory_bytes("1 gb"), memory_bytes("much")
    (167772160, 1073741824, 0)
    """
    found = _MEMORY.fullmatch(text.strip().lower())
    shift = _UNITS.get(found[2]) if found else None
    return int(found[1]) << shift if found and shift is not None else 0


def _short_heartbeat(cluster: KnownCluster) -> str:
    timeout = cluster.duration(_HEARTBEAT)
    return f"{_HEARTBEAT} is {humanize(timeout)}" if 0 < timeout < _SHORT_HEARTBEAT_MS else ""


def _pauses(cluster: KnownCluster) -> str:
    if cluster.busy_gc < _BUSY_GC:
        return ""
    timeout = cluster.duration(_HEARTBEAT) or _DEFAULT_HEARTBEAT_MS
    return f"a TaskManager spends {cluster.busy_gc:.0%} of its time in GC; {_HEARTBEAT} is {humanize(timeout)}"


def _short_timeout(cluster: KnownCluster) -> str:
    job, usual = cluster.longest()
    timeout = cluster.duration(CHECKPOINT_TIMEOUT) or DEFAULT_TIMEOUT_MS
    if usual * _ROOM <= timeout:
        return ""
    return f"checkpoints of {job} usually take {humanize(usual)}, {CHECKPOINT_TIMEOUT} is {humanize(timeout)}"


def _short_interval(cluster: KnownCluster) -> str:
    job, usual = cluster.longest()
    interval = cluster.duration(_INTERVAL)
    if not interval or usual < interval:
        return ""
    return f"checkpoints of {job} usually take {humanize(usual)}, {_INTERVAL} is {humanize(interval)}"


def _timeout_below_interval(cluster: KnownCluster) -> str:
    timeout, interval = cluster.duration(CHECKPOINT_TIMEOUT), cluster.duration(_INTERVAL)
    if not timeout or not interval or timeout >= interval or timeout >= DEFAULT_TIMEOUT_MS:
        return ""
    return f"{CHECKPOINT_TIMEOUT} is {humanize(timeout)}, {_INTERVAL} is {humanize(interval)}"


def _no_high_availability(cluster: KnownCluster) -> str:
    mode = cluster.setting("high-availability.type", "high-availability")
    if mode and mode.upper() != "NONE":
        return ""
    return f"high availability is {mode or 'not set'}" if cluster.printed else ""


def _no_failure_tolerated(cluster: KnownCluster) -> str:
    value = cluster.setting(_TOLERABLE)
    if not cluster.printed or value not in ("", "0") or not (cluster.setting(_INTERVAL) or cluster.usual):
        return ""
    return f"{_TOLERABLE} is {value or 'not set, which means 0'}"


def _state_on_heap(cluster: KnownCluster) -> str:
    job, size = cluster.largest()
    backend = cluster.setting(*_BACKENDS)
    on_heap = backend.lower() in _ON_HEAP or (not backend and cluster.printed)
    if not on_heap or size < _LARGE_STATE:
        return ""
    return f"the state backend is {backend or 'not set, which means the heap'}; checkpoints of {job} have {si(size)}"


def _checkpoints_deleted(cluster: KnownCluster) -> str:
    value = cluster.setting(_RETENTION)
    if not cluster.printed or value.upper() == "RETAIN_ON_CANCELLATION":
        return ""
    if not (value or cluster.setting(_INTERVAL) or cluster.usual):
        return ""
    return f"{_RETENTION} is {value or 'not set'}"


def _no_restarts(cluster: KnownCluster) -> str:
    value = cluster.setting("restart-strategy.type", "restart-strategy")
    return f"the restart strategy is {value}" if value.lower() in ("none", "off", "disable") else ""


def _small_metaspace(cluster: KnownCluster) -> str:
    value = cluster.setting(_METASPACE)
    size = memory_bytes(value)
    return f"{_METASPACE} is {value}, less than the default of 256 MiB" if 0 < size < _DEFAULT_METASPACE else ""


RULES: tuple[SettingRule, ...] = (
    SettingRule(
        "no-high-availability",
        _no_high_availability,
        "If the JobManager ends, its jobs end with it, and a new JobManager does not know them.",
        "Set high-availability.type to kubernetes or zookeeper, with high-availability.storageDir.",
        "jobmanager_lost",
    ),
    SettingRule(
        "checkpoints-deleted",
        _checkpoints_deleted,
        "Flink deletes the checkpoints of a job that is cancelled, so a job that is cancelled by mistake, or by a "
        "script that submits it again, starts without its state.",
        "Set it to RETAIN_ON_CANCELLATION, and delete old checkpoints yourself.",
        "keep_state",
    ),
    SettingRule(
        "no-failed-checkpoint-tolerated",
        _no_failure_tolerated,
        "Since Flink 1.10 the first failed checkpoint restarts the job: a short outage of the storage then "
        "interrupts the processing, and the backlog makes the next checkpoint slower.",
        "Set it to a few, such as 3, unless the job sets it in its code.",
        "checkpoint_failing",
    ),
    SettingRule(
        "checkpoint-timeout-near",
        _short_timeout,
        "A checkpoint that takes twice as long as usual expires, and everything since the last one is replayed after a "
        "failure.",
        "Set a timeout of several times the usual duration, and find out what makes checkpoints slow.",
        "checkpoint_duration_creep",
    ),
    SettingRule(
        "checkpoints-back-to-back",
        _short_interval,
        "Checkpoints follow each other without a pause, which slows down the processing that they wait for.",
        "Set a longer interval, or execution.checkpointing.min-pause.",
        "checkpoint_duration_creep",
    ),
    SettingRule(
        "timeout-below-interval",
        _timeout_below_interval,
        "A slow checkpoint is given up although the next one is not due yet.",
        "Set a timeout that is at least as long as the interval.",
        "late_barrier_acks",
    ),
    SettingRule(
        "state-on-heap",
        _state_on_heap,
        "State on the heap is copied by every garbage collection, and the pauses grow with it: heartbeats stop, and "
        "the TaskManager is lost before it reports that its memory is full.",
        "Use the backend rocksdb with incremental checkpoints, or provide several times the size of the state as heap.",
        "heap_exhaustion",
    ),
    SettingRule(
        "heartbeat-shorter-than-pauses",
        _short_heartbeat,
        "A long garbage collection or a short network outage then looks like a dead TaskManager, and its jobs restart.",
        "Use the default of 50 s, unless pauses are known to be short.",
        "taskmanager_lost",
    ),
    SettingRule(
        "long-collections",
        _pauses,
        "Pauses for garbage collection become longer as the heap fills, up to the heartbeat timeout; then the "
        "TaskManager is lost.",
        "Provide more heap, or keep less on it.",
        "heap_exhaustion",
    ),
    SettingRule(
        "no-restarts",
        _no_restarts,
        "The first failure ends the job for good.",
        "Use exponential-delay or fixed-delay.",
        "job_failed",
    ),
    SettingRule(
        "small-metaspace",
        _small_metaspace,
        "Each restart of a job loads its classes again. What pins the old ones fills a small metaspace within a few "
        "restarts.",
        "Use the default of 256 MiB or more.",
        "metaspace_exhaustion",
    ),
)
"""The rules, what costs state or the whole job first."""
