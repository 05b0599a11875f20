"""A made-up fleet for the benchmark of scale: clusters that run well, as events the reader would make of their records.

Log lines go through the reader itself. A page of metrics is read once as text; the later ones are the same samples with
new values, since reading is not what is measured here. Flink 1.20's names and wordings.
"""

import math
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from detectors.events.event import Event, MetricEvent, Record, Rejected, Sample
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary.metric_names import read_prometheus

START = 1_700_000_000_000
SCRAPE_EVERY_S = 15
CHECKPOINT_EVERY_S = 60
RESTART_EVERY_S = 7_200
TASKS = ("Source: orders", "Window(TumblingEventTimeWindows(60000)) -> Map", "Sink: ledger")

_LOGGER = "org.apache.flink.runtime"
READER = Reader(Identity(), frozenset({"flink.metrics"}))
_TASK_METRICS = (
    "numRecordsIn",
    "numRecordsOut",
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "isBackPressured",
    "buffers_inPoolUsage",
    "buffers_inputQueueLength",
)
_SOURCE_METRICS = (
    "numRecordsIn",
    "numRecordsOut",
    "pendingRecords",
    "KafkaSourceReader_commitsSucceeded",
    "KafkaSourceReader_commitsFailed",
)
_SPLIT_METRICS = ("currentOffset", "committedOffset")
_JOB_METRICS = (
    "lastCheckpointDuration",
    "lastCheckpointSize",
    "lastCheckpointFullSize",
    "numberOfCompletedCheckpoints",
    "numberOfFailedCheckpoints",
    "numberOfInProgressCheckpoints",
    "numRestarts",
    "fullRestarts",
)
_PROCESS = ("Memory_Heap_Used", "Memory_Heap_Max", "Memory_Metaspace_Used", "Memory_Metaspace_Max")
_COLLECTORS = ("G1_Young_Generation_Count", "G1_Young_Generation_Time", "G1_Old_Generation_Count")
_MB = 2.0**20

Value = Callable[[float], float]


class Page(NamedTuple):
    """The samples of one process, each with its value over time (seconds since the start)."""

    host: str
    second: int
    samples: list[tuple[Sample, Value]]


