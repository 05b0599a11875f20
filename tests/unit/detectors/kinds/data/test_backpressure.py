"""Who is the slow operator, when it is worth a warning, and what is no backpressure at all."""

from detectors.events.event import MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.containers import throttled
from tests.unit.detectors.story import JOB, OTHER, SECOND, Story
from tests.unit.detectors.streams import START

TASKS = {"source": "Source:_orders", "enrich": "enrich", "sink": "Sink:_orders_sink"}


class Pipeline(Story):
    """A job of three tasks with two subtasks each, of which the second is idle."""

    def load(self, at: int, read: int = 0, job: str = JOB, **busy: tuple[float, float]) -> "Pipeline":
        """One scrape: for each task (busy, backpressured) ms a second of subtask 0. `read`: records in."""
        samples = []
        for task, (busy_ms, waiting_ms) in busy.items():
            for subtask, factor in (("0", 1), ("1", 0)):
                where = {"task_id": task, "task_name": TASKS[task], "tm_id": f"tm_{subtask}", "host": "h"}
                labels = {"job_id": job, "subtask_index": subtask, **where}
                samples.append(Sample("busy_time", labels, busy_ms * factor))
                samples.append(Sample("backpressured_time", labels, waiting_ms))
                samples.append(Sample("records_in", labels, float(read * (9 if factor else 1))))
        return self.scrape(*samples, at=at)

    def loads(self, until: int, **busy: tuple[float, float]) -> "Pipeline":
        """The same every ten seconds from the start on."""
        for at in range(0, until, 10 * SECOND):
            self.load(at, **busy)
        return self

    def slow(self, start: int = 100 * SECOND, until: int = 200 * SECOND, job: str = JOB) -> "Pipeline":
        """The sink busy all the time and enrich waiting for it, scraped every 10 s."""
        for at in range(start, until, 10 * SECOND):
            self.load(at, at, job, source=(50, 0), enrich=(10, 900), sink=(1000, 0))
        return self

    def recovers(self, start: int, until: int) -> "Pipeline":
        """No task is busy or waits between two times in seconds."""
        for at in range(start, until, 10):
            self.load(at * SECOND, source=(50, 0), enrich=(10, 0), sink=(200, 0))
        return self

    def dragged(self, count: int = 4) -> "Pipeline":
        """Checkpoints that take 15 s, one every 20 s."""
        for n in range(count):
            self.completed(10 + n, (120 + n * 20) * SECOND, lasting="15 s")
        return self

    def reported(self) -> list[Transition]:
        """The transitions of six minutes."""
        return self.transitions("6 min")


def pipeline(usual: int = 9, *more: str) -> Pipeline:
    """A pipeline after so many quick checkpoints, one every ten seconds."""
    history = Pipeline("backpressure", *more)
    for n in range(1, usual + 1):
        history.completed(n, n * 10 * SECOND)
    return history


def test_a_slow_operator_that_drags_three_checkpoints_is_a_warning_that_names_it() -> None:
    found = pipeline().slow().dragged().reported()
    assert [(t.transition, t.cause, t.severity) for t in found][:1] == [("opened", "backpressure", "warning")]
    finding = found[0].findings[0]
    assert finding.entity["task"] == "Sink:_orders_sink"
    assert finding.entity["tm_id"] == "tm_0"
    assert "1 of 2 subtasks (0)" in finding.summary
    assert "90% of its input" in finding.summary


def test_writes_that_rocksdb_stalls_are_named_as_the_reason() -> None:
    history = pipeline().slow().dragged()
    for at in range(100, 200, 15):
        labels = {"job_id": JOB, "operator_name": "Sink:_orders_sink", "operator_id": "o", "subtask_index": "0"}
        history.measure("rocksdb_delayed_write_rate", 1e6, at * SECOND, **labels)
    assert "; RocksDB has slowed down writes of Sink:_orders_sink for" in history.reported()[0].summary


def test_a_cpu_limit_is_named_as_the_reason_and_alone_is_none() -> None:
    starved = throttled(pipeline().slow().dragged(), "tm-0", 200 * SECOND)
    assert "; TaskManager tm-0 has used up its CPU limit: throttled in 60% of its periods" in (
        starved.reported()[0].summary
    )
    fast = throttled(pipeline(30).slow(until=300 * SECOND), "tm-0", 300 * SECOND)
    assert fast.reported() == []


def test_two_dragged_checkpoints_are_not_worth_a_warning() -> None:
    assert pipeline().slow().dragged(2).reported() == []


def test_a_slow_operator_behind_which_checkpoints_stay_fast_is_not_worth_a_warning() -> None:
    assert pipeline(30).slow(until=300 * SECOND).reported() == []


