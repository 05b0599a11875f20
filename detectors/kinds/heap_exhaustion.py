"""The heap of a TaskManager is full, or so nearly full that it collects garbage instead of working.

Opens, from metrics, when `gc_share` of the last minute was spent in garbage collection; critical when at least two
collections left the heap `full_share` full. Opens, from logs, as critical at `OutOfMemoryError: Java heap space` or `GC
overhead limit exceeded` in any stack trace. Two weaker signs open it with less confidence: the JVM printed the line of
a native helper long after the helper had written it (a pause); or a TaskManager's scrapes stop while a checkpoint
hangs, after checkpoints had grown and the old generation had been collected, and no line shows that its connection
closed. Resolved when little time is spent in collections again, or when a checkpoint completes `recovered_after` the
last sign.

Why it matters: heartbeats stop in the pauses, the JobManager gives the TaskManager up, and the OutOfMemoryError is
printed seconds after the loss, if at all. Not reported: state that grows below the limit; a sawtooth. `zero_input_leak`
covers a slow rise without input, `metaspace_exhaustion` memory for classes.

Reference: post-mortem 000 (1 GB of heap state in 2 GB: `GC overhead limit exceeded` 4 s after the heartbeat timed out).
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.events.names import filtered
from detectors.flink.gc_window import GcWindow
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Confidence, Evidence, Finding, Reading, Series, Severity
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import ProcessRef, writer
from detectors.values.bounded import intern_index, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_TMS = 400
_MAX_RECORDS = 4
_MAX_SIZES = 12
_MAX_NATIVE = 50
_MAX_JOBS = 200
_MAX_COLLECTORS = 16
_KEEP_MS = 3_600_000
_TEXTS = ("OutOfMemoryError: Java heap space", "OutOfMemoryError: GC overhead limit exceeded")
_ENDS = frozenset({"tm_unreachable", "tm_closed", "tm_timed_out", "tm_connection_closed", "rpc_gated"})
_ORDER: tuple[Confidence, ...] = ("learning", "fair", "sure")


class Symptom(NamedTuple):
    """One sign of a full heap. `time` is its event time, `label` the TaskManager's id in metrics."""

    text: str
    severity: Severity
    confidence: Confidence
    time: int
    record: Evidence | None
    label: str = ""


class ExhaustedHeap(msgspec.Struct, array_like=True):
    """The open finding of one TaskManager, with the event times of its first and last sign.

    `label` is the TaskManager's id in metrics.
    """

    tm: str
    host: str
    label: str
    since: int
    last: int
    text: str
    severity: Severity
    confidence: Confidence
    records: list[Evidence]


class CheckpointProgress(msgspec.Struct, array_like=True):
    """The checkpoints of one job: sizes of the last ones (bytes) and their `usual` longest duration (ms).

    `flight` is the clock at which the one in progress started (-1: none), `number` its number, `counted` the job's
    counter of completed ones.
    """

    sizes: list[int] = []
    usual: int = 0
    flight: int = -1
    number: int = -1
    counted: float = -1.0
    counted_at: int = LONG_AGO


