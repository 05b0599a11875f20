"""A task is stuck if records wait before it and none moves; a slow, quiet, restoring or firing task is not."""

from collections.abc import Iterable

from detectors.events.event import MetricEvent, Sample
from detectors.incident import Transition
from tests.unit.detectors.story import JOB, MINUTE, OTHER, Story, Time, ms
from tests.unit.detectors.streams import START

TASKS = {"source": "Source:_orders", "enrich": "enrich", "sink": "Sink:_archive"}
FLOWING = {"source": (100, 0, 0), "enrich": (200, 0, 1), "sink": (300, 0, 1)}
LOOP = {"source": (0, 1000, 0), "enrich": (1000, 0, 12), "sink": (0, 0, 0)}
LOCKED = {"source": (0, 1000, 0), "enrich": (0, 0, 12), "sink": (0, 0, 0)}
BLOCKED_SINK = {"source": (0, 1000, 0), "enrich": (0, 1000, 12), "sink": (1000, 0, 14)}
SLOW = {"source": (50, 950, 0), "enrich": (50, 950, 12), "sink": (1000, 0, 14)}
QUIET = {"source": (0, 0, 0), "enrich": (0, 0, 0), "sink": (0, 0, 0)}

Load = dict[str, tuple[int, int, int]]


class Pipeline(Story):
    """A job of three tasks with two subtasks each, on two TaskManagers that are scraped one after the other."""

    counters: dict[tuple[str, str, str], int]
    moves: tuple[str, ...] = tuple(TASKS)

    def flows(
        self,
        until: Time,
        load: Load,
        *,
        moving: Iterable[str] = (),
        every: Time = "5 s",
        pace: int = 50,
        job: str = JOB,
        chained: str = "",
        pending: int = 0,
    ) -> "Pipeline":
        """Scrapes up to a time. `moving` are tasks, or subtasks as task/index, whose counters rise by `pace`.

        `load`: busy and backpressured ms/s and queued buffers of each task. `chained`: a task in which only the
        counter of its last operator rises. `pending`: records that the source could read.
        """
        while self._now < ms(until):
            for tm in ("0", "1"):
                samples = []
                for task, (busy, waiting, queue) in load.items():
                    labels = {"job_id": job, "task_id": task, "task_name": TASKS[task], "subtask_index": tm}
                    labels |= {"tm_id": f"tm_{tm}:6122_aaaaaa", "host": f"tm_{tm}"}
                    read = self._counted(job, task, tm, pace if task in moving or f"{task}/{tm}" in moving else 0)
                    sent = 0 if task == "sink" else read
                    samples += [Sample("records_in", labels, read), Sample("records_out", labels, sent)]
                    samples += [Sample("busy_time", labels, busy), Sample("backpressured_time", labels, waiting)]
                    samples.append(Sample("input_queue_length", labels, queue))
                    writer = {**labels, "operator_name": "Writer"}
                    emitted = self._counted(job, f"{task}/writer", tm, pace if task == chained else 0)
                    samples.append(Sample("operator_records_in", writer, emitted))
                    if task == "source":
                        samples.append(Sample("pending_records", writer, pending))
                self.scrape(*samples, at=self._now + int(tm) * 200, source=f"tm-{tm}", host=f"tm-{tm}")
            self.gap(every)
        return self

    def restarts(self) -> "Pipeline":
        """Every counter begins at 0 again."""
        self.state("RESTARTING").gap("1 s").state("RUNNING", "RESTARTING")
        self.counters = dict.fromkeys(self.counters, 0)
        return self

    def reported(self, after: Time = "3 min") -> list[tuple[str, str, int]]:
        """Each change: what, its severity, and when, in seconds."""
        return [(t.transition, t.severity, (t.at - START) // 1000) for t in self.transitions(after=after)]

    def first(self) -> Transition:
        return self.transitions(after=0)[0]

    def _counted(self, job: str, task: str, subtask: str, more: int) -> int:
        key = job, task, subtask
        self.counters[key] = self.counters.get(key, 0) + more
        return self.counters[key]


def pipeline(*more: str) -> Pipeline:
    history = Pipeline("task_stuck", *more)
    history.counters = {}
    return history


def flowing(until: Time = "2 min", every: Time = "5 s") -> Pipeline:
    """A healthy job up to a time."""
    return pipeline().flows(until, FLOWING, moving=TASKS, every=every)


def test_a_slow_task_whose_records_still_move_is_not_stuck() -> None:
    assert flowing().flows("20 min", SLOW, moving=TASKS, pace=1).reported() == []


def test_a_slow_task_that_moves_every_forty_seconds_is_not_stuck() -> None:
    history = flowing()
    for _ in range(20):
        history.flows(history._now + 5_000, BLOCKED_SINK, moving=TASKS, pace=1)
        history.flows(history._now + 35_000, BLOCKED_SINK)
    assert history.reported() == []


def test_a_job_without_input_is_not_stuck() -> None:
    assert flowing().flows("1 h", QUIET, every="30 s").reported() == []


def test_subtasks_that_get_no_records_while_their_siblings_are_slow_are_not_stuck() -> None:
    """Skewed keys: subtask 1 starves with empty inputs, all records are for subtask 0."""
    starving = {**SLOW, "sink": (100, 0, 0)}
    assert flowing().flows("20 min", starving, moving=("source", "enrich", "sink/0")).reported() == []


def test_a_source_that_polls_a_quiet_topic_is_busy_and_not_stuck() -> None:
    polling = {"source": (1000, 0, 0), "enrich": (0, 300, 0), "sink": (0, 0, 0)}
    assert flowing().flows("20 min", polling).reported() == []


def test_a_task_that_restores_its_state_has_read_nothing_yet_and_is_not_stuck() -> None:
    history = pipeline()
    for _ in range(2):
        history.flows(history._now + 10 * MINUTE, LOOP, moving=("source",), pace=0).restarts()
    assert history.reported() == []


def test_a_window_that_emits_for_minutes_into_its_own_sink_is_not_stuck() -> None:
    firing = {"source": (0, 1000, 0), "enrich": (0, 1000, 12), "sink": (1000, 0, 14)}
    assert flowing().flows("10 min", firing, chained="sink").reported() == []


def test_a_task_that_waits_for_a_barrier_while_another_branch_moves_is_not_stuck() -> None:
    waiting = {"source": (0, 900, 0), "enrich": (1000, 0, 3), "sink": (0, 0, 16)}
    assert flowing().flows("10 min", waiting, moving=("enrich",), pace=1).reported() == []


def test_attempts_that_each_fail_after_the_same_few_records_are_a_restart_loop() -> None:
    """On a full disk, each attempt read 2,081 records and was busy at first: every scrape saw another attempt."""
    history = flowing()
    for _ in range(20):
        history.state("RESTARTING").gap("1 s").state("RUNNING", "RESTARTING").flows(history._now + 5_000, LOOP)
    assert history.reported(after=0) == []
    assert history.flows(history._now + 70_000, LOOP).reported(after=0)[0][0] == "opened"


def test_pauses_that_recur_are_usual_and_reported_once_at_most() -> None:
    """A sink that writes a batch of 80 s every two minutes."""
    history = flowing()
    for _ in range(20):
        history.flows(history._now + 80_000, BLOCKED_SINK).flows(history._now + 40_000, SLOW, moving=TASKS)
    assert [change for change, _, _ in history.reported()].count("opened") == 1


def test_missing_samples_accuse_no_one() -> None:
    history = flowing().flows("2 min 20 s", LOOP)
    assert history.gap("10 min").flows("13 min", FLOWING, moving=TASKS).reported() == []


def test_it_is_reported_after_a_minute_with_task_subtasks_and_taskmanager() -> None:
    history = flowing().flows("3 min 30 s", {**LOOP, "enrich": (1000, 0, 12)}, moving=("enrich/1",))
    found = history.first()
    assert (found.cause, found.severity, found.at - START) == ("task_stuck", "warning", 175_050)
    finding = found.findings[0]
    assert finding.since - START == 115_000
    assert finding.entity == {
        "job_id": JOB, "job_name": "", "task": "enrich", "tm_id": "tm_0:6122_aaaaaa", "host": "tm_0"
    }  # fmt: skip
    assert "1 of 2 subtasks (0) on tm_0:6122_aaaaaa, busy all the time" in finding.summary
    assert "Source:_orders waits for it" in finding.summary


def test_it_becomes_critical_after_five_minutes_and_is_one_incident() -> None:
    history = flowing().flows("20 min", LOOP)
    assert history.reported() == [("opened", "warning", 175), ("updated", "critical", 415)]
    assert "2 of 2 subtasks (0, 1) on 2 TaskManagers" in history.transitions(after=0)[-1].summary


def test_it_works_on_scrapes_every_fifteen_thirty_and_sixty_seconds() -> None:
    for every, opened in (("15 s", "1 min"), ("30 s", "1 min"), ("1 min", "2 min")):
        history = flowing("10 min", every).flows("20 min", LOOP, every=every)
        last_moved = 10 * MINUTE - ms(every)
        assert history.first().at - START - last_moved == ms(opened) + 50, every


def test_a_blocked_sink_is_named_and_not_the_tasks_that_wait_for_it() -> None:
    assert flowing().flows("4 min", BLOCKED_SINK).first().findings[0].entity["task"] == "Sink:_archive"


def test_a_task_that_is_not_busy_is_stuck_if_its_input_is_full_and_nothing_moves() -> None:
    finding = flowing().flows("4 min", LOCKED).first().findings[0]
    assert finding.entity["task"] == "enrich"
    assert finding.summary.endswith("not busy")
    assert finding.confidence == "fair"


def test_a_job_of_one_task_is_stuck_if_records_are_pending() -> None:
    chain = {"source": (1000, 0, 0)}
    history = pipeline().flows("2 min", {"source": (300, 0, 0)}, moving=("source",), pending=10)
    assert history.flows("4 min", chain, pending=10).first().findings[0].entity["task"] == "Source:_orders"


def test_it_is_resolved_by_three_samples_with_movement_and_not_by_one() -> None:
    history = flowing().flows("4 min", LOOP).flows("4 min 5 s", LOOP, moving=("enrich",)).flows("9 min", LOOP)
    assert [change for change, _, _ in history.reported()] == ["opened", "updated"]
    history.flows("10 min", FLOWING, moving=TASKS)
    changes = history.transitions(after="3 min")
    assert [t.transition for t in changes][-1] == "resolved"
    assert changes[-1].reason == "enrich processes records again"


def test_a_restart_that_stops_at_the_same_record_is_the_same_incident() -> None:
    history = flowing().flows("4 min", LOOP).restarts()
    history.flows("4 min 10 s", LOOP, moving=("source", "enrich"), pace=1).flows("20 min", LOOP)
    assert [change for change, _, _ in history.reported()] == ["opened", "updated"]


def test_a_restart_resolves_it_once_records_move_or_none_wait() -> None:
    moving = flowing().flows("4 min", LOOP).restarts().flows("6 min", FLOWING, moving=TASKS)
    quiet = flowing().flows("4 min", LOOP).restarts().flows("6 min", QUIET)
    for history in (moving, quiet):
        assert [change for change, _, _ in history.reported()] == ["opened", "resolved"]


def test_the_end_of_the_job_resolves_it() -> None:
    history = flowing().flows("4 min", LOOP).state("CANCELLING").state("CANCELED", "CANCELLING")
    assert history.transitions(after="3 min")[-1].reason == "the job is CANCELLING"


def test_jobs_whose_tasks_have_the_same_ids_are_kept_apart() -> None:
    """One job is quiet, the other one is loaded."""
    history = flowing().at(0).flows("2 min", FLOWING, moving=TASKS, job=OTHER)
    history.flows("10 min", QUIET).at("2 min").flows("10 min", SLOW, moving=TASKS, job=OTHER)
    assert history.reported() == []


def test_what_it_holds_up_joins_its_incident() -> None:
    history = pipeline("checkpoint_overdue").job().runs().checkpoints(6, every="10 s", lasting="20 ms")
    history.at(0)
    flowing_then_stuck = Pipeline.flows(history, "2 min", FLOWING, moving=TASKS)
    flowing_then_stuck.at("2 min").triggered(7).flows("9 min", LOOP)
    changes = history.transitions(after=0)
    assert len({t.incident for t in changes}) == 1
    assert changes[-1].cause == "task_stuck"
    assert {f.kind for f in changes[-1].findings} == {"task_stuck", "checkpoint_overdue"}


def test_one_sample_a_record_reports_the_same_as_a_whole_scrape() -> None:
    whole, single = flowing().flows("4 min", LOOP).flows("6 min", FLOWING, moving=TASKS), pipeline()
    for event in whole.events:
        assert isinstance(event, MetricEvent)
        for sample in event.samples:
            single.scrape(sample, at=event.time - START)
    assert single.reported() == whole.reported() != []
