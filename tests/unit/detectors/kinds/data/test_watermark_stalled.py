"""A watermark is stalled if records arrive and it does not advance; a quiet, stepped, new or firing job's is not."""

from collections.abc import Iterable

from detectors.events.event import MetricEvent, Sample
from tests.unit.detectors.story import HOUR, JOB, MINUTE, SECOND, Story, Time, ms
from tests.unit.detectors.streams import START

DELAY = 5 * SECOND


class EventTime(Story):
    """A job of a source, a window and a sink, two subtasks each; the source reads one partition per subtask.

    `reached` is the event time of each partition, which is the watermark of its source subtask; the window's is the
    lower one. `read` are the records of each subtask of each task, by name and index.
    """

    reached: dict[str, int]
    read: dict[str, int]

    def flows(
        self,
        until: Time,
        *,
        advancing: Iterable[str] = ("0", "1"),
        reading: Iterable[str] = ("0", "1"),
        window: bool = True,
        sink: bool = False,
        every: Time = "5 s",
        pace: int = 500,
        step: int = 0,
        sources: bool = True,
    ) -> "EventTime":
        """Scrapes up to a time: partitions whose event time advances, partitions with records, tasks with records.

        `step`: timestamps are rounded down to it. `sources`: whether output watermarks are exported.
        """
        while self._now < ms(until):
            for partition in advancing:
                at = START + self._now - DELAY
                self.reached[partition] = at - at % step if step else at
            samples = []
            for subtask in ("0", "1"):
                place = {"job_id": JOB, "subtask_index": subtask, "tm_id": f"tm_{subtask}", "host": f"tm_{subtask}"}
                source = {**place, "task_id": "source", "task_name": "Source:_orders"}
                reads = subtask in reading
                idle = self.read["idle" + subtask] = 0 if reads else self.read.get("idle" + subtask, 0) + ms(every)
                if sources:
                    own = {**source, "operator_name": "Source:_orders"}
                    samples.append(Sample("output_watermark", own, self.reached[subtask]))
                    samples.append(Sample("source_idle_time", own, idle))
                    offset = self._counted("offset" + subtask, pace * reads)
                    samples.append(Sample("current_offset", {**own, "topic": "orders", "partition": subtask}, offset))
                for task, received in (("window", bool(reading) and window), ("sink", sink)):
                    labels = {**place, "task_id": task, "task_name": task.title()}
                    samples.append(Sample("records_in", labels, self._counted(task + subtask, pace * received)))
                    sent = self._counted(task + "/out" + subtask, pace * (task == "window" and sink))
                    samples.append(Sample("records_out", labels, sent))
                    samples.append(Sample("input_watermark", labels, self._watermark(task)))
            self.scrape(*samples).gap(every)
        return self

    def holds(self, **watermarks: int) -> "EventTime":
        """Tasks whose own watermark is this one from now on, whatever the sources emit."""
        self.reached |= watermarks
        return self

    def follows(self, *tasks: str) -> "EventTime":
        """Tasks whose watermark follows the sources again."""
        for task in tasks:
            self.reached.pop(task)
        return self

    def restarts(self) -> "EventTime":
        """Every counter begins at 0 again, and the watermark 10 s before where it was."""
        self.state("RESTARTING").gap("1 s").state("RUNNING", "RESTARTING")
        self.read = {}
        self.reached = {p: at - 10 * SECOND for p, at in self.reached.items()}
        return self

    def reported(self, after: Time = "3 min") -> list[tuple[str, str, int]]:
        """Each change: what, its severity, and when, in seconds."""
        return [(t.transition, t.severity, (t.at - START) // 1000) for t in self.transitions(after=after)]

    def summary(self) -> str:
        return self.transitions(after=0)[0].summary

    def _watermark(self, task: str) -> int:
        return self.reached.get(task, min(self.reached[p] for p in ("0", "1")))

    def _counted(self, key: str, more: int) -> int:
        self.read[key] = self.read.get(key, 0) + more
        return self.read[key]


def event_time() -> EventTime:
    history = EventTime("watermark_stalled")
    history.reached, history.read = {"0": START - DELAY, "1": START - DELAY}, {}
    return history


def flowing(until: Time = "2 min", every: Time = "5 s") -> EventTime:
    """A healthy job up to a time."""
    return event_time().flows(until, every=every)


def idle(history: EventTime, until: Time, every: Time = "5 s", pace: int = 500) -> EventTime:
    """Partition 1 gets no more records."""
    return history.flows(until, advancing=("0",), reading=("0",), every=every, pace=pace)


def test_a_quiet_night_is_no_stall() -> None:
    night = flowing().flows("8 h", advancing=(), reading=(), every="1 min")
    assert night.flows("8 h 30 min").reported() == []


def test_a_few_records_at_night_are_no_stall_although_one_partition_is_silent_for_minutes() -> None:
    assert idle(flowing("10 min"), "20 min", pace=1).reported() == []


def test_a_job_without_event_time_is_no_stall() -> None:
    """Flink writes -2^63, which the reader drops: there are only counters."""
    history = event_time()
    for at in range(0, 20 * MINUTE, 5 * SECOND):
        labels = {"job_id": JOB, "task_id": "window", "task_name": "Window", "subtask_index": "0"}
        history.scrape(Sample("records_in", labels, at), at=at)
    assert history.reported() == []


def test_a_watermark_that_never_advanced_is_no_stall() -> None:
    assert event_time().flows("20 min", advancing=()).reported() == []


def test_a_watermark_that_moves_once_in_five_minutes_is_no_stall() -> None:
    history = event_time()
    for minutes in range(5, 121, 5):
        history.flows(f"{minutes} min", advancing=()).flows(f"{minutes} min 1 s")
    assert history.reported() == []


def test_timestamps_that_are_rounded_to_the_hour_are_no_stall_after_a_backlog() -> None:
    """In the backlog an hour passes with every sample, afterwards one takes an hour."""
    history = event_time()
    for n in range(12):
        past = START - START % HOUR - (12 - n) * HOUR
        history.holds(**{"0": past, "1": past}).flows((n + 1) * 5 * SECOND, advancing=())
    assert history.flows("4 h", step=HOUR, every="15 s").reported() == []


def test_a_restart_is_no_stall_while_the_job_catches_up() -> None:
    history = flowing().restarts()
    history.flows(history._now + 20_000, pace=5_000)
    idle(history, history._now + 3 * MINUTE, pace=5_000)
    assert history.flows("10 min").reported() == []


def test_a_sink_behind_a_window_that_fires_for_minutes_is_no_stall() -> None:
    """The window has its new watermark at once and passes it on when all its results are written."""
    history = flowing("10 min")
    for _ in range(3):
        held = history._watermark("sink")
        history.holds(sink=held, window=held + HOUR // 2)
        history.flows(history._now + 3 * MINUTE, window=False, sink=True, advancing=(), reading=())
        history.follows("sink", "window").flows(history._now + 5 * MINUTE)
    assert history.reported() == []


def test_the_last_windows_of_a_bounded_job_are_no_stall() -> None:
    """The window's watermark is 2^63 - 1 and no longer read; the sink's is as before until all is written."""
    history = flowing("10 min")
    last = history._watermark("window")
    for at in range(10 * MINUTE, 20 * MINUTE, 5 * SECOND):
        samples = []
        for task, read, sent in (("window", 0, 1), ("sink", 1, 0)):
            labels = {"job_id": JOB, "task_id": task, "task_name": task.title(), "subtask_index": "0"}
            received = history._counted(task + "0", 500 * read)
            samples += [Sample("records_in", labels, received)]
            samples += [Sample("records_out", labels, history._counted(task + "/out0", 500 * sent))]
        samples.append(Sample("input_watermark", labels, last))
        history.scrape(*samples, at=at)
    assert history.reported() == []


def test_a_task_that_reads_nothing_is_another_kinds() -> None:
    assert flowing().flows("20 min", advancing=(), window=False).reported() == []


def test_missing_samples_accuse_no_one() -> None:
    assert idle(flowing(), "2 min 30 s").gap("20 min").flows("30 min").reported() == []


def test_an_idle_partition_is_reported_after_a_minute_with_its_source_subtask() -> None:
    history = idle(flowing(), "4 min")
    found = history.transitions(after=0)[0]
    assert (found.cause, found.severity, found.at - START) == ("watermark_stalled", "warning", 175_050)
    assert found.findings[0].since - START == 115_000
    assert found.findings[0].entity["task"] == "Window"
    assert found.findings[0].entity["tm_id"] == "tm_1"
    assert found.summary == (
        "the event-time watermark of Window has been at 2023-11-14 22:15:10 UTC for 60 s although records arrive; held "
        "back by 1 of 2 source subtasks: Source:_orders (1) on tm_1, without records for 60 s, no new records in "
        "partition orders-1"
    )
    assert history.reported() == [("opened", "warning", 175)]


def test_a_backlog_that_was_read_at_once_does_not_delay_the_report() -> None:
    history = event_time().flows("20 s", pace=50_000).flows("4 min")
    assert idle(history, "8 min").reported() == [("opened", "warning", 295)]


def test_it_works_on_scrapes_every_fifteen_thirty_and_sixty_seconds() -> None:
    for every, opened in (("15 s", "1 min"), ("30 s", "1 min"), ("1 min", "2 min")):
        history = idle(flowing("10 min", every), "20 min", every)
        last_advance = 10 * MINUTE - ms(every)
        assert history.transitions(after=0)[0].at - START - last_advance == ms(opened) + 50, every
        assert "no new records in partition orders-1" in history.summary()


def test_one_source_subtask_that_reads_and_does_not_advance_is_named_without_idleness() -> None:
    history = flowing().flows("4 min", advancing=("0",))
    assert "Source:_orders (1) on tm_1" in history.summary()
    assert "without records" not in history.summary()


def test_a_task_that_does_not_pass_on_what_all_sources_emit_is_reported_so() -> None:
    history = flowing()
    held = history._watermark("window")
    history.holds(window=held, sink=held).flows("4 min")
    assert history.summary().endswith("the watermarks of all source subtasks advance")


def test_without_output_watermarks_it_is_reported_without_a_place() -> None:
    history = event_time().flows("2 min", sources=False)
    history.flows("4 min", sources=False, advancing=("0",), reading=("0",))
    assert history.summary().endswith("although records arrive")
    assert history.transitions(after=0)[0].confidence == "fair"


def test_a_record_from_the_future_is_recognised() -> None:
    history = flowing()
    future = START + 400 * 24 * HOUR
    history.holds(**{"0": future, "1": future, "window": future, "sink": future}).flows("4 min", advancing=())
    assert "ahead of the clock" in history.summary()


def test_it_is_resolved_by_three_advances_and_not_by_one() -> None:
    history = idle(idle(flowing(), "5 min").flows("5 min 5 s"), "9 min")
    assert history.reported() == [("opened", "warning", 175)]
    changes = history.flows("10 min").transitions(after="3 min")
    assert [t.transition for t in changes] == ["opened", "resolved"]
    assert changes[-1].reason == "the watermark of Window advances again"


def test_a_restart_alone_does_not_resolve_it() -> None:
    history = idle(flowing(), "5 min").restarts()
    idle(history, "20 min")
    assert [change for change, _, _ in history.reported()] == ["opened"]
    assert [change for change, _, _ in history.flows("22 min").reported()] == ["opened", "resolved"]


def test_the_end_of_the_job_resolves_it() -> None:
    history = idle(flowing(), "4 min").state("FINISHED")
    assert history.transitions(after="3 min")[-1].reason == "the job is FINISHED"


def test_one_stall_does_not_let_the_next_one_pass_unnoticed() -> None:
    """Both tasks and all their subtasks end the same pause."""
    history = idle(idle(flowing(), "30 min").flows("45 min"), "50 min")
    assert [change for change, _, _ in history.reported()] == ["opened", "resolved", "opened"]


def test_one_sample_a_record_reports_the_same_incident() -> None:
    whole, single = idle(flowing(), "5 min").flows("7 min"), event_time()
    for event in whole.events:
        assert isinstance(event, MetricEvent)
        for sample in event.samples:
            single.scrape(sample, at=event.time - START)
    assert [change for change, _, _ in whole.reported()] == ["opened", "resolved"]
    assert [change for change, _, _ in single.reported()] == ["opened", "resolved"]
    assert single.summary().partition(";")[0] == whole.summary().partition(";")[0]
