"""How often flinkwatch is wrong about jobs that run well: `python tests/bench/healthy_days.py [--days 7]`.

Simulates clusters over whole weeks, as events the reader would make of their records, and steps the engine through
them. Every warning or critical incident is a false alarm. What happens in the clusters, all of it normal:

- input with a day and a week in it, quiet nights, topics with a few records an hour (`healthy_job.py`)
- checkpoints that vary, some of them several times as long as usual; savepoints
- deployments: stop with a savepoint and start from it, also with another parallelism; cancel and submit again
- a task that fails once and recovers; the backlog that is worked off after each of these
- TaskManagers that are replaced one by one; garbage collections of G1 and of the parallel collector
- scrapes that fail, a collector that restarts, log shippers that are late or send the last lines again

The last line is JSON. The exit code is 1 above the goal: no critical incident, one warning in 50 job-days.
"""

import argparse
import gc
import heapq
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import NamedTuple

from detectors.engine import bucket
from detectors.events.event import Event, LogEvent, MetricEvent, Record, Rejected, Sample
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import SEVERITIES
from detectors.settings.live import LiveSettings, publish
from streaming.configuration.known_issues import shipped
from streaming.recordings.replay import MemoryStore
from tests.bench.healthy_job import DAY_S, PARTITIONS, PROFILES, START, TASKS, Job, Subtask

READER = Reader(Identity(), frozenset({"flink.metrics"}))
HOUR_S = 3_600
SLOTS = 4
CLUSTERS = ((60, 24), (30, 4), (15, 2))
"""Seconds between two scrapes, and jobs, of each cluster: 30 jobs in sum, so that a week has 210 job-days."""
JOB_DAYS_A_WARNING = 50

_RUNTIME = "org.apache.flink.runtime"
_GRAPH = "executiongraph.ExecutionGraph"
_COORDINATOR = "checkpoint.CheckpointCoordinator"
_CHECKPOINT = "CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD}"
_SAVEPOINT = "SavepointType{name='Savepoint', postCheckpointAction=NONE, formatType=CANONICAL}"
_SUSPEND = "SavepointType{name='Suspend Savepoint', postCheckpointAction=SUSPEND, formatType=CANONICAL}"
_MB = 2.0**20
_TASK = (
    *("records_in", "records_out", "busy_time", "backpressured_time", "is_backpressured"),
    *("in_pool_usage", "input_queue_length", "input_watermark"),
)
_SOURCE = (
    *("operator_records_in", "operator_records_out", "pending_records", "output_watermark", "event_time_lag"),
    *("source_idle_time", "records_lag_max", "commits_succeeded", "commits_failed", "kafka_connections"),
)
_WINDOW = ("late_records",)
_SINK = ("records_sent", "records_out_errors", "records_send_errors", "kafka_connections")
_OPERATORS = (_SOURCE, _WINDOW, _SINK)
_JOB = (
    *("restarts", "full_restarts", "completed_checkpoints", "failed_checkpoints", "checkpoints_in_progress"),
    *("last_checkpoint_duration", "last_checkpoint_size", "last_checkpoint_full_size"),
)
_PROCESS = ("heap_used", "heap_max", "metaspace_used", "metaspace_max", "gc_time_per_second")

Series = tuple[str, dict[str, str], object, str]
"""A sample's name and labels, and the object and the attribute with its value."""


