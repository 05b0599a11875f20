"""The heap of a TaskManager or JobManager is full, or so nearly full that it collects garbage instead of working.

Opens, from metrics, when `gc_share` of the last minute was spent in garbage collection; critical when at least two
collections left the heap `full_share` full. Opens, from logs, as critical at `OutOfMemoryError: Java heap space` or `GC
overhead limit exceeded` in any stack trace. Two weaker signs open it with less confidence: the JVM printed the line of
a native helper long after the helper had written it (a pause); or a TaskManager's scrapes stop while a checkpoint
hangs, after checkpoints had grown and the old generation had been collected, and no line shows that its connection
closed. Resolved when little time is spent in collections again, or when a checkpoint completes `recovered_after` the
last sign, but not before three scrapes without a sign.

Why it matters: heartbeats stop in the pauses, the JobManager gives the TaskManager up, and the OutOfMemoryError is
printed seconds after the loss, if at all. A JobManager gives up all TaskManagers before its own error. Not reported:
state that grows below the limit; a sawtooth. `zero_input_leak` covers a slow rise without input, `metaspace_exhaustion`
memory for classes.

Reference: post-mortem 000 (1 GB of heap state in 2 GB: `GC overhead limit exceeded` 4 s after the heartbeat timed out).
"""

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from detectors.detector import MAX_JOBS, Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import OF_JOBMANAGER, filtered
from detectors.flink import facts
from detectors.flink.facts import Failure
from detectors.flink.memory.exhausted_heap import ExhaustedHeap, Symptom, label_of, label_of_jobmanager
from detectors.flink.memory.gc_window import FLOOR_SAMPLES, GcWindow, GcWindows
from detectors.flink.memory.native_helpers import NativeHelpers
from detectors.flink.processes.dying_processes import out_of_its_own_memory
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.incident import Finding, Reading, Series, Severity
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import ProcessRef, named, process_of_label, writer
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_OPEN = 400
_WITH_STATE = 1.2
_TEXTS = ("OutOfMemoryError: Java heap space", "OutOfMemoryError: GC overhead limit exceeded")

_View: TypeAlias = "View[HeapExhaustion.Config, HeapExhaustion.State]"