class HeapExhaustion(Detector):
    """Detects TaskManagers whose heap is full."""

    kind = "heap_exhaustion"
    belongs_to = "process"
    event_types = frozenset(
        [
            FAILURE,
            "heap_used",
            "heap_max",
            "gc_time",
            "gc_count",
            "checkpoint_triggered",
            "checkpoint_completed",
            "completed_checkpoints",
            "native_line",
            "process_signalled",
            *_ENDS,
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `heap_exhaustion`."""

        gc_window: Duration = Field(
            60_000, description="Window over which GC time is measured. It keeps one long collection from triggering."
        )
        gc_share: float = Field(
            0.3,
            gt=0,
            lt=1,
            description="Share of the window spent in garbage collection above which the finding opens. 1 to 5 % are "
            "usual.",
        )
        full_share: float = Field(
            0.9,
            gt=0.5,
            lt=1,
            description="Share of Heap.Max still in use after two collections from which the heap counts as full.",
        )
        recovered_gc_share: float = Field(
            0.1,
            gt=0,
            lt=1,
            description="Share of the window spent in garbage collection below which the finding is resolved.",
        )
        helper_line_delay: Duration = Field(
            10_000,
            description="Minimum delay between a native helper writing a line and the JVM printing it that counts "
            "as a GC pause. Pauses of a healthy heap are shorter.",
        )
        checkpoint_growth: float = Field(
            1.5,
            gt=1,
            description="Growth factor of the last checkpoints from which a TaskManager whose metrics stop is "
            "suspected.",
        )
        missing_for: Duration = Field(
            30_000,
            description="Time for which a TaskManager's scrapes must be missing (or four scrape intervals, if longer) "
            "while other processes are still scraped.",
        )
        recovered_after: Duration = Field(
            60_000, description="Time after the last sign from which a completed checkpoint resolves the finding."
        )

    class State(msgspec.Struct, array_like=True):
        """`windows` by the TaskManager's label, with collectors by their index in `collectors`; `jobs` by id.

        `open` holds findings by the TaskManager's id (or host), `gone` the labels of TaskManagers that were seen to
        end, with the clock. `native` counts lines of helpers and late ones by source. `ended` is the event time of the
        last sign of a resolved finding.
        """

        windows: dict[str, GcWindow] = {}
        collectors: list[str] = []
        open: dict[str, ExhaustedHeap] = {}
        jobs: dict[str, CheckpointProgress] = {}
        gone: dict[str, int] = {}
        native: dict[str, tuple[int, int]] = {}
        ended: int = LONG_AGO

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            yield from self._measured(state, event, now, topology)
        elif event.event_type == FAILURE:
            yield from self._failed(state, event, now, topology)
        elif event.event_type == "native_line":
            yield from self._printed(state, event, now, topology)
        elif event.event_type == "checkpoint_triggered":
            known = self._progress(state, topology.job_of(event))
            number = int(event.fields["checkpoint"])
            if number > known.number and known.flight < 0 and "avepoint" not in event.fields.get("type", ""):
                known.flight, known.number = now.clock, number
        elif event.event_type == "checkpoint_completed":
            yield from self._completed(state, event, now, topology)
        else:
            # A process logs its own signal; other processes log the rest. An address lacks the end of the id.
            tm = event.fields.get("tm") or event.fields.get("address") or writer(event, topology).tm
            for label in [w for w in state.windows if tm and w.startswith(filtered(tm))]:
                put_bounded(state.gone, label, now.clock, _MAX_TMS)

    def _measured(self, state: State, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        touched: dict[str, GcWindow] = {}
        for sample in event.samples:
            if sample.name == "completed_checkpoints":
                known = self._progress(state, sample.labels.get("job_id", ""))
                if event.time <= known.counted_at:
                    continue
                risen = 0 <= known.counted < sample.value
                known.counted, known.counted_at = sample.value, event.time
                if risen and state.open:
                    yield from self._recovered(state, now, topology)
                continue
            label = sample.labels.get("tm_id") or filtered(event.host)
            window = state.windows.get(label)
            if window is None:
                state.windows = {t: w for t, w in state.windows.items() if now.clock - w.at <= _KEEP_MS}
                window = GcWindow()
                put_bounded(state.windows, label, window, _MAX_TMS)
            touched[label] = window
            if sample.name not in ("gc_time", "gc_count"):
                window.take(sample.name, sample.value, event.time, now.clock)
                continue
            collector = sample.labels.get("collector", "")
            number = intern_index(state.collectors, collector, _MAX_COLLECTORS)
            if number >= 0:
                window.collected(sample.name, collector, number, sample.value, event.time, now.clock)
        for label, window in touched.items():
            if label in state.gone and now.clock - state.gone[label] >= self.config.gc_window:
                del state.gone[label]
            yield from self._judge(state, label, window, event, now, topology)

    def _judge(
        self, state: State, label: str, window: GcWindow, event: MetricEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        share, left = window.share(self.config.gc_window), window.left(self.config.gc_window)
        if share is None:
            return
        full = left >= self.config.full_share
        if share < self.config.gc_share and not full:
            if not state.open:
                return
            tm = topology.tm_of_label(label)
            heap = state.open.get(tm)
            calm = share < self.config.recovered_gc_share and left < 0.8 * self.config.full_share
            if heap is not None and calm and event.time >= heap.last + self.config.gc_window:
                yield self._closed(state, tm, f"garbage collection is down to {share:.0%} of the time", now, topology)
            return
        text = f"{share:.0%} of the last {humanize(self.config.gc_window)} was spent in garbage collection"
        if full:
            text += f", which left {left:.0%} of the heap in use"
        record = Evidence(event.topic, event.partition, event.offset, event.time, text)
        severity: Severity = "critical" if full and share >= self.config.recovered_gc_share else "warning"
        sign = Symptom(text, severity, "fair", event.time, record, label)
        yield from self._report(state, self._place(label, topology), sign, now.clock, topology)

    def _failed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A job's line repeats its task's line, and only that names the TaskManager."""
        thrown = f"{event.fields['class']}: {event.fields['message']}"
        text = next((t for t in _TEXTS if t in thrown), None)
        if text is None or event.fields["of"] in OF_WHOLE_JOB:
            return
        place, record = writer(event, topology), evidence(event, now.time)
        sign = Symptom(text.rpartition(": ")[2], "critical", "sure", now.time, record)
        yield from self._report(state, place, sign, now.clock, topology)

    def _printed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Helper and log share a clock, but perhaps not a time zone. A helper may always lag by one line."""
        try:
            written = datetime.fromisoformat(event.fields["written"] + "+00:00").timestamp() * 1000
        except ValueError:
            return  # There is no such date.
        lag = round(event.local_time - written) % 900_000
        seen, late = state.native.get(event.source, (0, 0))
        pause = event.local_time >= 0 and self.config.helper_line_delay <= lag < 900_000 - self.config.helper_line_delay
        put_bounded(state.native, event.source, (seen + 1, late + pause), _MAX_NATIVE)
        if pause and seen >= 20 and late * 50 <= seen:
            text = f"the JVM paused for {humanize(lag)} (delay of a native helper's log line)"
            sign = Symptom(text, "warning", "learning", now.time, evidence(event, now.time))
            yield from self._report(state, writer(event, topology), sign, now.clock, topology)

    def _completed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        known = self._progress(state, topology.job_of(event))
        number = int(event.fields["checkpoint"])
        if number > known.number or (number == known.number and known.flight >= 0):
            known.flight, known.number = -1, number
            known.sizes = [*known.sizes, int(event.fields["bytes"])][-_MAX_SIZES:]
            known.usual = max(int(event.fields["duration"]), known.usual // 2)
        yield from self._recovered(state, now, topology)

    def _recovered(self, state: State, now: Now, topology: Topology) -> Iterator[Finding]:
        """A completed checkpoint resolves findings whose last sign is old enough."""
        for key, heap in list(state.open.items()):
            if now.time >= heap.last + self.config.recovered_after:
                why = f"a checkpoint completed {humanize(now.time - heap.last)} after the last sign"
                yield self._closed(state, key, why, now, topology)
                state.ended = max(state.ended, heap.last)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report TaskManagers whose metrics stopped while a checkpoint hangs."""
        for label, due in list(self._suspects(state)):
            if now >= due:
                window = state.windows[label]
                share = window.used() / window.limit
                text = (
                    f"its metrics stopped {humanize(now - window.at)} ago with {share:.0%} of the heap in use, "
                    "while a checkpoint hangs"
                )
                state.gone[label] = now
                sign = Symptom(text, "warning", "learning", window.time, None, label)
                yield from self._report(state, self._place(label, topology), sign, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the first TaskManager without metrics becomes suspect."""
        return min((due for _, due in self._suspects(state)), default=None)

    def _suspects(self, state: State) -> Iterator[tuple[str, int]]:
        """TaskManagers that are suspect once their metrics are missing, and the clock from which they are.

        The other signs must be there: a checkpoint hangs after checkpoints have grown, the old generation was collected
        or the heap is nearly full, and other TaskManagers are still scraped.
        """
        hanging = [
            k
            for k in state.jobs.values()
            if k.flight >= 0 and len(k.sizes) > 2 and k.sizes[-1] >= self.config.checkpoint_growth * min(k.sizes)
        ]
        if not hanging:
            return
        last, latest = sorted([0, 0, *(w.at for w in state.windows.values())])[-2:]
        for label, window in state.windows.items():
            if not window.used() or window.limit <= 0 or not window.interval or label in state.gone:
                continue
            tight = window.old_collections(4 * self.config.gc_window) > 0 or window.used() >= 0.8 * window.limit
            seen = last if window.at == latest else latest
            wait = max(self.config.missing_for, 4 * window.interval)
            due = [k.flight + max(3 * k.usual, wait) for k in hanging if k.flight <= window.at + window.interval]
            if due and tight and seen >= window.at + window.interval:
                yield label, max(window.at + wait, min(due))

    def _progress(self, state: State, job: str) -> CheckpointProgress:
        known = state.jobs.get(job)
        if known is None:
            known = CheckpointProgress()
            put_bounded(state.jobs, job, known, _MAX_JOBS)
        return known

    def _place(self, label: str, topology: Topology) -> ProcessRef:
        tm = topology.tm_of_label(label)
        return ProcessRef(tm, topology.host_of(tm))

    def _report(
        self, state: State, place: ProcessRef, sign: Symptom, now: int, topology: Topology
    ) -> Iterator[Finding]:
        key = place.tm or place.host
        if not key or sign.time <= state.ended:
            return
        heap = state.open.get(key)
        if heap is None:
            heap = ExhaustedHeap(place.tm, place.host, sign.label or filtered(key), sign.time, sign.time, *sign[:3], [])
            put_bounded(state.open, key, heap, _MAX_TMS)
            changed = True
        else:
            more_severe = sign.severity == "critical" and heap.severity != "critical"
            changed = more_severe or _ORDER.index(sign.confidence) > _ORDER.index(heap.confidence)
            if more_severe:
                heap.severity = "critical"
            if _ORDER.index(sign.confidence) >= _ORDER.index(heap.confidence):
                heap.confidence, heap.text = sign.confidence, sign.text
            heap.last = max(heap.last, sign.time)
        if changed:
            if sign.record is not None and sign.record not in heap.records:
                heap.records = [*heap.records, sign.record][:_MAX_RECORDS]
            yield self._finding(state, heap, now, topology)

    def _closed(self, state: State, tm: str, why: str, now: Now, topology: Topology) -> Finding:
        finding = self._finding(state, state.open.pop(tm), now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        return finding

    def _finding(self, state: State, heap: ExhaustedHeap, now: int, topology: Topology) -> Finding:
        job, name = topology.only_job()
        window = state.windows.get(heap.label)
        progress = state.jobs.get(job)
        who = f"TaskManager {heap.tm}" if heap.tm else f"a process on host {heap.host}"
        where = f" on host {heap.host}" if heap.tm and heap.host and heap.host not in heap.tm else ""
        summary = f"the heap of {who}{where} is exhausted: {heap.text}"
        if progress is not None and len(progress.sizes) > 2 and progress.sizes[-1] >= 1.2 * min(progress.sizes):
            first, last = min(progress.sizes) / 1e6, progress.sizes[-1] / 1e6
            summary += f"; the job's checkpoints grew from {first:,.0f} to {last:,.0f} MB"
        points = window.points() if window is not None else []
        return Finding(
            kind=self.kind,
            subject=heap.tm or heap.host,
            entity={"tm_id": heap.tm, "host": heap.host, "job_id": job, "job_name": name},
            since=heap.since,
            at=now,
            severity=heap.severity,
            summary=summary,
            confidence=heap.confidence,
            evidence=list(heap.records),
            series=Series("heap in use", "bytes", points, float(window.limit)) if window and points else None,
            advice=keep_state(job) + _ADVICE,
        )

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export the share of time that each TaskManager spends in garbage collection."""
        names = topology.tms_by_label()
        for label, window in state.windows.items():
            share = window.share(self.config.gc_window)
            if share is not None:
                labels = {"tm": names.get(filtered(label), label)}
                yield Reading(name="gc_time_ratio", labels=labels, value=share, at=min(window.at, now))


_ADVICE = (
    "Find what fills the heap: compare state on the heap (state.backend hashmap or filesystem) with checkpoint "
    "sizes, or take a class histogram (jcmd PID GC.class_histogram). Now: stop the job with a savepoint while one "
    "still completes, and restart from it with more heap or more TaskManagers. For good: RocksDB for large state, "
    "windows that copy elements less often."
)