class Process:
    """The JVM of a TaskManager or the JobManager."""

    def __init__(self, tm: str, host: str, *, parallel: bool, chance: random.Random) -> None:
        self.tm, self.host, self.tm_label = tm, host, tm.replace(".", "_").replace("-", "_")
        self._chance, self._parallel = chance, parallel
        self._young_s = chance.uniform(40, 200)
        self._phase = chance.uniform(0, 1)
        self._old = 0.0
        self.heap_max, self.metaspace_max = 1_536 * _MB, 256 * _MB
        self.heap_used, self.metaspace_used = 300 * _MB, 80 * _MB
        self.gc_time_per_second = 4.0
        self.young_count = self.young_time = self.old_count = self.old_time = 0.0

    def tick(self, duration: float, load: float, deployments: int) -> None:
        """The heap fills with garbage by the load, and is collected."""
        self._phase += duration / self._young_s * (0.2 + load)
        young, self._phase = int(self._phase), self._phase % 1
        self.young_count += young
        self.young_time += young * 25
        if self._parallel:
            self._old += 0.004 * young
            if self._old > self._chance.uniform(0.25, 0.3):
                self._old, self.old_count, self.old_time = 0.0, self.old_count + 1, self.old_time + 320
        floor = 0.18 + 0.12 * load + self._old
        self.heap_used = (floor + 0.25 * self._phase) * self.heap_max
        # Classes of jobs that have ended are unloaded a few deployments later.
        self.metaspace_used = (80 + 6 * (deployments % 7)) * _MB
        self.gc_time_per_second = 25.0 * young / duration

    def collectors(self) -> tuple[tuple[str, str, str], ...]:
        """(collector, attribute of its count, attribute of its time)."""
        young, old = ("PS_Scavenge", "PS_MarkSweep") if self._parallel else ("G1_Young_Generation", "G1_Old_Generation")
        return (young, "young_count", "young_time"), (old, "old_count", "old_time")


class Registered:
    """What a JobManager measures of its cluster."""

    registered_task_managers = task_slots_total = task_slots_available = 0.0


