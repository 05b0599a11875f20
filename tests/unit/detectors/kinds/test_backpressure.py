"""Who is the slow operator, when it is worth a warning, and what is no backpressure at all."""

from detectors.events.event import Event, MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.streams import START, in_order, log, run

JOB, OTHER = "a" * 32, "b" * 32
SECOND, MINUTE = 1_000, 60_000
TASKS = {"source": "Source:_orders", "enrich": "enrich", "sink": "Sink:_orders_sink"}


def load(at: int, job: str = JOB, read: int = 0, **busy: tuple[float, float]) -> MetricEvent:
    """One scrape: for each task (busy, backpressured) of subtask 0; subtask 1 is idle. `read`: records in."""
    samples = []
    for task, (busy_ms, waiting_ms) in busy.items():
        for subtask, factor in (("0", 1), ("1", 0)):
            labels = {
                "job_id": job,
                "task_id": task,
                "task_name": TASKS[task],
                "subtask_index": subtask,
                "tm_id": f"tm_{subtask}",
                "host": "h",
            }
            samples.append(Sample("busy_time", labels, busy_ms * factor))
            samples.append(Sample("backpressured_time", labels, waiting_ms))
            samples.append(Sample("records_in", labels, float(read * (9 if factor else 1))))
    time = START + at
    return MetricEvent("c", "m", "h", time + 50, time, "flink.metrics", 0, at, samples)


def done(n: int, at: int, duration: int, job: str = JOB) -> Event:
    return log("checkpoint_completed", at, n, checkpoint=str(n), job=job, bytes="1", duration=str(duration))


def usual(count: int = 9, job: str = JOB) -> list[Event]:
    return [done(n, n * 10 * SECOND, 100, job) for n in range(1, count + 1)]


def slow(start: int, until: int, job: str = JOB) -> list[Event]:
    """The sink busy all the time and enrich waiting for it, scraped every 10 s."""
    return [
        load(at, job, at, source=(50, 0), enrich=(10, 900), sink=(1000, 0)) for at in range(start, until, 10 * SECOND)
    ]


def dragged(first: int, start: int, count: int = 4, job: str = JOB) -> list[Event]:
    return [done(first + n, start + n * 20 * SECOND, 15_000, job) for n in range(count)]


def said(*events: Event, until: int = 6 * MINUTE) -> list[Transition]:
    """Without silence: the metrics of these streams end before their log lines do."""
    return [t for t in run(in_order(events), until=START + until) if t.cause != "telemetry_lost"]


def test_a_slow_operator_that_drags_three_checkpoints_is_a_warning_that_names_it() -> None:
    found = said(*usual(), *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND))
    assert [(t.transition, t.cause, t.severity) for t in found][:1] == [("opened", "backpressure", "warning")]
    finding = found[0].findings[0]
    assert finding.entity["task"] == "Sink:_orders_sink"
    assert finding.entity["tm_id"] == "tm_0"
    assert "1 of 2 subtasks (0)" in finding.summary
    assert "90% of its input" in finding.summary


def test_two_dragged_checkpoints_are_not_worth_a_warning() -> None:
    assert said(*usual(), *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND, 2)) == []


def test_a_slow_operator_behind_which_checkpoints_stay_fast_is_not_worth_a_warning() -> None:
    assert said(*usual(30), *slow(100 * SECOND, 300 * SECOND)) == []


def test_slow_checkpoints_without_a_slow_operator_are_somebody_elses() -> None:
    calm = [load(at, source=(50, 0), enrich=(10, 0), sink=(200, 0)) for at in range(0, 200 * SECOND, 10 * SECOND)]
    assert said(*usual(), *calm, *dragged(10, 120 * SECOND)) == []


def test_a_busy_source_for_which_nobody_waits_is_no_backpressure() -> None:
    busy = [load(at, source=(1000, 0), enrich=(10, 0), sink=(9, 0)) for at in range(0, 200 * SECOND, 10 * SECOND)]
    assert said(*usual(), *busy, *dragged(10, 120 * SECOND)) == []


