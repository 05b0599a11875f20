"""Streams of events for the laws: made-up ones that no Flink would write, of the whole vocabulary."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import pairwise
from random import Random
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import msgspec
from hypothesis import strategies as st

from detectors import DETECTORS
from detectors.engine import bucket
from detectors.engine.bucket import BucketOutput
from detectors.events.event import Event, LogEvent, MetricEvent, Sample
from detectors.events.layouts import stack_line
from detectors.events.vocabulary import PATTERNS
from detectors.events.vocabulary.match import EVENT_TYPES, THROWS
from detectors.events.vocabulary.metric_names import NAMES
from detectors.flink.facts import FAILURE
from detectors.incident import Transition
from detectors.settings.live import LiveSettings, PublishedConfiguration, publish
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED

START = 1_700_000_000_000
STALLS = ("rocksdb_write_stopped", "rocksdb_delayed_write_rate", "rocksdb_pending_compaction")
METRICS = frozenset({*NAMES.values(), "gc_count", "gc_time", "jm_gc_count", "jm_gc_time", *STALLS})
JOBS = ("a" * 32, "b" * 32)
TMS = ("tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb", "container_1654843011567_0042_01_000002")
HOSTS = ("tm-1", "tm-2", "10.0.0.7")
ADDRESSES = ("tm-1:6122", "tm-2:6122", "jm-1:6123")
TASKS = ("Source: orders -> map", "sink")
SOURCES = ("jm", "tm-1", "tm-2", "rm")
ATTEMPTS = tuple(c * 32 for c in "1234")
CHOICES: dict[str, tuple[str, ...]] = {
    "job": JOBS,
    "name": ("orders", "payments"),
    "tm": TMS,
    "container": TMS,
    "host": HOSTS,
    "node": ("tm-1:45454", "tm-2:45454"),
    "address": ADDRESSES,
    "directory": ("s3://state", "file:///state/checkpoints"),
    "path": (
        f"s3://state/{JOBS[0]}/chk-3",
        "hdfs:///savepoints/savepoint-1-2",
        "<checkpoint-not-externally-addressable>",
    ),
    "attempt": ATTEMPTS,
    "failed": ATTEMPTS,
    "task": TASKS,
    "state": (
        *("RUNNING", "RESTARTING", "FAILING", "CANCELLING", "CANCELED", "FINISHED", "FAILED", "SUSPENDED", "CREATED"),
        *("INITIALIZING", "DEPLOYING", "SCHEDULED"),
    ),
    "before": ("RUNNING", "CREATED", "DEPLOYING", "FAILING"),
    "type": ("CHECKPOINT", "SavepointType{name='Savepoint', postCheckpointAction=NONE, formatType=CANONICAL}"),
    "reason": (
        "The heartbeat of TaskManager with id x timed out.",
        "The TaskExecutor is shutting down.",
        "Container [pid=1,containerID=x] is running beyond the 'PHYSICAL' memory limit. Exit code is 143",
        "Container released on a *lost* node",
        "Something nobody has seen.",
    ),
    "cause": (
        "java.lang.Exception: x",
        "org.apache.flink.util.FlinkException: Disconnect from JobManager responsible.",
    ),
    "signal": ("15", "2"),
    "status": ("SUCCEEDED", "FAILED", "UNKNOWN", "CANCELED"),
    "version": ("1.4.2", "1.17.1", "2.3.0", "1.20-SNAPSHOT"),
    "what": (
        "TaskManager",
        "StandaloneSessionClusterEntrypoint",
        "YARN ApplicationMaster / ResourceManager / JobManager",
    ),
    "which": ("PHYSICAL", "VIRTUAL", "physical"),
    "physical": ("3.0 GB of 3 GB",),
    "virtual": ("6.1 GB of 6.3 GB",),
    "peer": ("JobManager", "ResourceManager"),
    "key": (
        "heartbeat.timeout",
        "taskmanager.registration.timeout",
        "execution.checkpointing.unaligned",
        "nobody.knows",
    ),
    "value": ("50000", "10 min", "5 h", "never", "true"),
    "written": ("2023-11-14 22:13:20.000001", "1970-01-01 00:00:00.000000"),
    "client": ("Consumer clientId=orders-0, groupId=orders", "Producer clientId=producer-1"),
    "parallelism": ("2",),
    "subtask": ("1", "2"),
    "checkpoint": ("1", "2", "3", "4", "5", "6"),
    "cluster": ("billing", "orders", "search%20;eu"),
    "incident": ("0a1b", "0c2d", "0e3f"),
    "resources": ("broker/kafka-1:9092", "broker/kafka-1:9092,broker/kafka-2:9092", "host/node-17", "-"),
    "severity": ("warning", "critical", "Warning", "Normal"),
    "happened": (
        *("FailedScheduling", "Scheduled", "BackOff", "Failed", "FailedCreate", "SuccessfulCreate", "Started"),
        *("Rollback", "ValidationError", "IneffectiveScaling", "JobStatusChanged", "Cleanup", "NobodyKnows"),
    ),
    "object": ("Pod", "ReplicaSet", "FlinkDeployment"),
    "target": ("flink/tm-1:6122-aaaaaa", "flink/orders-taskmanager-1-1", "flink/orders"),
    "restarts": ("true", "false"),
    "labels": ("TYPE=USER", "TYPE=SYSTEM, CODE=17"),
    "note": ("Back-off pulling image x", "exceeded quota: q", "Job status changed from CREATED to RUNNING"),
}
"""What a field may hold; one that is not here is a number."""
NUMBERS = ("0", "1", "300", "60000", "999999999999999999")
SPECIAL = {
    ("registration_timed_out", "duration"): ("PT5M", "PT20S", "300000 ms", "300000"),
    ("all_subtasks_status", "status"): ("ALL_RUNNING_OR_FINISHED", "NOT_ALL_RUNNING_OR_FINISHED"),
}
THROWN = (
    ("java.lang.OutOfMemoryError", "Java heap space"),
    ("java.lang.OutOfMemoryError", "GC overhead limit exceeded"),
    ("java.lang.OutOfMemoryError", "Metaspace"),
    ("java.lang.OutOfMemoryError", "Direct buffer memory. The direct out-of-memory error has occurred."),
    ("java.lang.ArithmeticException", "/ by zero"),
    ("java.lang.NumberFormatException", 'For input string: "x"'),
    ("java.util.concurrent.TimeoutException", "Heartbeat of TaskManager with id tm-1:6122-aaaaaa timed out."),
    (
        "org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException",
        "Connection unexpectedly closed by remote task manager 'tm-1/10.0.0.1:6121'.",
    ),
    ("org.apache.flink.util.FlinkException", "Disconnect from JobManager responsible for " + JOBS[0]),
    ("org.apache.flink.util.FlinkExpectedException", "The TaskExecutor is shutting down."),
    (
        "org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException",
        "Could not acquire the minimum required resources.",
    ),
    ("org.apache.flink.runtime.client.JobInitializationException", "Could not start the JobMaster."),
    ("java.io.FileNotFoundException", "Cannot find checkpoint or savepoint file/directory 'x'"),
    ("org.apache.flink.util.FlinkRuntimeException", "Exceeded checkpoint tolerable failure threshold."),
    ("io.fabric8.kubernetes.client.KubernetesClientException", "too old resource version: 1 (2)"),
    (
        "org.apache.kafka.common.errors.TimeoutException",
        "Expiring 12 record(s) for out-0:120000 ms has passed since batch creation",
    ),
    ("com.example.Odd", ""),
)
FRAMES = ("com.example.Parse.map(Parse.java:28)", "com.example.Sink.write(Sink.java:3)")
GAPS = (0, 1, 500, 3_000, 10_000, 20_000, 61_000, 400_000, 1_000_000)
VALUES = (0.0, 1.0, 2.0, 30.0, 900.0, 1000.0, 5e7, 6e7, 5.4e8, 1e9, -1.0, 9e15, -9e15)
LABELS: dict[str, tuple[str, ...]] = {
    "job_id": JOBS,
    "job_name": ("orders",),
    "tm_id": tuple(re.sub(r"[^a-zA-Z0-9:_]", "_", tm) for tm in TMS),
    "host": HOSTS,
    "task_id": ("e" * 32, "f" * 32),
    "task_name": TASKS,
    "subtask_index": ("0", "1"),
    "operator_id": ("c" * 32,),
    "operator_name": TASKS,
    "topic": ("orders_eu",),
    "partition": ("0", "1"),
    "collector": ("G1_Young_Generation", "G1_Old_Generation"),
    "pod": ("orders-taskmanager-1-1", "orders-6c9d8b7f5d-x2lqp"),
    "container": ("flink-main-container", "taskmanager"),
}


def in_order(events: Iterable[Event]) -> list[Event]:
    """Sorted as Kafka timestamps, and as the engine breaks ties."""
    return sorted(events, key=lambda e: (e.timestamp, e.topic, e.partition, e.offset))


@cache
def alone(*kinds: str) -> PublishedConfiguration:
    """Settings under which only the detectors of these kinds work; the empty kind stands for all of them."""
    if kinds == ("",):
        return PUBLISHED
    blocks = {d.kind: {"enabled": d.kind in kinds} for d in DETECTORS}
    return publish(LiveSettings.model_validate({"detectors": blocks}), 0, "tests")


def run(
    events: Sequence[Event],
    cuts: Iterable[int] = (),
    until: int | None = None,
    published: PublishedConfiguration = PUBLISHED,
) -> list[Transition]:
    """The transitions of a stream cut before the events at `cuts`; the clock is the greatest timestamp so far."""
    index, store = bucket.BucketIndex(published=published), MemoryStore()
    edges = sorted({0, len(events), *(c % (len(events) + 1) for c in cuts)})
    reported: list[Transition] = []
    clock = 0
    for start, end in pairwise(edges):
        batch = events[start:end]
        clock = max(clock, *(e.timestamp for e in batch))
        reported += _checked(bucket.step(index, store, batch, clock))
    if until is not None:
        reported += _checked(bucket.step(index, store, [], until))
    return reported


def _checked(reported: BucketOutput) -> list[Transition]:
    assert [d.error for d in reported.defects] == []
    return reported.transitions


def encoded(transitions: Iterable[Transition]) -> list[bytes]:
    """As they are written to Kafka: to compare all of it."""
    return [msgspec.json.encode(t) for t in transitions]


def log(event_type: str, at: int, offset: int = 0, source: str = "jm", lag: int = 100, **fields: str) -> LogEvent:
    """A line written at `at` ms after START, in UTC, that arrives `lag` ms later."""
    time = START + at
    return LogEvent(
        event_type, "c", source, source, time + lag, time, "flink.logs", 0, offset, fields, f"{event_type} {fields}"
    )


def metric(name: str, at: int, value: float, offset: int = 0, **labels: str) -> MetricEvent:
    """One sample taken at `at` ms after START."""
    return page(at, [Sample(name, labels, value)], offset)


def page(at: int, samples: list[Sample], offset: int = 0) -> MetricEvent:
    """A scrape taken at `at` ms after START."""
    time = START + at
    return MetricEvent("c", "m", "h", time + 50, time, "flink.metrics", 0, offset, samples)


@cache
def fields_of(event_type: str) -> tuple[tuple[tuple[str, bool], ...], ...]:
    """For each log_pattern of a meaning its fields, and whether they may be missing."""
    found = []
    for log_pattern in PATTERNS:
        if log_pattern.event_type == event_type:
            pattern = re.compile(log_pattern.pattern)
            found.append(tuple((name, not _always(log_pattern.pattern, name)) for name in pattern.groupindex))
    return tuple(found)


def _always(pattern: str, name: str) -> bool:
    """Whether a match always has the group: it stands in nothing that may be missing and in no alternative."""
    number = re.compile(pattern).groupindex[name]
    return number in _sure(_parser.parse(pattern))


def _sure(parsed: Any) -> set[int]:
    found: set[int] = set()
    for operation, argument in parsed:
        if operation is _constants.SUBPATTERN:
            found |= {argument[0]} | _sure(argument[3])
        elif operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and argument[0] > 0:
            found |= _sure(argument[2])
    return found


def _line(chance: Random, event_type: str, at: int, offset: int) -> LogEvent:
    fields = {}
    for name, optional in chance.choice(fields_of(event_type)):
        if not (optional and chance.random() < 0.5):
            fields[name] = chance.choice(SPECIAL.get((event_type, name), CHOICES.get(name, NUMBERS)))
    if "epoch" in fields:
        fields["epoch"] = str(START + at)
    lag = chance.choice((0, 1, 100))  # on the second at which deadlines are met, and off it
    return log(event_type, at, offset, chance.choice(SOURCES), lag, **fields)


def _stack(chance: Random, of: LogEvent, at: int, offset: int) -> list[Event]:
    """A throwable, its causes, and a frame of the user's under some of them."""
    found: list[Event] = []
    source, lag = of.source, of.timestamp - START - at
    for depth in range(chance.randint(1, 3)):
        name, message = chance.choice(THROWN)
        fields = {"class": name, "message": message, **({"caused": "yes"} if depth else {})}
        found.append(log(stack_line.THROWN, at, offset + len(found), source, lag, **fields))
        if chance.random() < 0.5:
            frame = chance.choice(FRAMES)
            found.append(log(stack_line.FRAME, at, offset + len(found), source, lag, frame=frame))
    return found


