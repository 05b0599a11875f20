"""A heap that is full: what proves it, and what is only busy."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from detectors.events.event import Event, MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

JOB = "a" * 32
TM = "tm-1:6122-aaaaaa"
LABEL = "tm_1:6122_aaaaaa"
MB = 1_000_000


def scrape(
    n: int, used: float, spent: float, old: int, collector: str = "PS_MarkSweep", label: str = LABEL
) -> MetricEvent:
    """The n-th scrape of a TaskManager, one every 10 s: MB in use of 1000, ms in collections so far, and how many."""
    labels = {"tm_id": label}
    samples = [
        Sample("heap_max", labels, 1000 * MB),
        Sample("heap_used", labels, used * MB),
        Sample("gc_time", {**labels, "collector": collector}, spent),
        Sample("gc_count", {**labels, "collector": collector}, old),
    ]
    return MetricEvent("c", "m", "h", START + n * 10_000 + 50, START + n * 10_000, "flink.metrics", 0, n, samples)


def checkpoints(sizes: Iterable[int], every: int = 30_000) -> list[Event]:
    """Checkpoints of a second, of so many bytes."""
    found: list[Event] = [log("job_state", 0, job=JOB, name="orders", state="RUNNING", before="CREATED")]
    for n, size in enumerate(sizes):
        fields = {"job": JOB, "checkpoint": str(n)}
        found.append(log("checkpoint_triggered", n * every, 10 * n, "jm", 100, **fields, epoch=str(START)))
        took = {"duration": "1000", "bytes": str(size)}
        found.append(log("checkpoint_completed", n * every + 1_000, 10 * n + 1, "jm", 100, **fields, **took))
    return found


def causes(stream: Iterable[Event]) -> list[Transition]:
    """What is said of exhausted heaps, until two minutes after the last event."""
    events = in_order(stream)
    return [t for t in run(events, until=events[-1].timestamp + 120_000) if t.cause == "heap_exhaustion"]


def test_a_third_of_a_minute_in_collections_warns_and_a_heap_that_stays_full_is_critical() -> None:
    busy = [scrape(n, 700, 4_000 * n, n) for n in range(12)]
    full = [scrape(n, 950, 48_000 + 9_000 * (n - 12), n) for n in range(12, 24)]
    assert [t.severity for t in causes(busy + full)] == ["warning", "critical"]


@pytest.mark.parametrize(
    ("case", "stream"),
    [
        ("a tenth of the time in collections", [scrape(n, 700, 1_000 * n, n) for n in range(60)]),
        ("nearly full between two collections", [scrape(n, 930 + n % 9, 0, n // 9) for n in range(60)]),
        ("one long collection", [scrape(n, 300, 12_000 * (n > 20), n > 20) for n in range(60)]),
        ("concurrent cycles", [scrape(n, 300, 9_000 * n, n, "ZGC_Cycles") for n in range(60)]),
        ("a process that begins anew", [scrape(n, 300, 60_000 if n < 3 else 100 * n, 9) for n in range(60)]),
    ],
)
def test_it_is_no_exhaustion(case: str, stream: list[Event]) -> None:
    assert causes(stream) == [], case


def test_it_is_over_when_collections_are_few_again() -> None:
    stream = [scrape(n, 700, 5_000 * min(n, 12), min(n, 12)) for n in range(60)]
    assert [t.transition for t in causes(stream)] == ["opened", "resolved"]


@pytest.mark.parametrize("message", ["Java heap space", "GC overhead limit exceeded"])
def test_the_error_is_critical_at_once_and_a_completed_checkpoint_ends_it(message: str) -> None:
    error = {"class": "java.lang.OutOfMemoryError", "message": message}
    took = {"duration": "1000", "bytes": "1"}
    stream = [
        log("tm_started", 0, source="tm-1", tm=TM),
        log("thrown", 5_000, 1, "tm-1", 100, **error),
        log("checkpoint_completed", 70_000, 2, "jm", 100, job=JOB, checkpoint="7", **took),
    ]
    said = causes(stream)
    assert [(t.transition, t.severity) for t in said] == [("opened", "critical"), ("resolved", "critical")]
    assert said[0].findings[0].entity["tm_id"] == TM


@pytest.mark.parametrize("message", ["Metaspace", "Direct buffer memory"])
def test_other_memory_than_the_heap_is_not_meant(message: str) -> None:
    error = {"class": "java.lang.OutOfMemoryError", "message": message}
    assert causes([log("thrown", 0, 0, "tm-1", 100, **error)]) == []


def _silent(*more: Event) -> list[Event]:
    """Checkpoints grow, the old generation is collected, one more is triggered, and the scrapes of tm-1 stop."""
    ours = [scrape(n, 600, 100 * n, n // 3) for n in range(31)]
    other = [scrape(n, 200, 10 * n, 0, label="tm_2:6122_bbbbbb") for n in range(60)]
    last = log("checkpoint_triggered", 300_000, 900, job=JOB, checkpoint="10", epoch=str(START))
    return [*checkpoints(range(100, 1_100, 100)), last, *ours, *other, *more]


def test_scrapes_that_stop_while_a_grown_checkpoint_hangs_are_a_suspicion() -> None:
    suspicions = [f for f in causes(_silent())[-1].findings if f.kind == "heap_exhaustion"]
    assert [(f.severity, f.confidence) for f in suspicions] == [("warning", "learning")]


def test_they_are_none_when_its_connection_was_seen_to_close() -> None:
    assert causes(_silent(log("tm_unreachable", 301_000, 901, tm=TM))) == []


def test_they_are_none_when_it_was_told_to_stop() -> None:
    started = log("tm_started", 0, source="tm-1", tm=TM)
    assert causes(_silent(started, log("process_signalled", 299_000, 901, source="tm-1", signal="15"))) == []


def test_they_are_none_when_everything_stops() -> None:
    stream = [e for e in _silent() if e.timestamp < START + 305_000]
    assert causes(stream) == []


def _native(n: int, lag: int) -> Event:
    second = START // 1000 + 15 * n
    written = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S.000000")
    return log("native_line", 15_000 * n + lag, n, source="tm-1", written=written)


def test_a_line_printed_long_after_it_was_written_is_a_pause() -> None:
    said = causes([_native(n, 5) for n in range(30)] + [_native(30, 15_000)])
    assert [(t.severity, t.findings[0].confidence) for t in said] == [("warning", "learning")]


def test_a_helper_whose_every_fourth_line_is_late_tells_nothing() -> None:
    assert causes([_native(n, 15_000 if n % 4 == 0 else 5) for n in range(60)]) == []


def test_a_scrape_every_second_is_judged_as_well() -> None:
    stream = []
    for n in range(120):
        event = scrape(n, 700, 500 * n, n)
        stream.append(
            MetricEvent("c", "m", "h", START + n * 1_000 + 50, START + n * 1_000, "flink.metrics", 0, n, event.samples)
        )
    assert [t.severity for t in causes(stream)] == ["warning"]
