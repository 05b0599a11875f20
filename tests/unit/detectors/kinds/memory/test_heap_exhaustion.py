"""A heap that is full: what proves it, and what is only busy."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from detectors.events.event import Sample
from detectors.incident import Transition
from tests.unit.detectors.story import JOB, SECOND, Story, Thrown
from tests.unit.detectors.streams import START

TM, OTHER_TM = "tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb"
OOM = "java.lang.OutOfMemoryError"


class Heap(Story):
    """A TaskManager whose heap is scraped, and the log of its job."""

    def heaps(
        self, numbers: range, course: Callable[[int], tuple[float, float, int]], every: int = 10 * SECOND, **where: str
    ) -> "Heap":
        """A scrape for each number, with what the course gives for it: MB in use, ms in collections, how many."""
        for n in numbers:
            self.heap(*course(n), at=n * every, **where)
        return self

    def native(self, n: int, lag: int) -> "Heap":
        """A line that a native helper wrote every 15 s, and the JVM printed `lag` ms later."""
        written = datetime.fromtimestamp(START // 1000 + 15 * n, UTC).strftime("%Y-%m-%d %H:%M:%S.000000")
        return self.line("native_line", 15_000 * n + lag, source="tm-1", written=written)

    def reported(self) -> list[Transition]:
        """The transitions until two minutes after the last event."""
        return self.transitions(after="2 min")


def tm() -> Heap:
    return Heap("heap_exhaustion")


def test_a_third_of_a_minute_in_collections_warns_and_a_heap_that_stays_full_is_critical() -> None:
    history = tm().heaps(range(12), lambda n: (700, 4_000 * n, n))
    history.heaps(range(12, 24), lambda n: (950, 48_000 + 9_000 * (n - 12), n))
    assert [t.severity for t in history.reported()] == ["warning", "critical"]


@pytest.mark.parametrize(
    ("course", "collector"),
    [
        (lambda n: (700, 1_000 * n, n), "PS_MarkSweep"),
        (lambda n: (930 + n % 9, 0, n // 9), "PS_MarkSweep"),
        (lambda n: (300, 12_000 * (n > 20), int(n > 20)), "PS_MarkSweep"),
        (lambda n: (300, 9_000 * n, n), "ZGC_Cycles"),
        (lambda n: (300, 60_000 if n < 3 else 100 * n, 9), "PS_MarkSweep"),
    ],
    ids=[
        "a tenth of the time in collections",
        "nearly full between two collections",
        "one long collection",
        "concurrent cycles",
        "a process that begins anew",
    ],
)
def test_it_is_no_exhaustion(course: Callable[[int], tuple[float, float, int]], collector: str) -> None:
    assert tm().heaps(range(60), course, collector=collector).reported() == []


def test_it_is_over_when_collections_are_few_again() -> None:
    history = tm().heaps(range(60), lambda n: (700, 5_000 * min(n, 12), min(n, 12)))
    assert [t.transition for t in history.reported()] == ["opened", "resolved"]


@pytest.mark.parametrize("message", ["Java heap space", "GC overhead limit exceeded"])
def test_the_error_is_critical_at_once_and_a_completed_checkpoint_ends_it(message: str) -> None:
    history = tm().by("tm-1").line("tm_started", 0, tm=TM).stack((OOM, message, ""), at="5 s")
    transitions = history.by("jm").completed(7, "70 s", lasting="1 s").reported()
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "critical"), ("resolved", "critical")]
    assert transitions[0].findings[0].entity["tm_id"] == TM


@pytest.mark.parametrize("message", ["Metaspace", "Direct buffer memory"])
def test_other_memory_than_the_heap_is_not_meant(message: str) -> None:
    assert tm().by("tm-1").stack((OOM, message, ""), at=0).reported() == []


def hung(until: int = 600 * SECOND) -> Heap:
    """Checkpoints grow, the old generation is collected, one more is triggered, and the scrapes of tm-1 stop."""
    history = tm().runs(0)
    for n in range(10):
        history.at(n * 30 * SECOND).checkpoint("1 s", size=100 + 100 * n)
    history.triggered(at="300 s").heaps(range(31), lambda n: (600, 100 * n, n // 3))
    return history.heaps(range(until // (10 * SECOND)), lambda n: (200, 10 * n, 0), tm=OTHER_TM)


def test_scrapes_that_stop_while_a_grown_checkpoint_hangs_are_a_suspicion() -> None:
    findings = hung().reported()[-1].findings
    assert [(f.severity, f.confidence) for f in findings] == [("warning", "learning")]


def test_they_are_none_when_its_connection_was_seen_to_close() -> None:
    assert hung().line("tm_unreachable", "301 s", tm=TM).reported() == []


def test_they_are_none_when_it_was_asked_to_stop() -> None:
    history = hung().by("tm-1").line("tm_started", 0, tm=TM).line("process_signalled", "299 s", signal="15")
    assert history.reported() == []


def test_they_are_none_when_everything_stops() -> None:
    assert hung(until=310 * SECOND).reported() == []


def test_a_line_printed_long_after_it_was_written_is_a_pause() -> None:
    history = tm()
    for n in range(31):
        history.native(n, 5 if n < 30 else 15_000)
    transitions = history.reported()
    assert [(t.severity, t.findings[0].confidence) for t in transitions] == [("warning", "learning")]


def test_a_helper_whose_every_fourth_line_is_late_reports_nothing() -> None:
    history = tm()
    for n in range(60):
        history.native(n, 15_000 if n % 4 == 0 else 5)
    assert history.reported() == []


def test_a_scrape_every_second_is_judged_as_well() -> None:
    history = tm().heaps(range(120), lambda n: (700, 500 * n, n), every=SECOND)
    assert [t.severity for t in history.reported()] == ["warning"]


def test_a_full_heap_explains_the_checkpoint_that_hangs() -> None:
    history = Heap("heap_exhaustion", "checkpoint_overdue").and_also(hung())
    transitions = history.reported()
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "heap_exhaustion"
    assert JOB in {f.entity.get("job_id") for f in transitions[-1].findings}


# JobManagers


class Master(Heap):
    """A JobManager whose heap is scraped, which leads a job with two TaskManagers."""

    def jm_heap(self, n: int, used: float, spent: float, count: int, host: str = "jm") -> "Master":
        """One scrape of its heap: MB in use of 1000, ms in collections so far, and how many."""
        collected = {"host": host, "collector": "G1_Old_Generation"}
        self.scrape(
            Sample("jm_heap_max", {"host": host}, 1e9),
            Sample("jm_heap_used", {"host": host}, used * 1e6),
            Sample("jm_gc_time", collected, spent),
            Sample("jm_gc_count", collected, count),
            at=n * 10 * SECOND,
        )
        return self

    def jm_heaps(self, numbers: range, course: Callable[[int], tuple[float, float, int]]) -> "Master":
        for n in numbers:
            self.jm_heap(n, *course(n))
        return self

    def dies(self, *chain: Thrown) -> "Master":
        """A thread throws, and the shutdown hook writes what an orderly end writes."""
        self.line("process_fatal").stack(*chain).gap("300 ms")
        return self.line("cluster_ending", what="StandaloneSessionClusterEntrypoint", status="UNKNOWN")

    def gives_up_all(self) -> "Master":
        for tm in (TM, OTHER_TM):
            self.line("tm_timed_out", tm=tm)
        return self.gap("9 s")


HEAP_SPACE: Thrown = (OOM, "Java heap space", "")


def jm(*more: str) -> Master:
    history = Master("heap_exhaustion", *more)
    for tm in (TM, OTHER_TM):
        history.line("tm_registered", tm=tm)
    return history.runs().gap("10 s").checkpoints(10, every="10 s")


def test_a_jobmanager_with_a_tenth_of_its_time_in_collections_is_healthy() -> None:
    assert jm().jm_heaps(range(60), lambda n: (700 + n % 9, 1_000 * n, n)).reported() == []


def test_a_jobmanager_that_is_nearly_full_between_two_collections_is_healthy() -> None:
    assert jm().jm_heaps(range(60), lambda n: (930 + n % 9, 0, n // 9)).reported() == []


def test_a_jobmanager_whose_heap_stays_full_is_critical_and_named() -> None:
    transitions = jm().jm_heaps(range(12), lambda n: (950, 6_000 * n, n)).transitions("3 min")
    finding = transitions[-1].findings[0]
    assert finding.summary.startswith("the heap of JobManager jm is exhausted: ")
    assert (finding.subject, finding.entity["host"], finding.entity["tm_id"]) == ("jm|jm", "jm", "")
    assert (finding.severity, "jobmanager.memory.process.size" in finding.advice) == ("critical", True)


def test_its_heap_is_not_that_of_a_taskmanager_on_the_same_host() -> None:
    history = jm().jm_heaps(range(12), lambda n: (950, 6_000 * n, n))
    history.heaps(range(12), lambda n: (300, 10 * n, 0), tm="jm")
    assert {f.subject for t in history.transitions("3 min") for f in t.findings} == {"jm|jm"}


def test_it_is_over_when_the_jobmanager_collects_little_again() -> None:
    history = jm().jm_heaps(range(60), lambda n: (950, 5_000 * n, n) if n < 12 else (500, 60_000, 12))
    assert [t.transition for t in history.reported()][-1] == "resolved"


def test_the_error_in_its_own_log_names_the_jobmanager_known_from_metrics() -> None:
    history = jm().jm_heaps(range(6), lambda n: (700, 100 * n, n)).dies(HEAP_SPACE)
    (opened,) = history.transitions("2 min")
    assert opened.summary == "the heap of JobManager jm is exhausted: Java heap space"
    assert (opened.findings[0].subject, opened.severity) == ("jm|jm", "critical")


def test_the_error_of_a_task_in_a_jobmanagers_log_is_a_taskmanagers() -> None:
    history = jm().task_failed(HEAP_SPACE, tm=TM, host="tm-1")
    assert [f.entity["tm_id"] for f in history.transitions("2 min")[0].findings] == [TM]
    quoted = jm().stack(("org.apache.flink.util.SerializedThrowable", "x", ""), HEAP_SPACE)
    assert [f.subject for t in quoted.transitions("2 min") for f in t.findings] == ["jm"]


def test_scrapes_of_a_jobmanager_that_stop_are_no_suspicion() -> None:
    assert hung(until=600 * SECOND).reported() != []
    history = Master("heap_exhaustion").jm_heaps(range(60), lambda n: (200, 10 * n, 0))
    history.and_also(hung(until=310 * SECOND))
    assert history.reported() == []


def test_a_jobmanager_that_gives_up_its_taskmanagers_before_its_own_error_is_the_cause() -> None:
    history = jm("taskmanager_lost", "jobmanager_lost", "telemetry_lost").gives_up_all().dies(HEAP_SPACE)
    transitions = history.transitions("3 min")
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "heap_exhaustion"
    assert {f.kind for f in transitions[-1].findings} == {"heap_exhaustion", "taskmanager_lost", "jobmanager_lost"}
    assert "resolved" not in {t.transition for t in transitions}


def test_the_heap_of_a_taskmanager_explains_no_other_taskmanagers_loss() -> None:
    history = Heap("heap_exhaustion", "taskmanager_lost").runs(0).by("tm-1").line("tm_started", 0, tm=TM)
    history.stack(HEAP_SPACE, at="5 s").by("jm").line("tm_timed_out", "10 s", tm=OTHER_TM)
    assert len({t.incident for t in history.transitions("1 min")}) == 2