def _scrape(chance: Random, names: Sequence[str], at: int, offset: int) -> MetricEvent:
    samples = {}
    for _ in range(chance.randint(1, 4)):
        labels = {k: chance.choice(v) for k, v in LABELS.items() if chance.random() < 0.8}
        name = chance.choice(names)
        # No page has a series twice.
        samples[name, tuple(labels.items())] = Sample(name, labels, chance.choice(VALUES))
    return page(at, [*samples.values()], offset)


def stream(seed: int, length: int, event_types: Collection[str]) -> list[Event]:
    chance = Random(seed)
    lines = sorted(EVENT_TYPES & set(event_types) if event_types else EVENT_TYPES)
    names = sorted(METRICS & set(event_types) if event_types else METRICS)
    stacks = not event_types or FAILURE in event_types
    if stacks and event_types:
        lines = sorted({*lines, *THROWS})
    # Now and then a stretch in which nothing but time passes; mostly what belongs together comes close together.
    gaps = chance.choice(((0, 1, 500, 3_000), (3_000, 10_000, 20_000), (20_000, 61_000, 400_000, 1_000_000), GAPS))
    at, offset, events = 0, 0, list[Event]()
    for _ in range(length):
        at += chance.choice(gaps)
        if names and (not lines or chance.random() < 0.3):
            events.append(_scrape(chance, names, at, offset))
        else:
            line = _line(chance, chance.choice(lines), at, offset)
            events.append(line)
            if stacks and chance.random() < (0.6 if line.event_type in THROWS else 0.1):
                events += _stack(chance, line, at, offset + 1)
        offset += 10
    return in_order(events)


def made_up(event_types: Collection[str] = (), most: int = 60) -> st.SearchStrategy[list[Event]]:
    """Any events of the vocabulary in any order, seconds to minutes apart, about two jobs and three TaskManagers.

    `wants` are the meanings and metric names to choose from; empty: all. Made from a seed, which is ten times faster
    than drawing each field; what fails is shown at its shortest length.
    """
    return st.builds(stream, st.integers(0, 10**9), st.integers(1, most), st.just(event_types))