class Cluster:
    """One Flink cluster; its jobs share its slots evenly, and each task has a subtask in each slot of its job."""

    def __init__(self, name: str, jobs: int, tms: int, slots: int = 4) -> None:
        self.name = name
        self._chance = random.Random(name)
        self._slots = slots
        self._parallelism = tms * slots // jobs
        self._jobs = [f"{self._chance.getrandbits(128):032x}" for _ in range(jobs)]
        self._begin = [self._chance.randrange(5, CHECKPOINT_EVERY_S) for _ in self._jobs]
        self._tms = [f"10.0.{n // 250}.{n % 250}:41001-{self._chance.getrandbits(24):06x}" for n in range(tms)]
        self._number = [0] * jobs
        self._offset = 0
        self._pages = [self._tm_page(n) for n in range(tms)] + [self._jm_page()]

    def second(self, second: int) -> list[Event]:
        """The events of one second since the start."""
        found: list[Event] = []
        if second == 0:
            for n, tm in enumerate(self._tms):
                found += self._line(
                    0, f"tm-{n}", "taskexecutor.TaskExecutor", f"Starting TaskManager with ResourceID: {tm}"
                )
                address = f"pekko.tcp://flink@{tm.partition('-')[0]}/user/rpc/taskmanager_0"
                text = f"Registering TaskManager with ResourceID {tm} ({address}) at ResourceManager"
                found += self._line(50, "jm", "resourcemanager.active.ActiveResourceManager", text)
        for j, begin in enumerate(self._begin):
            if second == 1 or (second % RESTART_EVERY_S == 0 and second // RESTART_EVERY_S % len(self._jobs) == j):
                found += self._deployed(second * 1000, j, again=second > 1)
            elif second >= begin and second % CHECKPOINT_EVERY_S == begin:
                found += self._checkpoint(second * 1000, j)
        for page in self._pages:
            if second % SCRAPE_EVERY_S == page.second:
                found.append(self._scrape(page, second))
        return found

    def _line(self, at: int, host: str, logger: str, message: str) -> list[Event]:
        time = START + at
        printed = datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") + f",{time % 1000:03d}"
        text = f"{printed} INFO  {_LOGGER}.{logger:<45} [] - {message}"
        self._offset += 1
        headers = (("cluster", self.name.encode()), ("host", host.encode()), ("file", f"{host}.log".encode()))
        found = READER.read(Record("flink.logs", 0, self._offset, time + 200, None, text.encode(), headers))
        assert not isinstance(found, Rejected), found
        return found

    def _checkpoint(self, at: int, j: int) -> Iterator[Event]:
        self._number[j] += 1
        number, job = self._number[j], self._jobs[j]
        took = round(800 * math.exp(self._chance.gauss(0, 0.3)))
        logger = "checkpoint.CheckpointCoordinator"
        kind = "CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}"
        begin = f"Triggering checkpoint {number} (type={kind}) @ {START + at} for job {job}."
        yield from self._line(at, "jm", logger, begin)
        size = self._chance.randrange(9_000_000, 10_000_000)
        done = f"({size} bytes, checkpointDuration={took} ms, finalizationTime=3 ms)."
        yield from self._line(at + took, "jm", logger, f"Completed checkpoint {number} for job {job} {done}")

    def _deployed(self, at: int, j: int, again: bool) -> Iterator[Event]:
        job, name, logger = self._jobs[j], f"orders-{j}", "executiongraph.ExecutionGraph"
        graph = f"{self._chance.getrandbits(128):032x}"
        if again:
            yield from self._line(at, "jm", logger, f"Job {name} ({job}) switched from state RUNNING to RESTARTING.")
            text = (
                f"Restoring job {job} from Checkpoint {self._number[j]} @ {START + at} for {job} located at s3://f/c."
            )
            yield from self._line(at + 10, "jm", "checkpoint.CheckpointCoordinator", text)
        before = "RESTARTING" if again else "CREATED"
        yield from self._line(at + 20, "jm", logger, f"Job {name} ({job}) switched from state {before} to RUNNING.")
        for v, task in enumerate(TASKS):
            for i in range(self._parallelism):
                attempt = f"{graph}_{v:032x}_{i}_0"
                which = f"{task} ({i + 1}/{self._parallelism})"
                n = (j * self._parallelism + i) // self._slots
                place = f"{self._tms[n]} @ tm-{n}.example (dataPort=41002)"
                text = (
                    f"Deploying {which} (attempt #0) with attempt id {attempt} and vertex id {v:032x}_{i} "
                    f"to {place} with allocation id {graph}"
                )
                yield from self._line(at + 30, "jm", logger, text)
                for was, becomes in (
                    ("SCHEDULED", "DEPLOYING"),
                    ("DEPLOYING", "INITIALIZING"),
                    ("INITIALIZING", "RUNNING"),
                ):
                    text = f"{which} ({attempt}) switched from {was} to {becomes}."
                    yield from self._line(at + 40, "jm", logger, text)

    def _scrape(self, page: Page, second: int) -> MetricEvent:
        self._offset += 1
        time = START + second * 1000
        samples = [Sample(s.name, s.labels, value(second)) for s, value in page.samples]
        return MetricEvent(self.name, page.host, page.host, time + 200, time, "flink.metrics", 0, self._offset, samples)

    def _tm_page(self, n: int) -> Page:
        tm = self._tms[n].replace(".", "_").replace("-", "_")
        process = f'host="tm_{n}",tm_id="{tm}",'
        lines = [f"flink_taskmanager_Status_JVM_{m}{{{process}}} 1" for m in _PROCESS]
        lines += [f"flink_taskmanager_Status_JVM_GarbageCollector_{m}{{{process}}} 1" for m in _COLLECTORS]
        lines.append(f"flink_taskmanager_Status_JVM_GarbageCollector_All_TimeMsPerSecond{{{process}}} 1")
        taken = range(n * self._slots, min((n + 1) * self._slots, len(self._jobs) * self._parallelism))
        places = [divmod(slot, self._parallelism) for slot in taken]
        for metric in _TASK_METRICS:
            for j, i in places:
                for v in range(len(TASKS)):
                    lines.append(f"flink_taskmanager_job_task_{metric}{{{process}{self._task(j, v, i)}}} 1")
        for j, i in places:
            operator = f'{process}{self._task(j, 0, i)}operator_id="{j:032x}",operator_name="Source:_orders",'
            lines += [f"flink_taskmanager_job_task_operator_{m}{{{operator}}} 1" for m in _SOURCE_METRICS]
            split = f'{operator}topic="orders_{j}",partition="{i}",'
            reader = "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition"
            lines += [f"{reader}_{m}{{{split}}} 1" for m in _SPLIT_METRICS]
        return self._page(f"tm-{n}", lines)

    def _task(self, j: int, v: int, i: int) -> str:
        task = TASKS[v].replace(" ", "_")
        job = f'job_id="{self._jobs[j]}",job_name="orders_{j}",'
        return f'{job}task_id="{v:032x}",task_name="{task}",subtask_index="{i}",'

    def _jm_page(self) -> Page:
        lines = [f'flink_jobmanager_Status_JVM_{m}{{host="jm",}} 1' for m in _PROCESS]
        lines += [f'flink_jobmanager_{m}{{host="jm",}} {len(self._tms)}' for m in _CLUSTER_METRICS]
        for j, job in enumerate(self._jobs):
            labels = f'job_id="{job}",host="jm",job_name="orders_{j}",'
            lines += [f"flink_jobmanager_job_{m}{{{labels}}} 1" for m in _JOB_METRICS]
        return self._page("jm", lines)

    def _page(self, host: str, lines: list[str]) -> Page:
        samples = read_prometheus("\n".join(lines))
        second = self._chance.randrange(SCRAPE_EVERY_S)
        return Page(host, second, [(s, value_of(s.name, self._chance)) for s in samples])


_CLUSTER_METRICS = ("numRegisteredTaskManagers", "taskSlotsTotal")


_COUNTED = frozenset(
    ["records_in", "records_out", "operator_records_in", "operator_records_out", "current_offset", "committed_offset"]
)
_CONSTANT = {
    "heap_max": 1024 * _MB,
    "jm_heap_max": 1024 * _MB,
    "metaspace_used": 90 * _MB,
    "metaspace_max": 256 * _MB,
    "jm_metaspace_used": 90 * _MB,
    "jm_metaspace_max": 256 * _MB,
    "registered_task_managers": 50.0,
    "task_slots_total": 500.0,
}
_WAVES = {
    "busy_time": (300.0, 50.0),
    "last_checkpoint_duration": (800.0, 100.0),
    "last_checkpoint_size": (9.5e6, 1e5),
    "last_checkpoint_full_size": (9.5e6, 1e5),
}


def value_of(name: str, chance: random.Random) -> Value:
    """What a healthy process would show: counters that count, a heap that is collected, gauges that vary a little."""
    rate, phase = chance.uniform(50, 100), chance.uniform(0, 120)
    if name in _COUNTED:
        return lambda t: float(int(rate * t))
    if name in ("commits_succeeded", "completed_checkpoints"):
        return lambda t: float(int(t / CHECKPOINT_EVERY_S))
    if name in ("heap_used", "jm_heap_used"):
        return lambda t: (200 + 4 * ((t + phase) % 120)) * _MB
    if "gc_count" in name or "gc_time" in name:
        return lambda t: float(int((t + phase) / 120))
    if name in _WAVES:
        middle, swing = _WAVES[name]
        return lambda t: middle + swing * math.sin((t + phase) / 60)
    constant = _CONSTANT.get(name, 0.0)
    return lambda _: constant
