"""A process cannot create another thread, or its threads become more and more.

Opens as critical at `OutOfMemoryError: unable to create native thread` (`unable to create new native thread` in Java 8)
in any stack trace of any log or .out file. Before that it opens as a warning when `Status.JVM.Threads.Count` has risen
steadily for `min_duration`, by `min_increase` and by `growth_factor`, to where it never was. Threads that come with a
job and stay are healthy, as is a pool that fills. Resolved when a checkpoint completes `recovered_after` the last
error; the warning when the number no longer rises, or falls.

Why it matters: the limit is that of the container or host (pids.max, ulimit -u), so the heap looks healthy. The process
fails at whatever needs a thread next, often while it handles another failure. What leaks threads are clients that are
opened at each checkpoint or restart and never closed.

Reference: FLINK-28250 (KafkaSink), FLINK-32411 (SourceCoordinator), FLINK-22886 (RocksDBStateUploader).
"""

from typing import TypeAlias

from detectors.detector import View, on, threshold
from detectors.events.event import Sample
from detectors.events.names import OF_JOBMANAGER, filtered
from detectors.flink.facts import Failure
from detectors.flink.memory.exhausted_heap import label_of
from detectors.flink.memory.rising_gauge import RisingGauge
from detectors.flink.root_causes import OF_WHOLE_JOB
from detectors.patterns.keep_state import keep_state
from detectors.patterns.per_process import ExhaustedProcess, ProcessRef, named, process_of_label, writer
from detectors.patterns.rising_until_exhausted import RisingConfig, RisingState, RisingUntilExhausted, Threat
from detectors.values.durations import Duration

_TEXTS = ("unable to create native thread", "unable to create new native thread")

_View: TypeAlias = "View[ThreadExhaustion.Config, ThreadExhaustion.State]"


class ThreadExhaustion(RisingUntilExhausted):
    """Detects processes that cannot create threads any more, and warns while their number rises."""

    kind = "thread_exhaustion"
    belongs_to = "process"
    what, unit = "threads", ""
    every = 300_000

    class Config(RisingConfig):
        """Settings of the detector `thread_exhaustion`."""

        growth_factor: float = threshold(
            2.0, "Growth factor of the number of threads below which no warning is given.", gt=1
        )
        min_increase: int = threshold(
            200,
            "Number of threads by which a process must have grown for a warning. A job brings a few for each of its "
            "subtasks and clients.",
            ge=1,
        )
        min_duration: Duration = threshold(
            10_800_000, "Time for which the number of threads must have risen steadily for a warning."
        )

    class State(RisingState):
        """Processes that cannot create threads, and the number of threads of all processes."""

    config: Config
    advice = keep_state() + (
        "Take a thread dump (jcmd PID Thread.print) and count its threads by name: the name that repeats shows what "
        "leaks. Restart the process at a time you choose, because nothing else frees its threads; its jobs go back to "
        "their last completed checkpoint. To prevent it: close clients and executors in close(), upgrade the connector "
        "that leaks them. A higher limit of processes (podPidsLimit, ulimit -u) only buys time."
    )

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        error = fact.name.rpartition(".")[2] == "OutOfMemoryError" and fact.message.startswith(_TEXTS)
        if error and fact.of not in OF_WHOLE_JOB:
            place = writer(view, fact.tm, fact.host, fact.attempt)
            gauge = view.state.gauges.by_label.get(filtered(place.tm))
            count = f"{gauge.value:,} threads" if gauge is not None else fact.message.partition(":")[0]
            self.exhausted(view, place, count)

    @on("threads", "jm_threads")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for sample in samples:
            if label := label_of(sample, view.event):
                self.take(view, label, sample.labels.get("host", view.event.host), sample.value)

    def threat(self, gauge: RisingGauge) -> Threat | None:
        config = self.config
        if gauge.value < config.min_increase * config.growth_factor / (config.growth_factor - 1):
            return None
        rise = gauge.rise(config.min_increase, config.significance, config.warm_up, config.min_duration)
        return Threat(rise, None) if rise is not None and rise.last >= config.growth_factor * rise.first else None

    def warning(self, who: str, gauge: RisingGauge) -> str:
        return f"the threads of {who} become more and more: from {gauge.base:,.0f} to {gauge.value:,}"

    def amount(self, value: float) -> str:
        return f"{value:,.0f} threads"

    def place(self, view: _View, label: str) -> ProcessRef:
        if label.startswith(OF_JOBMANAGER):
            return ProcessRef("", label.removeprefix(OF_JOBMANAGER))
        return process_of_label(view.topology, label)

    def summary(self, known: ExhaustedProcess) -> str:
        return f"{named(known)} cannot create another thread ({known.text})"
