"""Records for the benchmarks: a few dozen Flink clusters over hours, as Filebeat ships their JobManagers' logs.

The same arguments give the same records. A job lives in cycles: it is deployed, checkpoints for a while, restarts; now
and then a checkpoint expires.
"""

import heapq
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple
from zlib import crc32

import msgspec

CLUSTERS = 40
TASKS = ("Source: orders", "Window(TumblingEventTimeWindows(60000)) -> Map", "Sink: ledger")
PARALLELISM = 4
CHECKPOINTS_PER_CYCLE = 50
CHECKPOINT_EVERY_MS = 10_000
EXPIRED_SHARE = 0.002

_LOGGER = {
    "Checkpoint": "org.apache.flink.runtime.checkpoint.CheckpointCoordinator",
    "Triggering": "org.apache.flink.runtime.checkpoint.CheckpointCoordinator",
    "Completed": "org.apache.flink.runtime.checkpoint.CheckpointCoordinator",
    "Registering": "org.apache.flink.runtime.resourcemanager.StandaloneResourceManager",
}
_GRAPH = "org.apache.flink.runtime.executiongraph.ExecutionGraph"
_NOISE = (
    (
        "org.apache.kafka.clients.FetchSessionHandler",
        "[Consumer clientId=orders-{a}, groupId=orders] Node {b} was unable to process the fetch",
    ),
    ("com.example.orders.OrderEnricher", "enriched order {a} of customer {b} in {c} ms, cache holds {a} entries"),
    ("com.example.orders.LedgerSink", "flushed {c} rows to ledger-{b}, {a} bytes"),
    (
        "org.apache.hadoop.hdfs.DFSClient",
        "Slow ReadProcessor read fields took {a}ms (threshold=30000ms); ack: seqno: {b}",
    ),
    (
        "org.apache.flink.runtime.taskexecutor.TaskExecutor",
        "Receive slot request {a} for the job from resource manager with leader id {b}.",
    ),
    (
        "org.apache.flink.runtime.checkpoint.CheckpointFailureManager",
        "Retained {c} checkpoints of the job, {a} bytes in the store.",
    ),
    (
        "org.apache.kafka.clients.consumer.internals.SubscriptionState",
        "Resetting offset for partition orders-{c} to position {a}.",
    ),
    ("com.example.orders.Deduplicator", "order {a} seen before, {b} duplicates since the window of {c} started"),
)