class HeapExhaustion(Detector):
    """Detects TaskManagers and JobManagers whose heap is full."""

    kind = "heap_exhaustion"
    belongs_to = "process"

    class Config(DetectorConfig):
        """Settings of the detector `heap_exhaustion`."""

        gc_window: Duration = threshold(
            60_000, "Window over which GC time is measured. It keeps one long collection from triggering."
        )
        gc_share: float = threshold(
            0.3,
            "Share of the window spent in garbage collection above which the finding opens. Healthy processes spend "
            "0.01 to 0.05.",
            gt=0,
            lt=1,
        )
        full_share: float = threshold(
            0.9,
            "Share of Heap.Max still in use after two collections from which the heap counts as full.",
            gt=0.5,
            lt=1,
        )
        recovered_gc_share: float = threshold(
            0.1, "Share of the window spent in garbage collection below which the finding is resolved.", gt=0, lt=1
        )
        helper_line_delay: Duration = threshold(
            10_000,
            "Minimum delay between a native helper writing a line and the JVM printing it that counts as a GC pause. "
            "Pauses of a healthy heap are shorter.",
        )
        checkpoint_growth: float = threshold(
            1.5, "Growth factor of the last checkpoints from which a TaskManager whose metrics stop is suspected.", gt=1
        )
        missing_for: Duration = threshold(
            30_000,
            "Time for which a TaskManager's scrapes must be missing (or four scrape intervals, if longer) while other"
            " processes are still scraped.",
        )
        recovered_after: Duration = threshold(
            60_000, "Time after the last sign from which a completed checkpoint resolves the finding."
        )

    class State(msgspec.Struct, array_like=True):
        """`open` holds findings by the TaskManager's id (or host), `ended` is the last sign of a resolved one.

        `completed` holds the jobs' counters of completed checkpoints with the event time of the sample.
        """

        windows: GcWindows = msgspec.field(default_factory=GcWindows)
        helpers: NativeHelpers = msgspec.field(default_factory=NativeHelpers)
        open: dict[str, ExhaustedHeap] = {}
        completed: dict[str, tuple[float, int]] = {}
        ended: int = LONG_AGO

    config: Config

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        """A job's line repeats its task's line, and only that names the TaskManager."""
        text = next((t for t in _TEXTS if t in fact.thrown), None)
        if text is not None and fact.of not in OF_WHOLE_JOB:
            place = writer(view, fact.tm, fact.host, fact.attempt)
            label = self._jobmanager(view, fact, place)
            sign = Symptom(text.rpartition(": ")[2], "critical", "sure", view.time, view.record(), label)
            self._report(view, _place(view, label) if label else place, sign)

    @on(facts.HelperLine)
    def printed(self, view: _View, fact: facts.HelperLine) -> None:
        if lag := view.state.helpers.pause(view.line, fact, self.config.helper_line_delay):
            text = f"the JVM paused for {humanize(lag)} (delay of a native helper's log line)"
            self._report(view, writer(view), Symptom(text, "warning", "learning", view.time, view.record()))

    @on(facts.CheckpointCompleted, needs="open")
    def completed(self, view: _View, _: facts.CheckpointCompleted) -> None:
        self._recovered(view)

    @on(*facts.PROCESS_ENDS, facts.PeerConnectionClosed, facts.AddressGated)
    def ended(self, view: _View, end: facts.ProcessEnd | facts.PeerConnectionClosed | facts.AddressGated) -> None:
        for tm in end.tms:
            view.state.windows.end(tm, view.clock)

    @on(
        *("heap_used", "heap_max", "gc_time", "gc_count", "completed_checkpoints"),
        *("jm_heap_used", "jm_heap_max", "jm_gc_time", "jm_gc_count"),
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        windows, touched = view.state.windows, dict[str, GcWindow]()
        for sample in samples:
            if sample.name == "completed_checkpoints":
                self._counted(view, sample)
            else:
                label = label_of(sample, view.event)
                touched[label] = windows.measure(label, sample, view.time, view.clock)
        for label, window in touched.items():
            if label in windows.gone and view.clock - windows.gone[label] >= self.config.gc_window:
                del windows.gone[label]
            self._judge(view, label, window)

    def on_deadline(self, view: _View) -> None:
        """Report TaskManagers whose metrics stopped while a checkpoint hangs."""
        for label, due in list(self._suspects(view)):
            if view.clock >= due:
                window = view.state.windows.by_label[label]
                text = (
                    f"its metrics stopped {humanize(view.clock - window.at)} ago with "
                    f"{window.used() / window.limit:.0%} of the heap in use, while a checkpoint hangs"
                )
                view.state.windows.gone[label] = view.clock
                sign = Symptom(text, "warning", "learning", window.time, None, label)
                self._report(view, _place(view, label), sign)

    def next_deadline(self, view: _View) -> int | None:
        """When the first TaskManager without metrics becomes suspect."""
        return min((due for _, due in self._suspects(view)), default=None)

    def readings(self, view: _View) -> Iterator[Reading]:
        """The share of time that each TaskManager spends in garbage collection."""
        names = view.topology.tms_by_label()
        for label, window in view.state.windows.by_label.items():
            share = window.share(self.config.gc_window)
            if share is not None and not label.startswith(OF_JOBMANAGER):
                yield view.reading(
                    "gc_time_ratio", share, min(window.at, view.clock), tm=names.get(filtered(label), label)
                )

    def _counted(self, view: _View, sample: Sample) -> None:
        job = sample.labels.get("job_id", "")
        before, at = view.state.completed.get(job, (-1.0, LONG_AGO))
        if view.time > at:
            put_bounded(view.state.completed, job, (sample.value, view.time), MAX_JOBS)
            if 0 <= before < sample.value:
                self._recovered(view)

    def _judge(self, view: _View, label: str, window: GcWindow) -> None:
        config = self.config
        share = window.share(config.gc_window)
        if share is None:
            return
        # Where collections take much time, a third as many samples show that they leave the heap full.
        left = window.left(config.gc_window, FLOOR_SAMPLES // (3 if share >= config.gc_share else 1))
        full = left >= config.full_share
        if share < config.gc_share and not full:
            if not view.state.open:
                return
            key = _key(_place(view, label), label)
            heap = view.state.open.get(key)
            if heap is not None and share >= config.recovered_gc_share:
                heap.last = max(heap.last, view.time)
            elif heap is not None and left < 0.8 * config.full_share and self._calm(view, heap, config.gc_window):
                self._close(view, key, f"garbage collection is down to {share:.0%} of the time")
            return
        text = f"{share:.0%} of the last {humanize(config.gc_window)} was spent in garbage collection"
        if full:
            text += f", which left {left:.0%} of the heap in use"
        severity: Severity = "critical" if full and share >= config.recovered_gc_share else "warning"
        sign = Symptom(text, severity, "fair", view.time, view.record(text), label)
        self._report(view, _place(view, label), sign)

    def _recovered(self, view: _View) -> None:
        """A completed checkpoint resolves findings whose last sign is old enough."""
        for key, heap in list(view.state.open.items()):
            if self._calm(view, heap, self.config.recovered_after):
                self._close(view, key, f"a checkpoint completed {humanize(view.time - heap.last)} after the last sign")
                view.state.ended = max(view.state.ended, heap.last)

    def _calm(self, view: _View, heap: ExhaustedHeap, least: int) -> bool:
        return (view.state.windows.by_label.get(heap.label) or GcWindow()).calm_since(heap.last, view.time, least)

    def _suspects(self, view: _View) -> Iterator[tuple[str, int]]:
        """TaskManagers without metrics while a checkpoint hangs after checkpoints have grown, and when they are due."""
        config = self.config
        hanging = [
            (oldest[1].at, checkpoints.usual)
            for checkpoints in view.topology.checkpoints.values()
            if checkpoints.grown(config.checkpoint_growth) and (oldest := checkpoints.oldest()) is not None
        ]
        return view.state.windows.frozen(hanging, 4 * config.gc_window, config.missing_for) if hanging else iter(())

    def _jobmanager(self, view: _View, fact: Failure, place: ProcessRef) -> str:
        """The JobManager that is out of memory, as labelled in metrics; empty if it is a TaskManager."""
        masters = view.topology.masters
        its = view.event.source in masters or (not place.tm and place.host in masters.values())
        if not its or not out_of_its_own_memory(fact):
            return ""
        host = masters.get(view.event.source) or place.host or view.event.source
        return label_of_jobmanager(host, [*view.state.windows.by_label])

    def _report(self, view: _View, place: ProcessRef, sign: Symptom) -> None:
        key = _key(place, sign.label)
        if not key or sign.time <= view.state.ended:
            return
        heap = view.state.open.get(key)
        if heap is None:
            label, at = sign.label or filtered(key), sign.time
            heap = ExhaustedHeap(*place, label, at, at, sign.text, sign.severity, sign.confidence, [])
            put_bounded(view.state.open, key, heap, _MAX_OPEN)
        elif not heap.take(sign):
            return
        heap.prove(sign.record)
        view.report(self._finding(view, heap))

    def _close(self, view: _View, key: str, why: str) -> None:
        view.close(self._finding(view, view.state.open.pop(key)), why)

    def _finding(self, view: _View, heap: ExhaustedHeap) -> Finding:
        job, name = view.topology.only_job()
        window, checkpoints = view.state.windows.by_label.get(heap.label), view.topology.checkpoints.get(job)
        of_jobmanager = heap.of_jobmanager
        who = f"JobManager {heap.host}" if of_jobmanager else named(ProcessRef(heap.tm, heap.host))
        summary = f"the heap of {who} is exhausted: {heap.text}"
        if checkpoints is not None and checkpoints.grown(_WITH_STATE) and not of_jobmanager:
            first, last = min(checkpoints.sizes) / 1e6, checkpoints.sizes[-1] / 1e6
            summary += f"; the job's checkpoints grew from {first:,.0f} to {last:,.0f} MB"
        points = window.points() if window is not None else []
        return view.finding(
            heap.subject,
            {"tm_id": heap.tm, "host": heap.host, "job_id": job, "job_name": name},
            since=heap.since,
            severity=heap.severity,
            summary=summary,
            confidence=heap.confidence,
            evidence=heap.records,
            series=Series("heap in use", "bytes", points, float(window.limit)) if window and points else None,
            advice=keep_state(job) + (_ADVICE_JOBMANAGER if of_jobmanager else _ADVICE),
        )


def _place(view: _View, label: str) -> ProcessRef:
    """The process with this label in metrics."""
    if label.startswith(OF_JOBMANAGER):
        return ProcessRef("", label.removeprefix(OF_JOBMANAGER))
    return process_of_label(view.topology, label)


def _key(place: ProcessRef, label: str) -> str:
    return label if label.startswith(OF_JOBMANAGER) else place.tm or place.host


_ADVICE = (
    "Find what fills the heap: compare state on the heap (state.backend hashmap or filesystem) with checkpoint "
    "sizes, or take a class histogram (jcmd PID GC.class_histogram). Now: stop the job with a savepoint while one "
    "still completes, and restart from it with more heap or more TaskManagers. To prevent it: RocksDB for large state, "
    "windows that copy elements less often."
)
_ADVICE_JOBMANAGER = (
    "Restart the JobManager with more heap (jobmanager.memory.process.size) before it dies: with high availability its "
    "jobs continue from their last checkpoint, without it they have to be submitted again. Then find what fills it "
    "(jcmd PID GC.class_histogram): many jobs, finished ones that are kept (jobstore.max-capacity), many small state "
    "handles (state.storage.fs.memory-threshold), sources with many splits, user code that runs in the JobManager."
)