def test_slow_checkpoints_without_a_slow_operator_are_somebody_elses() -> None:
    calm = pipeline().loads(200 * SECOND, source=(50, 0), enrich=(10, 0), sink=(200, 0))
    assert calm.dragged().reported() == []


def test_a_busy_source_for_which_nobody_waits_is_no_backpressure() -> None:
    busy = pipeline().loads(200 * SECOND, source=(1000, 0), enrich=(10, 0), sink=(9, 0))
    assert busy.dragged().reported() == []


def test_every_task_is_busy_when_a_job_starts_and_that_is_nothing() -> None:
    start = pipeline()
    for at in (0, 5 * SECOND):
        start.load(at, source=(1000, 0), enrich=(1000, 0), sink=(1000, 0))
    assert start.dragged().reported() == []


def test_a_job_that_catches_up_after_a_restart_is_not_warned_of() -> None:
    restarted = pipeline().state("RESTARTING", at=95 * SECOND).line("job_restored", 97 * SECOND, job=JOB)
    assert restarted.slow().dragged().reported() == []


def test_a_savepoint_that_takes_long_drags_nothing() -> None:
    history = pipeline().slow()
    for n in range(3):
        done = (120 + n * 20) * SECOND
        history.triggered(10 + n, done - 15 * SECOND, kind="Savepoint").completed(10 + n, done, lasting="15 s")
    assert history.reported() == []


def test_it_ends_when_checkpoints_are_fast_again_and_not_before() -> None:
    history = pipeline().slow().dragged().recovers(200, 230).completed(14, 210 * SECOND).completed(15, 220 * SECOND)
    assert history.reported()[-1].transition != "resolved"
    found = history.completed(16, 230 * SECOND).reported()
    assert [t.transition for t in found if t.transition != "updated"] == ["opened", "resolved"]
    assert found[-1].reason == "3 checkpoints in a row were as fast as usual"


def test_busy_times_that_fall_a_minute_after_the_checkpoints_do_not_end_it_and_open_it_again() -> None:
    """As recorded with Flink 2.2.1: it was closed, opened again by the next sample, and no longer the cause."""
    history = pipeline().slow(until=260 * SECOND).dragged().recovers(260, 300)
    for n in range(10):
        history.completed(14 + n, (205 + n * 5) * SECOND)
    found = history.reported()
    assert [t.transition for t in found if t.transition != "updated"] == ["opened", "resolved"]
    assert found[-1].at >= START + 280 * SECOND
    assert {f.since for t in found for f in t.findings} == {found[0].findings[0].since}


def test_jobs_whose_tasks_have_the_same_ids_are_kept_apart() -> None:
    history = pipeline().slow(job=OTHER).dragged()
    for n in range(1, 40):
        history.completed(n, n * 10 * SECOND, job=OTHER)
    assert history.reported() == []


def test_late_acknowledgements_lead_and_backpressure_supports_them_in_one_incident() -> None:
    history = pipeline(9, "late_barrier_acks").slow().dragged().expired(14, 205 * SECOND)
    for n in range(3):
        history.line("checkpoint_acked_late", 206 * SECOND + n, checkpoint="14", job=JOB, attempt=str(n) * 32)
    found = history.reported()
    assert len({t.incident for t in found}) == 1
    assert found[0].cause == "backpressure"
    assert found[-1].cause == "late_barrier_acks"


def test_one_sample_a_record_reports_the_same_as_a_whole_scrape() -> None:
    whole, single = pipeline().slow().dragged(), Pipeline("backpressure")
    for event in whole.events:
        if isinstance(event, MetricEvent):
            for sample in event.samples:
                single.scrape(sample, at=event.time - START)
        else:
            single.add(event)
    reported = [(t.cause, t.severity, t.at) for t in whole.reported()]
    assert reported
    assert [(t.cause, t.severity, t.at) for t in single.reported()] == reported


def test_expired_checkpoints_are_in_the_numbers_at_the_age_at_which_they_expired() -> None:
    """Completed ones alone would show a recovery while none completes any more."""
    history = pipeline().slow(until=220 * SECOND)
    for n in range(4):
        start = (120 + n * 20) * SECOND
        history.triggered(10 + n, start).expired(10 + n, start + 15 * SECOND)
    series = [f.series for t in history.reported() for f in t.findings if f.series is not None]
    assert [age for _, age in series[-1].failed][:3] == [15.0, 15.0, 15.0]
    assert series[-1].failed[0][0] == START + 135 * SECOND
    assert all(took < 1 for _, took in series[-1].points)