class Line(NamedTuple):
    """One log line: epoch ms, cluster, and the line as log4j prints it."""

    time: int
    cluster: str
    text: str

    def filebeat(self) -> bytes:
        """The record's value as Filebeat writes it, about 350 bytes."""
        host = f"jm-{self.cluster}"
        return msgspec.json.encode(
            {
                "@timestamp": datetime.fromtimestamp(self.time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
                + f"{self.time % 1000:03d}Z",
                "log": {"offset": self.time % 10**9, "file": {"path": f"/opt/flink/log/{host}.log"}},
                "message": self.text,
                "fields": {"cluster": self.cluster},
                "host": {"name": host},
            }
        )

    def partition(self, partitions: int) -> int:
        """Partition of the record: all records of a cluster in one, so that they stay in order."""
        return crc32(self.cluster.encode()) % partitions


def dense(count: int, start: int, clusters: int = CLUSTERS) -> Iterator[Line]:
    """`count` lines that all matter, from `start` (epoch ms) on, in order of time."""
    jobs = [_job(f"cluster-{i:02d}", start + i * 997, random.Random(i)) for i in range(clusters)]
    for line, _ in zip(heapq.merge(*jobs), range(count), strict=False):
        yield line


def sparse(count: int, start: int, share: float = 0.03, clusters: int = CLUSTERS) -> Iterator[Line]:
    """`count` lines of which `share` matter, from `start` (epoch ms) on, in order of time."""
    chance = random.Random(0)
    matters = round(count * share)
    between = count // matters - 1
    written = 0
    for line in dense(matters, start, clusters):
        for _ in range(between + (chance.random() < count / matters - 1 - between)):
            if written < count - 1:
                yield _noise(line, chance)
                written += 1
        yield line
        written += 1
        if written >= count:
            return
    for _ in range(count - written):
        yield _noise(line, chance)


def expired(cluster: str, time: int) -> Line:
    """One expired checkpoint of a job of its own."""
    message = f"Checkpoint 7 of job {crc32(cluster.encode()):032x} expired before completing."
    return Line(time, cluster, _printed(time, _LOGGER["Checkpoint"], message))


def noise(chance: random.Random) -> tuple[str, str]:
    """Logger and message of a line that says nothing of interest."""
    logger, template = chance.choice(_NOISE)
    return logger, template.format(a=chance.randrange(10**7), b=chance.randrange(10**4), c=chance.randrange(60))


def _noise(line: Line, chance: random.Random) -> Line:
    logger, message = noise(chance)
    return Line(line.time, line.cluster, _printed(line.time, logger, message))


def _printed(time: int, logger: str, message: str) -> str:
    at = datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{at},{time % 1000:03d} INFO  {logger:<60} [] - {message}"


def _job(cluster: str, time: int, chance: random.Random) -> Iterator[Line]:
    job, number = f"{chance.getrandbits(128):032x}", 0

    def line(message: str) -> Line:
        return Line(time, cluster, _printed(time, _LOGGER.get(message.split(maxsplit=1)[0], _GRAPH), message))

    while True:
        for message in _deployment(job, chance):
            time += chance.randrange(1, 20)
            yield line(message)
        for _ in range(CHECKPOINTS_PER_CYCLE):
            number += 1
            time += CHECKPOINT_EVERY_MS
            kind = "CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}"
            yield line(f"Triggering checkpoint {number} (type={kind}) @ {time} for job {job}.")
            took = chance.randrange(200, 900)
            time += took
            if chance.random() < EXPIRED_SHARE:
                yield line(f"Checkpoint {number} of job {job} expired before completing.")
            else:
                size = chance.randrange(10**6, 10**7)
                yield line(
                    f"Completed checkpoint {number} for job {job} "
                    f"({size} bytes, checkpointDuration={took} ms, finalizationTime=3 ms)."
                )


def _deployment(job: str, chance: random.Random) -> Iterator[str]:
    for tm in range(2):
        name = f"10.0.{chance.randrange(256)}.{tm}:41{tm:03d}-{chance.getrandbits(24):06x}"
        address = f"pekko.tcp://flink@10.0.0.{tm}:41000/user/rpc/taskmanager_0"
        yield f"Registering TaskManager with ResourceID {name} ({address}) at ResourceManager"
    for before, after in (("RUNNING", "RESTARTING"), ("RESTARTING", "RUNNING")):
        yield f"Job orders ({job}) switched from state {before} to {after}."
    vertices = [
        (t, i, f"{chance.getrandbits(128):032x}_{chance.getrandbits(128):032x}_{i}_0")
        for t in TASKS
        for i in range(PARALLELISM)
    ]
    for before, after in (("CREATED", "SCHEDULED"), ("SCHEDULED", "DEPLOYING")):
        for task, i, attempt in vertices:
            yield f"{task} ({i + 1}/{PARALLELISM}) ({attempt}) switched from {before} to {after}."
    for task, i, attempt in vertices:
        place = f"10.0.0.{i % 2}:41000-abcdef @ tm-{i % 2}.example (dataPort=41001)"
        yield (
            f"Deploying {task} ({i + 1}/{PARALLELISM}) (attempt #0) with attempt id {attempt} "
            f"and vertex id {attempt[33:65]}_{i} to {place} with allocation id {attempt[:32]}"
        )
    for before, after in (("DEPLOYING", "INITIALIZING"), ("INITIALIZING", "RUNNING")):
        for task, i, attempt in vertices:
            yield f"{task} ({i + 1}/{PARALLELISM}) ({attempt}) switched from {before} to {after}."
