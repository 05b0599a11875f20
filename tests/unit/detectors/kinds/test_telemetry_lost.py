"""What is silent, told apart by what goes on; and every end that is no silence."""

from collections.abc import Sequence

from detectors.events.event import Event, MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

JOB = "a" * 32
SECOND, MINUTE = 1_000, 60_000
END = 10 * MINUTE
Scrapes = list[Event]


def scrape(at: int, tm: str = "", registered: int = -1, completed: int = -1) -> MetricEvent:
    labels = {"tm_id": tm, "host": tm} if tm else {"host": "jm"}
    samples = [Sample("heap_used" if tm else "jm_heap_used", labels, 1e8)]
    if registered >= 0:
        samples.append(Sample("registered_task_managers", labels, registered))
    if completed >= 0:
        samples.append(Sample("completed_checkpoints", {**labels, "job_id": JOB}, completed))
    time = START + at
    return MetricEvent("c", tm or "jm", tm or "jm", time + 50, time, "flink.metrics", 0, at, samples)


def scrapes(tm: str = "", start: int = 0, until: int = END, registered: int = -1, counting: bool = False) -> Scrapes:
    times = range(start, until, 10 * SECOND)
    return [scrape(at, tm, registered, at // (30 * SECOND) if counting else -1) for at in times]


def lines(start: int = 0, until: int = END) -> list[Event]:
    """The log of a job that runs and completes a checkpoint every half minute."""
    found: list[Event] = [log("job_state", 0, job=JOB, name="orders", before="CREATED", state="RUNNING")]
    for n, at in enumerate(range(start, until, 30 * SECOND)):
        found.append(log("checkpoint_triggered", at, 10 * n + 1, checkpoint=str(n), job=JOB, epoch=str(START + at)))
        took = {"bytes": "1", "duration": "900"}
        found.append(
            log("checkpoint_completed", at + SECOND, 10 * n + 2, "jm", 100, checkpoint=str(n), job=JOB, **took)
        )
    return found


def said(*parts: Sequence[Event], until: int = END) -> list[Transition]:
    """Only of silence: what stops in mid-checkpoint is overdue as well."""
    events = [event for part in parts for event in part]
    return [t for t in run(in_order(events), until=START + until) if t.cause == "telemetry_lost"]


STOP = 5 * MINUTE


def test_a_taskmanager_that_the_jobmanager_still_counts_is_silent_and_named() -> None:
    found = said(lines(), scrapes("a"), scrapes("b", until=STOP), scrapes(registered=2))
    assert [(t.transition, t.severity) for t in found] == [("opened", "warning")]
    assert found[0].findings[0].entity["tm_id"] == "b"
    assert 60_000 <= found[0].at - (START + STOP - 10 * SECOND) <= 75_000


def test_it_is_over_when_it_is_heard_again() -> None:
    again = scrapes("b", start=8 * MINUTE)
    found = said(lines(), scrapes("a"), scrapes("b", until=STOP), again, scrapes(registered=2))
    assert [t.transition for t in found] == ["opened", "resolved"]


def test_a_log_that_says_nothing_of_an_end_speaks_for_the_taskmanager() -> None:
    assert [t.severity for t in said(lines(), scrapes("a"), scrapes("b", until=STOP))] == ["warning"]


def test_a_taskmanager_that_the_jobmanager_no_longer_counts_has_gone() -> None:
    counts = [*scrapes(registered=2, until=STOP), *scrapes(registered=1, start=STOP)]
    assert said(lines(), scrapes("a"), scrapes("b", until=STOP), counts) == []


def test_a_taskmanager_whose_end_is_told_is_not_silent() -> None:
    ends: dict[str, Event] = {
        "released": log("tm_closed", STOP, 9, tm="b", reason="TaskExecutor exceeded the idle timeout."),
        "lost": log("tm_unreachable", STOP, 9, tm="b"),
        "replaced": log("tm_registered", STOP + 20 * SECOND, 9, tm="c"),
        "stopped": log("process_signalled", STOP, 9, "b", signal="15"),
    }
    known = [log("tm_started", 0, 5, "b", tm="b"), log("tm_registered", 0, 6, tm="b")]
    for why, end in ends.items():
        stream = said(lines(), known, [end], scrapes("a"), scrapes("b", until=STOP), scrapes(registered=2))
        assert stream == [], why


def test_a_new_id_on_a_host_replaces_the_old_one() -> None:
    new = scrapes("c", start=STOP + 30 * SECOND)
    assert said(lines(), scrapes("a"), scrapes("b", until=STOP), new, scrapes(registered=2)) == []


def test_metrics_that_all_stop_while_the_log_goes_on_have_lost_their_way() -> None:
    found = said(lines(), scrapes("a", until=STOP), scrapes("b", until=STOP), scrapes(until=STOP))
    assert [t.severity for t in found] == ["warning"]
    assert "the metrics have lost their way" in found[0].summary


def test_a_log_that_stops_while_checkpoints_are_counted_has_lost_its_way() -> None:
    found = said(lines(until=STOP), scrapes("a"), scrapes(counting=True))
    assert [t.severity for t in found] == ["warning"]
    assert "its log has lost its way" in found[0].summary


def test_a_log_that_stops_with_the_checkpoints_is_no_silence() -> None:
    quiet = [*scrapes(counting=True, until=STOP), *(scrape(at, "", -1, 10) for at in range(STOP, END, 10 * SECOND))]
    assert said(lines(until=STOP), scrapes("a"), quiet) == []


def test_a_cluster_of_which_nothing_arrives_any_more_is_said_once() -> None:
    parts = lines(until=STOP), scrapes("a", until=STOP), scrapes("b", until=STOP), scrapes(until=STOP)
    assert said(*parts, until=STOP + 4 * MINUTE) == []
    found = said(*parts, until=STOP + 6 * MINUTE)
    assert [t.transition for t in found] == ["opened"]
    assert found[0].summary.startswith("input_silent: no metrics of its 3 processes")


def test_a_cluster_that_was_stopped_or_whose_job_is_over_is_not_silent() -> None:
    ends: list[Event] = [
        log("job_state", STOP, 9, job=JOB, name="orders", before="RUNNING", state="FINISHED"),
        log("job_ended", STOP, 9, job=JOB, state="CANCELED"),
        log("cluster_ending", STOP, 9, what="X", status="SUCCEEDED"),
        log("process_signalled", STOP, 9, signal="15"),
    ]
    for end in ends:
        parts = lines(until=STOP), [end], scrapes("a", until=STOP), scrapes(until=STOP)
        assert said(*parts, until=60 * MINUTE) == [], end


def test_a_cluster_known_by_its_log_alone_that_ends_is_not_worth_a_warning() -> None:
    assert said(lines(until=STOP), until=60 * MINUTE) == []


def test_what_was_never_regular_is_never_silent() -> None:
    few = [scrape(at, "b") for at in (0, 10 * SECOND, 20 * SECOND)]
    assert said(lines(), scrapes("a"), few, scrapes(registered=2)) == []


def test_a_source_that_is_scraped_rarely_is_given_the_time() -> None:
    rare = [scrape(at, "b") for at in range(0, 14 * MINUTE, 2 * MINUTE)]
    streams = lines(until=22 * MINUTE), scrapes("a", until=22 * MINUTE), rare, scrapes(registered=2, until=22 * MINUTE)
    assert said(*streams, until=21 * MINUTE) == []
    assert len(said(*streams, until=23 * MINUTE)) == 1


def test_a_jobmanager_that_another_has_followed_is_not_silent() -> None:
    other = [
        MetricEvent(
            "c", "x", "x", e.timestamp, e.time, "flink.metrics", 1, e.offset, [Sample("jm_heap_used", {"host": "x"}, 1)]
        )
        for e in scrapes(start=STOP)
        if isinstance(e, MetricEvent)
    ]
    assert said(lines(until=STOP), scrapes("a"), scrapes(until=STOP), other) == []
    assert len(said(lines(until=STOP), scrapes("a"), scrapes(until=STOP))) == 1
