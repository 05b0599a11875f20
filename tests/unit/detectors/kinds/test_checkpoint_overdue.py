"""A checkpoint in flight is overdue only where its end would be heard."""

from typing import Any

from detectors.events.event import Event
from detectors.incident import Transition
from tests.unit.detectors.failing import JOB, MINUTE, SECOND
from tests.unit.detectors.streams import START, in_order, log, metric, run


def hung(measured_until: int, every: int = 5 * SECOND, until: int = 4 * MINUTE) -> list[Transition]:
    """Six quick checkpoints, a seventh that is triggered after a minute and never ends, and the job's gauge."""
    events: list[Event] = []
    for number in range(1, 8):
        at = number * 10 * SECOND
        events.append(log("checkpoint_triggered", at, number, job=JOB, checkpoint=str(number), type="CHECKPOINT"))
        if number < 7:
            done = log(
                "checkpoint_completed", at + 20, 100 + number, job=JOB, checkpoint=str(number), bytes="1", duration="20"
            )
            events.append(done)
    for number, at in enumerate(range(2 * SECOND, measured_until, every)):
        gauge = 1.0 if at > 70 * SECOND else 0.0
        events.append(metric("checkpoints_in_progress", at, gauge, number, job_id=JOB))
    return run(in_order(events), until=START + until)


def test_it_is_said_after_thirty_seconds_while_its_jobmanager_is_measured() -> None:
    (opened,) = hung(4 * MINUTE)
    assert (opened.cause, opened.at - START) == ("checkpoint_overdue", 101 * SECOND)


def test_it_is_said_after_thirty_seconds_where_only_lines_come_or_samples_are_rare() -> None:
    for said in (hung(0), hung(4 * MINUTE, every=MINUTE)):
        assert [(t.cause, t.at - START) for t in said] == [("checkpoint_overdue", 101 * SECOND)]


def test_rare_samples_are_waited_for_since_a_line_may_have_been_lost() -> None:
    def said(last: float) -> list[int]:
        events: list[Event] = []
        for number, at in enumerate(range(12_000, 130_000, 20_000), 1):
            fields = {"job": JOB, "checkpoint": str(number)}
            events.append(log("checkpoint_triggered", at, at, type="CHECKPOINT", **fields))
            if number < 6:
                events.append(log("checkpoint_completed", at + 20, at + 20, bytes="1", duration="20", **fields))
        events += [
            metric("checkpoints_in_progress", at, last if at > 112_000 else 0.0, at, job_id=JOB)
            for at in range(9_000, 240_000, 50_000)
        ]
        return [t.at - START for t in run(in_order(events), until=START + 4 * MINUTE)]

    assert said(0.0) == []
    assert said(1.0) == [160 * SECOND]


def test_where_the_metrics_stop_with_the_lines_it_may_have_completed_unheard() -> None:
    assert hung(72 * SECOND) == []


def test_metrics_that_had_stopped_long_before_say_nothing_of_the_lines() -> None:
    assert [t.cause for t in hung(40 * SECOND)] == ["checkpoint_overdue"]


def test_it_is_said_all_the_same_when_nothing_more_is_heard_for_long() -> None:
    assert [(t.cause, t.at - START) for t in hung(72 * SECOND, until=10 * MINUTE)] == [
        ("checkpoint_overdue", 371 * SECOND)
    ]


def test_a_line_that_comes_without_metrics_lets_the_next_one_be_said_in_time() -> None:
    def line(event_type: str, at: int, number: int, **fields: Any) -> Event:
        return log(event_type, at, at, job=JOB, checkpoint=str(number), **fields)

    events: list[Event] = [metric("checkpoints_in_progress", at, 0.0, at, job_id=JOB) for at in range(0, 70_000, 5_000)]
    for number, at in enumerate((*range(10_000, 70_000, 10_000), 71_000, 150_000), 1):
        events.append(line("checkpoint_triggered", at, number, type="CHECKPOINT"))
        took = 60_000 if at == 71_000 else 20
        if at < 150_000:
            events.append(line("checkpoint_completed", at + took, number, bytes="1", duration="20"))
    assert [(t.cause, t.at - START) for t in run(in_order(events), until=START + 4 * MINUTE)] == [
        ("checkpoint_overdue", 181 * SECOND)
    ]