class Cluster:
    """A session cluster with jobs that run well; `events` gives what happens, in stretches of a scrape's interval."""

    def __init__(self, name: str, jobs: int, every_s: int, seed: int) -> None:
        self.name, self.every_s = name, every_s
        self._chance = chance = random.Random(f"{seed} {name}")
        self._parallel = chance.random() < 0.5
        self.jobs = [Job(PROFILES[n % len(PROFILES)], chance.choice((1, 1, 2)), chance) for n in range(jobs)]
        slots = sum(max(4, j.parallelism) for j in self.jobs)
        self._tms = [self._new_tm(n) for n in range(slots // SLOTS + 2)]
        self._jm = Process("", "jm", parallel=self._parallel, chance=chance)
        self._registered = Registered()
        self._todo: list[tuple[int, int, Callable[[int], None]]] = []
        self._order, self._offset = count(), count()
        self._found: list[Event] = []
        self._sent: list[LogEvent] = []
        self._late: dict[str, int] = {}
        self._pages: dict[str, list[Series]] = {}
        self._gaps: list[tuple[float, float]] = []

    def events(self, days: float) -> Iterator[tuple[int, list[Event]]]:
        """(clock, events in order of arrival) of each stretch."""
        self._begin()
        step = self.every_s
        for second in range(step, int(days * DAY_S) + 1, step):
            now = 1_000 * second
            while self._todo and self._todo[0][0] <= now:
                at, _, act = heapq.heappop(self._todo)
                act(at)
            for job in self.jobs:
                job.tick(second, step)
            load = sum(j.load for j in self.jobs) / len(self.jobs)
            deployed = sum(j.deployment for j in self.jobs)
            for process in (*self._tms, self._jm):
                process.tick(step, load, deployed)
            if not any(begin <= second < end for begin, end in self._gaps):
                self._scrape(second)
            clock = START + now
            taken = sorted((e for e in self._found if e.timestamp <= clock), key=lambda e: e.timestamp)
            self._found = [e for e in self._found if e.timestamp > clock]
            yield clock, taken

    def _at(self, at: float, act: Callable[[int], None]) -> None:
        heapq.heappush(self._todo, (round(at), next(self._order), act))

    def _begin(self) -> None:
        for tm in self._tms:
            self._start_tm(0, tm)
        for job in self.jobs:
            self._at(self._chance.uniform(1_000, 60_000), partial(self._submit, job, job.parallelism, False))
            self._at(self._chance.uniform(4, 40) * HOUR_S * 1_000, partial(self._change, job))
        self._at(self._chance.uniform(30, 100) * HOUR_S * 1_000, partial(self._replace, 0))
        self._at(self._chance.uniform(5, 20) * HOUR_S * 1_000, self._lose_scrapes)
        self._at(self._chance.uniform(1, 3) * HOUR_S * 1_000, self._rotate)

    # What happens to jobs

    def _submit(self, job: Job, parallelism: int, restored: bool, at: int) -> None:
        savepoint = f"s3://flink/savepoints/savepoint-{job.id[:6]}-{self._chance.getrandbits(48):012x}"
        job.start(parallelism, restored=restored)
        self._line(at, "jm", "jobmaster.JobMaster", f"Initializing job '{job.name}' ({job.id}).")
        text = (
            f"Starting job {job.id} from savepoint {savepoint} ()"
            if restored
            else "No checkpoint found during restore."
        )
        self._line(at + 80, "jm", _COORDINATOR, text)
        self._line(at + 100, "jm", _GRAPH, f"Job {job.name} ({job.id}) switched from state CREATED to RUNNING.")
        self._deploy(at + 120, job)
        self._pages.clear()
        self._at(
            at + self._chance.uniform(0.2, 1) * 1_000 * job.profile.every_s, partial(self._trigger, job, job.id, 0)
        )

    def _change(self, job: Job, at: int) -> None:
        """One of the things that happen to a job every few days."""
        self._at(at + self._chance.uniform(6, 60) * HOUR_S * 1_000, partial(self._change, job))
        if not job.runs:
            return
        chosen = self._chance.choice((self._redeploy, self._redeploy, self._resubmit, self._savepoint, self._fail))
        chosen(job, at)

    def _redeploy(self, job: Job, at: int) -> None:
        """Stop with a savepoint, and start from it, now and then with another parallelism."""
        took = 2 * job.took()
        self._line(at, "jm", "jobmaster.JobMaster", f"Triggering stop-with-savepoint for job {job.id}.")
        self._snapshot(at + 20, job, took, _SUSPEND)
        ended = at + took + 200
        self._tasks(ended - 100, job, ("RUNNING", "FINISHED"))
        self._ended(ended, job, "RUNNING", "FINISHED")
        parallelism = self._chance.choice((job.parallelism, job.parallelism, 1, 2, 3))
        again = ended + self._chance.uniform(3, 150) * 1_000
        self._at(ended, partial(self._stopped, job, job.id))
        self._at(again, partial(self._submit, job, parallelism, True))

    def _resubmit(self, job: Job, at: int) -> None:
        """Cancel, and submit again from the start of the topic's new records."""
        self._line(at, "jm", _GRAPH, f"Job {job.name} ({job.id}) switched from state RUNNING to CANCELLING.")
        self._tasks(at + 20, job, ("RUNNING", "CANCELING"), ("CANCELING", "CANCELED"))
        self._ended(at + 120, job, "CANCELLING", "CANCELED")
        self._stopped(job, job.id, at)
        self._at(at + self._chance.uniform(10, 400) * 1_000, partial(self._submit, job, job.parallelism, False))

    def _savepoint(self, job: Job, at: int) -> None:
        self._line(at, "jm", "jobmaster.JobMaster", f"Triggering savepoint for job {job.id}.")
        self._snapshot(at + 20, job, 4 * job.took(), _SAVEPOINT)

    def _fail(self, job: Job, at: int) -> None:
        """A task fails once."""
        which, attempt = f"{TASKS[1]} (1/{job.parallelism})", self._attempt(job, 1, 0)
        place = self._place(job, 0)
        text = f"{which} ({attempt}) switched from RUNNING to FAILED on {place.tm} @ {place.host} (dataPort=41002)."
        self._line(at, "jm", _GRAPH, text)
        self._text(at, "jm", "java.net.SocketTimeoutException: Read timed out")
        self._text(at, "jm", "\tat com.example.orders.Rates.lookup(Rates.java:71) ~[?:?]")
        self._restart(at + 10, job, attempt, self._chance.uniform(1, 20))

    def _restart(self, at: int, job: Job, failed: str, after_s: float) -> None:
        tasks = len(TASKS) * job.parallelism
        text = f"{tasks} tasks will be restarted to recover the failed task {failed}."
        self._line(at, "jm", "jobmaster.JobMaster", text)
        self._line(at + 1, "jm", _GRAPH, f"Job {job.name} ({job.id}) switched from state RUNNING to RESTARTING.")
        self._tasks(at + 2, job, ("RUNNING", "CANCELING"), ("CANCELING", "CANCELED"))
        self._stopped(job, job.id, at)
        self._at(at + 1_000 * after_s, partial(self._recovered, job, job.id))

    def _recovered(self, job: Job, job_id: str, at: int) -> None:
        if job.id != job_id or job.runs:
            return
        job.recover()
        self._line(at, "jm", _GRAPH, f"Job {job.name} ({job.id}) switched from state RESTARTING to RUNNING.")
        where = f"located at s3://flink/checkpoints/{job.id}/chk-{job.number}"
        text = f"Restoring job {job.id} from Checkpoint {job.number} @ {START + at} for {job.id} {where}."
        self._line(at + 1, "jm", _COORDINATOR, text)
        self._deploy(at + 20, job)
        self._pages.clear()
        later = 1_000 * job.profile.every_s
        self._at(at + later, partial(self._trigger, job, job.id, job.attempt))

    def _stopped(self, job: Job, job_id: str, _: int) -> None:
        if job.id == job_id:
            job.stop()
            self._pages.clear()

    def _ended(self, at: int, job: Job, before: str, state: str) -> None:
        self._line(at, "jm", _GRAPH, f"Job {job.name} ({job.id}) switched from state {before} to {state}.")
        self._line(at, "jm", _COORDINATOR, f"Stopping checkpoint coordinator for job {job.id}.")
        self._line(at + 5, "jm", "dispatcher.StandaloneDispatcher", f"Job {job.id} reached terminal state {state}.")

    # Checkpoints

    def _trigger(self, job: Job, job_id: str, attempt: int, at: int) -> None:
        if job.id != job_id or job.attempt != attempt or not job.runs:
            return
        took = job.took()
        self._snapshot(at, job, took, _CHECKPOINT)
        after = max(1_000 * job.profile.every_s, took)
        self._at(at + after, partial(self._trigger, job, job_id, attempt))

    def _snapshot(self, at: int, job: Job, took: int, kind: str) -> None:
        job.number += 1
        job.checkpoints_in_progress = 1.0
        text = f"Triggering checkpoint {job.number} (type={kind}) @ {START + at} for job {job.id}."
        self._line(at, "jm", _COORDINATOR, text)
        self._at(at + took, partial(self._completed, job, job.id, job.attempt, job.number, took))

    def _completed(self, job: Job, job_id: str, attempt: int, number: int, took: int, at: int) -> None:
        if job.id != job_id or job.attempt != attempt or not job.runs:
            return
        job.completed(took)
        done = f"({job.last_checkpoint_size:.0f} bytes, checkpointDuration={took} ms, finalizationTime=3 ms)."
        self._line(at, "jm", _COORDINATOR, f"Completed checkpoint {number} for job {job.id} {done}")

    # Tasks and TaskManagers

    def _attempt(self, job: Job, vertex: int, index: int) -> str:
        return f"{job.id}_{vertex:032x}_{index}_{job.attempt}"

    def _place(self, job: Job, index: int) -> Process:
        slot = SLOTS * self.jobs.index(job) + index
        return self._tms[slot // SLOTS % len(self._tms)]

    def _deploy(self, at: int, job: Job) -> None:
        for v, task in enumerate(TASKS):
            for i in range(job.parallelism):
                which, attempt, place = (
                    f"{task} ({i + 1}/{job.parallelism})",
                    self._attempt(job, v, i),
                    self._place(job, i),
                )
                text = (
                    f"Deploying {which} (attempt #{job.attempt}) with attempt id {attempt} and vertex id {v:032x}_{i} "
                    f"to {place.tm} @ {place.host} (dataPort=41002) with allocation id {job.id}"
                )
                self._line(at, "jm", _GRAPH, text)
        changes = ("SCHEDULED", "DEPLOYING"), ("DEPLOYING", "INITIALIZING"), ("INITIALIZING", "RUNNING")
        self._tasks(at + 30, job, *changes)

    def _tasks(self, at: int, job: Job, *changes: tuple[str, str]) -> None:
        for v, task in enumerate(TASKS):
            for i in range(job.parallelism):
                which = f"{task} ({i + 1}/{job.parallelism}) ({self._attempt(job, v, i)})"
                for was, becomes in changes:
                    self._line(at, "jm", _GRAPH, f"{which} switched from {was} to {becomes}.")

    def _new_tm(self, number: int) -> Process:
        host = f"tm-{number}"
        tm = f"{host}:41001-{self._chance.getrandbits(24):06x}"
        return Process(tm, host, parallel=self._parallel, chance=self._chance)

    def _start_tm(self, at: int, tm: Process) -> None:
        self._line(at, tm.host, "taskexecutor.TaskManagerRunner", f"Starting TaskManager with ResourceID: {tm.tm}")
        address = f"pekko.tcp://flink@{tm.host}:41001/user/rpc/taskmanager_0"
        text = f"Registering TaskManager with ResourceID {tm.tm} ({address}) at ResourceManager"
        self._line(at + 900, "jm", "resourcemanager.StandaloneResourceManager", text)

    def _replace(self, number: int, at: int) -> None:
        """One TaskManager after the other is stopped and started again; its jobs restart elsewhere meanwhile."""
        old, why = self._tms[number], "because: The TaskExecutor is shutting down."
        text = "RECEIVED SIGNAL 15: SIGTERM. Shutting down as requested."
        self._line(at, old.host, "taskexecutor.TaskManagerRunner", text)
        closing = f"Closing TaskExecutor connection {old.tm} {why}"
        self._line(at + 15, "jm", "resourcemanager.StandaloneResourceManager", closing)
        hit = [j for j in self.jobs if j.runs and any(self._place(j, i) is old for i in range(j.parallelism))]
        for job in hit:
            attempt = self._attempt(job, 1, 0)
            which = f"{TASKS[1]} (1/{job.parallelism}) ({attempt})"
            text = f"{which} switched from RUNNING to FAILED on {old.tm} @ {old.host} (dataPort=41002)."
            self._line(at + 20, "jm", _GRAPH, text)
            self._text(
                at + 20, "jm", "org.apache.flink.util.FlinkExpectedException: The TaskExecutor is shutting down."
            )
            self._restart(at + 30, job, attempt, 3)
            self._line(at + 40, "jm", "jobmaster.JobMaster", f"Disconnect TaskExecutor {old.tm} {why}")
        self._tms[number] = self._new_tm(number)
        self._pages.clear()
        self._start_tm(at + 1_500, self._tms[number])
        last = number + 1 == len(self._tms)
        later = self._chance.uniform(60, 140) * HOUR_S if last else self._chance.uniform(60, 240)
        self._at(at + 1_000 * later, partial(self._replace, 0 if last else number + 1))

    # What the collectors do

    def _lose_scrapes(self, at: int) -> None:
        """No scrape arrives for up to a minute, since the agent restarts."""
        self._gaps = [(at / 1_000, at / 1_000 + self._chance.uniform(20, 60))]
        self._at(at + self._chance.uniform(8, 40) * HOUR_S * 1_000, self._lose_scrapes)

    def _rotate(self, at: int) -> None:
        """The shipper pauses for up to 20 s, then sends the last lines again."""
        delay = self._chance.randrange(1_000, 20_000)
        host = self._chance.choice(["jm", *(tm.host for tm in self._tms)])
        self._late[host] = START + at + delay
        for line in self._sent[-5:]:
            if line.host == host:
                again = START + at + delay
                self._found.append(_moved(line, again, next(self._offset)))
        self._at(at + self._chance.uniform(1, 4) * HOUR_S * 1_000, self._rotate)

    def _line(self, at: float, host: str, logger: str, message: str) -> None:
        printed = datetime.fromtimestamp((START + at) // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self._text(at, host, f"{printed},{int(at) % 1_000:03d} INFO  {_RUNTIME}.{logger:<45} [] - {message}")

    def _text(self, at: float, host: str, text: str) -> None:
        arrives = max(START + int(at) + 200, self._late.get(host, 0))
        headers = (("cluster", self.name.encode()), ("host", host.encode()), ("file", f"{host}.log".encode()))
        found = READER.read(Record("flink.logs", 0, next(self._offset), arrives, None, text.encode(), headers))
        assert not isinstance(found, Rejected), found
        self._found += found
        self._sent = [*self._sent[-4:], *(e for e in found if isinstance(e, LogEvent))]

    def _scrape(self, second: int) -> None:
        if not self._pages:
            self._make_pages()
        hosts = [*(tm.host for tm in self._tms), "jm"]
        self._registered.registered_task_managers = float(len(self._tms))
        self._registered.task_slots_total = float(SLOTS * len(self._tms))
        taken = sum(j.parallelism for j in self.jobs if j.runs)
        self._registered.task_slots_available = max(0.0, SLOTS * len(self._tms) - taken)
        for n, host in enumerate(hosts):
            if self._chance.random() < 0.003:
                continue
            # Targets are scraped one after the other, within a second.
            time_ms = START + 1_000 * second - 1_000 + 60 * n
            samples = [Sample(name, labels, getattr(of, field)) for name, labels, of, field in self._pages[host]]
            where = ("flink.metrics", 0, next(self._offset))
            self._found.append(MetricEvent(self.name, host, host, time_ms + 200, time_ms, *where, samples))

    def _make_pages(self) -> None:
        for tm in self._tms:
            own = {"host": tm.host.replace("-", "_"), "tm_id": tm.tm_label}
            page: list[Series] = [(name, own, tm, name) for name in _PROCESS]
            for collector, number, spent in tm.collectors():
                labels = {**own, "collector": collector}
                page += [("gc_count", labels, tm, number), ("gc_time", labels, tm, spent)]
            for job in self.jobs:
                if job.runs:
                    for one in job.subtasks:
                        if self._place(job, one.index) is tm:
                            page += _series(job, one, own)
            self._pages[tm.host] = page
        jm = {"host": "jm"}
        page = [(f"jm_{name}", jm, self._jm, name) for name in _PROCESS[:4]]
        names = ("registered_task_managers", "task_slots_total", "task_slots_available")
        page += [(name, jm, self._registered, name) for name in names]
        for job in self.jobs:
            if job.runs:
                labels = {**jm, "job_id": job.id, "job_name": job.name.replace("-", "_")}
                page += [(name, labels, job, name) for name in _JOB]
        self._pages["jm"] = page


def _series(job: Job, one: Subtask, own: dict[str, str]) -> Iterator[Series]:
    """The samples of a subtask."""
    labels = {
        **own,
        "job_id": job.id,
        "job_name": job.name.replace("-", "_"),
        "task_id": f"{one.vertex:032x}",
        "task_name": TASKS[one.vertex].replace(" ", "_"),
        "subtask_index": str(one.index),
    }
    for name in _TASK:
        if name != "input_watermark" or (job.profile.timed and one.vertex):
            yield name, labels, one, name
    operator = {**labels, "operator_id": f"{one.vertex:032x}", "operator_name": labels["task_name"]}
    for name in _OPERATORS[one.vertex]:
        if job.profile.timed or name not in ("output_watermark", "event_time_lag"):
            yield name, operator, one, name
    if one.vertex == 0:
        for partition in range(one.index, PARTITIONS, job.parallelism):
            split = {**operator, "topic": job.profile.name, "partition": str(partition)}
            yield "current_offset", split, one, "offset"
            yield "committed_offset", split, one, "committed_offset"


def _moved(line: LogEvent, arrives: int, offset: int) -> LogEvent:
    """The same line, sent again."""
    moved = line.__copy__()
    moved.timestamp, moved.offset = arrives, offset
    return moved


class Result(NamedTuple):
    """What one cluster cost: its incidents by worst severity, job-days, CPU time, events."""

    incidents: Counter[str]
    job_days: float
    cpu_s: float
    events: int


def run(cluster: Cluster, days: float, minutes: float) -> Result:
    """Step the engine through the cluster's days, for so many minutes at most, and print each false alarm."""
    index, store = bucket.BucketIndex(published=publish(LiveSettings(), 0, "healthy")), MemoryStore()
    worst: dict[str, int] = {}
    began, events, clock = time.process_time(), 0, START
    limit = time.monotonic() + 60 * minutes
    for clock, taken in cluster.events(days):
        output = bucket.step(index, store, taken, clock, shipped())
        if output.defects:
            raise SystemExit(f"defect: {output.defects[0]}")
        for one in output.transitions:
            rank = SEVERITIES.index(one.severity)
            if rank > worst.get(one.incident, 0):
                at = datetime.fromtimestamp(one.at / 1_000, UTC)
                print(f"  {cluster.name} {at:%a %H:%M:%S} {one.severity} {one.cause}: {one.summary}", flush=True)
            worst[one.incident] = max(rank, worst.get(one.incident, 0))
        events += len(taken)
        if time.monotonic() > limit:
            break
    reached = (clock - START) / (1_000 * DAY_S)
    counted = Counter(SEVERITIES[rank] for rank in worst.values())
    return Result(counted, len(cluster.jobs) * reached, time.process_time() - began, events)


def main() -> int:
    """Simulate, step, print; 1 if there are more false alarms than the goal allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0, help="days of each cluster; the first is a Monday")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop each cluster after so many minutes")
    parser.add_argument("--cluster", type=int, choices=range(len(CLUSTERS)), help="only this cluster")
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other clusters")
    options = parser.parse_args()
    # As in the job's workers: the collector rests while a batch is worked on.
    gc.disable()
    incidents: Counter[str] = Counter()
    job_days = cpu_s = 0.0
    for n, (every_s, jobs) in enumerate(CLUSTERS):
        if options.cluster in (None, n):
            found = run(Cluster(f"cluster-{n}", jobs, every_s, options.seed), options.days, options.minutes)
            incidents, job_days, cpu_s = incidents + found.incidents, job_days + found.job_days, cpu_s + found.cpu_s
            print(
                f"cluster-{n}: {jobs} jobs, a scrape each {every_s} s, {found.job_days:.1f} job-days, "
                f"{found.events:,} events, {found.cpu_s:.0f} CPU-s",
                flush=True,
            )
    warnings = incidents["warning"]
    figures = {
        "job_days": round(job_days, 1),
        **{severity: incidents[severity] for severity in SEVERITIES},
        "job_days_a_warning": round(job_days / warnings, 1) if warnings else None,
        "cpu_s": round(cpu_s),
    }
    print(json.dumps(figures))
    return int(incidents["critical"] > 0 or warnings * JOB_DAYS_A_WARNING > job_days)


if __name__ == "__main__":
    sys.exit(main())