def test_every_task_is_busy_when_a_job_starts_and_that_is_nothing() -> None:
    start = [load(at, source=(1000, 0), enrich=(1000, 0), sink=(1000, 0)) for at in (0, 5 * SECOND)]
    assert said(*start, *usual(), *dragged(10, 120 * SECOND)) == []


def test_a_job_that_catches_up_after_a_restart_is_not_warned_of() -> None:
    restarted = [
        log("job_state", 95 * SECOND, job=JOB, name="o", before="RUNNING", state="RESTARTING"),
        log("job_restored", 97 * SECOND, job=JOB),
    ]
    assert said(*usual(), *restarted, *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND)) == []


def test_a_savepoint_that_takes_long_drags_nothing() -> None:
    points: list[Event] = []
    for n, at in ((10, 120), (11, 140), (12, 160)):
        points.append(log("checkpoint_triggered", (at - 15) * SECOND, n, checkpoint=str(n), job=JOB, type="Savepoint"))
        points.append(done(n, at * SECOND, 15_000))
    assert said(*usual(), *slow(100 * SECOND, 200 * SECOND), *points) == []


def test_it_ends_when_checkpoints_are_fast_again_and_not_before() -> None:
    story = [*usual(), *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND)]
    assert said(*story, done(14, 210 * SECOND, 100))[-1].transition != "resolved"
    found = said(*story, done(14, 210 * SECOND, 100), done(15, 220 * SECOND, 100))
    assert [t.transition for t in found] == ["opened", "resolved"]
    assert found[-1].reason == "2 checkpoints in a row were as fast as usual"


def test_jobs_whose_tasks_have_the_same_ids_are_kept_apart() -> None:
    other = [done(n, n * 10 * SECOND, 100, OTHER) for n in range(1, 40)]
    found = said(*usual(), *other, *slow(100 * SECOND, 200 * SECOND, OTHER), *dragged(10, 120 * SECOND))
    assert found == []


def test_late_acknowledgements_lead_and_backpressure_supports_them_in_one_incident() -> None:
    late = [
        log("checkpoint_expired", 205 * SECOND, 50, checkpoint="14", job=JOB),
        *(
            log("checkpoint_acked_late", 206 * SECOND + n, 51 + n, checkpoint="14", job=JOB, attempt=str(n) * 32)
            for n in range(3)
        ),
    ]
    found = said(*usual(), *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND), *late)
    assert len({t.incident for t in found}) == 1
    assert found[0].cause == "backpressure"
    assert found[-1].cause == "late_barrier_acks"


def test_one_sample_a_record_says_the_same_as_a_whole_scrape() -> None:
    whole = [*usual(), *slow(100 * SECOND, 200 * SECOND), *dragged(10, 120 * SECOND)]
    single: list[Event] = []
    for event in whole:
        if isinstance(event, MetricEvent):
            single += [
                MetricEvent("c", "m", "h", event.timestamp, event.time, "flink.metrics", 0, event.offset * 100 + i, [s])
                for i, s in enumerate(event.samples)
            ]
        else:
            single.append(event)
    assert [(t.cause, t.severity, t.at) for t in said(*single)] == [(t.cause, t.severity, t.at) for t in said(*whole)]


def test_expired_checkpoints_are_in_the_numbers_at_the_age_at_which_they_expired() -> None:
    """Completed ones alone would show a recovery while none completes any more."""
    expired = []
    for n in range(4):
        start = 120 * SECOND + n * 20 * SECOND
        expired += [
            log("checkpoint_triggered", start, 100 + n, checkpoint=str(10 + n), job=JOB, type="CHECKPOINT"),
            log("checkpoint_expired", start + 15 * SECOND, 200 + n, checkpoint=str(10 + n), job=JOB),
        ]
    found = said(*usual(), *slow(100 * SECOND, 220 * SECOND), *expired)
    series = [f.series for t in found for f in t.findings if f.kind == "backpressure" and f.series is not None]
    assert [age for _, age in series[-1].failed][:3] == [15.0, 15.0, 15.0]
    assert series[-1].failed[0][0] == START + 135 * SECOND
    assert all(took < 1 for _, took in series[-1].points)
