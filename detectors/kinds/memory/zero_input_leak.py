"""A job without input keeps more and more memory: by FLINK-33231, or by any leak that raises the floor of the heap.

By commits: `KafkaSourceReader` keeps the offsets of each checkpoint until their commit is acknowledged. If nothing has
been read since the start there is nothing to commit, and connectors before 3.0.1 (Flink 1.13 to 1.17) then never free
the offsets. Opens when `min_checkpoints` completed while the commit counters of a reader that owns a split did not
change, neither succeeded nor failed, and its current and committed offsets were -1. A fixed connector commits the start
offset at each checkpoint. Readers without a split never commit, and readers that have read a record since their start
do not leak: neither count. Nor does a job that does not commit (`Offset commit on checkpoint is disabled`), nor Flink ≥
1.18, whose connectors are all fixed. Resolved when a reader commits or reads, or when the job ends.

By memory: opens when the floor of a TaskManager's heap (`heap_floor`) rises although almost nothing is read: each
record would have to leave `bytes_per_record` behind. State that grows with its input does not count, nor does the first
`warm_up` of a process. Without the first sign, garbage must not explain the rise (`heap_floor` says when). Resolved
when three cycles undo half of the rise. One sign is a warning; both, or less than `critical_within` left, is critical.

Why it matters: the container is killed days later, at a quiet hour, and again after the same time. `heap_exhaustion`
takes over once the heap is full, `memory_limit_kill` reports the kill itself.

Reference: FLINK-33231; post-mortem 001. Measured: 112 bytes for each checkpoint and reader.
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.flink import facts
from detectors.flink.memory.heap_floor import HeapFloorRise
from detectors.flink.memory.heap_usage import HeapUsage, HeapUsages
from detectors.flink.offset_commits import COMMIT_METRICS, CommittingJob, OffsetCommits, affected
from detectors.incident import Evidence, Finding, Forecast, Reading, Severity
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize
from detectors.values.sizes import mib

_MAX_OPEN = 100

_View: TypeAlias = "View[ZeroInputLeak.Config, ZeroInputLeak.State]"


class OpenLeak(msgspec.Struct, array_like=True):
    """An open finding.

    From memory: the TaskManager `tm`, `full` when its heap will be full (0: its process is gone), `base` the floor it
    rose from and `top` the one it reached. From commits: the number of leaking `readers`, and `flat`, the number of
    checkpoints without a commit.
    """

    since: int
    severity: Severity
    records: list[Evidence]
    tm: str = ""
    full: int = 0
    base: float = 0.0
    top: float = 0.0
    readers: int = 0
    flat: int = 0


class ZeroInputLeak(Detector):
    """Detects memory that grows although the job reads nothing."""

    kind = "zero_input_leak"
    belongs_to = "job"
    per_job = True

    class Config(DetectorConfig):
        """Settings of the detector `zero_input_leak`."""

        min_checkpoints: int = threshold(
            10,
            "Number of completed checkpoints without a commit from which a reader counts as leaking. Single commits "
            "may be skipped while another one is in progress.",
            ge=2,
        )
        min_flat: Duration = threshold(
            60_000,
            "Minimum time without a commit before a finding opens. `min_checkpoints` must have completed in it too. A"
            " commit may take the Kafka client's default.api.timeout.ms of 60 s.",
        )
        warm_up: Duration = threshold(
            600_000,
            "Age of a process before which its heap is not judged, because classes, caches and buffers fill it at "
            "first.",
        )
        min_cycles: int = threshold(
            6, "Minimum number of heap floor points (one for each GC cycle). With fewer no rise is significant.", ge=6
        )
        significance: float = threshold(
            0.01, "Significance level (p-value) of the Mann-Kendall test for a rising heap floor.", gt=0, lt=0.1
        )
        min_rise: float = threshold(
            0.05, "Share of Heap.Max by which the heap floor must have risen. Smaller rises may be noise.", gt=0, lt=1
        )
        bytes_per_record: int = threshold(
            65_536,
            "Growth of the heap floor in bytes for each record read above which the input does not explain it.",
            ge=1,
        )
        critical_within: Duration = threshold(86_400_000, "Time to a full heap below which the finding is critical.")
        horizon: Duration = threshold(
            1_209_600_000, "Time within which the heap must become full for a finding from memory alone."
        )

    class State(msgspec.Struct, array_like=True):
        """`open` holds findings by job id, or by TaskManager if no job is known."""

        heaps: HeapUsages = msgspec.field(default_factory=HeapUsages)
        commits: OffsetCommits = msgspec.field(default_factory=OffsetCommits)
        open: dict[str, OpenLeak] = {}

    config: Config

    @on(facts.CheckpointCompleted)
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        view.state.commits.completed_line(view.job, fact.number, view.time)

    @on(facts.OffsetsNotCommitted)
    def not_committed(self, view: _View, fact: facts.OffsetsNotCommitted) -> None:
        tm, _ = view.topology.tm_of(view.line)
        view.state.commits.refused(filtered(tm), fact.how == "disabled", view.time)

    @on(facts.ProcessStarted)
    def process_started(self, view: _View, _: facts.ProcessStarted) -> None:
        view.state.commits.begun(filtered(view.topology.tm_of(view.line)[0]))

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        if fact.ended:
            view.state.commits.forget(fact.job)
            if fact.job in view.state.open:
                self._close(view, fact.job, f"the job is {fact.state}")

    @on("heap_used", "heap_max", "gc_count", "records_in", "records_out", *COMMIT_METRICS)
    def measured(self, view: _View, samples: list[Sample]) -> None:
        commits, ended = view.state.commits, dict[str, HeapUsage]()
        per_record = self.config_of("").bytes_per_record
        for sample in samples:
            if not commits.measure(sample, view.time):
                tm = sample.labels.get("tm_id") or filtered(view.event.host)
                heap = view.state.heaps.measure(tm, sample, view.time, per_record)
                if heap is not None:
                    ended[tm] = heap
        for job in commits.changed():
            # One scrape may hold more jobs than are kept.
            if job in commits.jobs:
                self._judge_commits(view, job)
        for tm, heap in ended.items():
            self._judge_heap(view, tm, heap)

    def readings(self, view: _View) -> Iterator[Reading]:
        """The floor of each heap, when it will be full, and checkpoints without a commit per job."""
        state, names = view.state, view.topology.tms_by_label()
        for tm, heap in state.heaps.by_tm.items():
            floor = heap.floor.floor()
            if floor is not None:
                seen = min(heap.floor.started + heap.floor.seen, view.clock)
                yield view.reading("heap_floor_bytes", floor, seen, tm=names.get(filtered(tm), tm))
        for leak in state.open.values():
            if leak.full:
                tm = view.topology.tm_of_label(leak.tm)
                yield view.reading("heap_full_timestamp_seconds", leak.full / 1000, tm=tm)
        for job, known in state.commits.jobs.items():
            flat = known.flat()
            if flat is not None:
                yield view.reading("checkpoints_since_commit", flat, job=view.topology.job_name(job) or job)

    def _judge_commits(self, view: _View, job: str) -> None:
        """Judge the commits of one job."""
        state, config = view.state, self.config_of(job)
        leak, known = state.open.get(job), state.commits.jobs[job]
        leaking = state.commits.leaking(job, config.min_checkpoints, config.min_flat)
        if leak is not None:
            cure = state.commits.cured(job)
            if cure and not leaking:
                self._close(view, job, cure)
                return
            over = leak.full > 0 and leak.tm not in known.on(known.readers.values())
            if len(leaking) > leak.readers or over:
                leak.readers = max(leak.readers, len(leaking))
                leak.full = 0 if over else leak.full
                view.report(self._finding(view, job, leak))
        elif leaking and affected(view.topology.version):
            record = view.record(f"commitsSucceeded unchanged for {leaking[0].flat} completed checkpoints, offsets -1")
            leak = OpenLeak(known.begun + min(r.since for r in leaking), "warning", [record], readers=len(leaking))
            for tm in known.on(leaking) & state.heaps.by_tm.keys():
                rise = self._rise(state.heaps.by_tm[tm], job)
                if rise is not None:
                    self._grow(leak, config, tm, rise, view.time)
            put_bounded(state.open, job, leak, _MAX_OPEN)
            view.report(self._finding(view, job, leak))

    def _rise(self, heap: HeapUsage, job: str) -> HeapFloorRise | None:
        """A rise of the floor that the input does not explain. Without leaking readers (no `job`) it must be proven."""
        config = self.config_of(job)
        if not heap.counters:
            return None
        rise = heap.floor.rise(config.warm_up, config.min_cycles, config.significance, config.min_rise)
        if rise is None or heap.read * config.bytes_per_record > rise.last - rise.first:
            return None
        soon = rise.full.at - heap.floor.now() <= config.horizon
        return rise if job or (rise.proven and soon and not heap.overlooked) else None

    def _judge_heap(self, view: _View, tm: str, heap: HeapUsage) -> None:
        """Judge the heap of a TaskManager after a GC cycle has ended."""
        state, jobs = view.state, view.state.commits.jobs
        job = next((j for j in state.open if j in jobs and tm in jobs[j].on(jobs[j].readers.values())), "")
        subject = job or view.topology.tm_of_label(tm)
        leak, rise, floor = state.open.get(subject), self._rise(heap, job), heap.floor.floor()
        if rise is None:
            if leak is not None and not job and floor is not None and heap.floor.fell_back(leak.base, leak.top):
                self._close(view, subject, f"the heap floor is back at {mib(floor)}")
            return
        if leak is None:
            text = f"Heap.Used {mib(heap.floor.used)}, heap floor {mib(rise.last)}, before {mib(rise.first)}"
            leak = OpenLeak(rise.since, "warning", [view.record(text)])
            put_bounded(state.open, subject, leak, _MAX_OPEN)
        before, moved = leak.severity, abs(rise.full.at - leak.full) > (leak.full - view.time) / 3
        unchanged = leak.tm == tm and not moved
        self._grow(leak, self.config_of(job), tm, rise, view.time, both=bool(job))
        if leak.severity != before or not unchanged:
            view.report(self._finding(view, subject, leak))

    def _grow(self, leak: OpenLeak, config: Config, tm: str, rise: HeapFloorRise, time: int, both: bool = True) -> None:
        """Update the finding from a rise. Its severity never falls while it is open."""
        base = min(leak.base, rise.first) if leak.tm == tm else rise.first
        leak.tm, leak.full, leak.base, leak.top = tm, rise.full.at, base, rise.last
        if both or rise.full.at - time <= config.critical_within:
            leak.severity = "critical"

    def _close(self, view: _View, subject: str, why: str) -> None:
        view.close(self._finding(view, subject, view.state.open.pop(subject)), why)

    def _finding(self, view: _View, subject: str, leak: OpenLeak) -> Finding:
        state, topology = view.state, view.topology
        known = state.commits.jobs.get(subject) or CommittingJob(0)
        readers = known.leaking()
        heap = state.heaps.by_tm.get(leak.tm)
        rise = self._rise(heap, subject if readers else "") if heap is not None and leak.full else None
        tms = known.on(readers) | ({leak.tm} if leak.tm else set())
        tm = topology.tm_of_label(leak.tm or (next(iter(tms)) if len(tms) == 1 else ""))
        job = subject if readers or subject in topology.jobs else ""
        name = topology.job_name(job)
        leak.flat = max([leak.flat, *(r.flat for r in readers)])
        commits = self._commits_text(len(readers), known.read_by(readers), leak.flat, name or job) if job else ""
        memory = self._memory_text(tm, rise) if rise is not None else ""
        if leak.top and not memory:
            memory = f"the heap of {tm} after garbage collection rose from {mib(leak.base)} to {mib(leak.top)}"
        return view.finding(
            subject,
            {
                "job_id": job,
                "job_name": name,
                "tm_id": tm,
                "host": topology.host_of(tm),
                "operator": known.operators[readers[0].operator].partition(" ")[2] if readers else "",
                "topic": known.read_by(readers),
            },
            since=leak.since,
            severity=leak.severity,
            summary="; ".join(s for s in (commits, memory) if s) or f"the heap of {tm or 'a TaskManager'} leaked",
            confidence="sure" if commits and memory else "fair",
            evidence=leak.records,
            forecast=Forecast(f"the heap of {tm} is full", *rise.full) if rise is not None else None,
            series=heap.floor.chart(rise) if heap is not None and rise is not None else None,
            advice=keep_state(job) + (_ADVICE_COMMITS if job else _ADVICE_MEMORY),
        )

    def _commits_text(self, count: int, topics: str, flat: int, job: str) -> str:
        if not count:
            return f"Kafka readers of job {job} kept the offsets of every checkpoint (FLINK-33231)"
        return (
            f"{count} Kafka reader{'s' * (count > 1)} of {topics or 'a topic'} in job {job} keep{'s' * (count == 1)} "
            f"the offsets of every checkpoint in memory (FLINK-33231): no offset committed at the last {flat} "
            "completed checkpoints, and no record read since the start"
        )

    def _memory_text(self, tm: str, rise: HeapFloorRise) -> str:
        left, soonest = humanize(rise.full.at - rise.at), humanize(rise.full.earliest - rise.at)
        return (
            f"the heap floor of {tm} rose from {mib(rise.first)} to {mib(rise.last)} over {rise.cycles} GC cycles "
            f"although almost nothing is read; the heap is full in {left}, at the earliest in {soonest}"
        )


_ADVICE_COMMITS = (
    "Upgrade the job's Kafka connector to flink-connector-kafka 3.0.1 or later; those inside Flink 1.13 to 1.17 are "
    "not fixed. Until then a restart of the job frees the memory, and so does the next record in a partition of each "
    "reader. Setting commit.offsets.on.checkpoint to false stops the growth, but the consumer group then shows no "
    "progress."
)
_ADVICE_MEMORY = (
    "Take two class histograms an hour apart (jcmd PID GC.class_histogram) and compare which classes grow; a heap dump "
    "shows what references them. Restart the TaskManager before the heap is full, so that the interruption comes at a "
    "time you choose."
)
