"""A checkpoint in progress is overdue only if its end would have been seen."""

from tests.unit.detectors.story import JOB, MINUTE, OTHER, SECOND, Story, story
from tests.unit.detectors.streams import START


def overdue() -> Story:
    return story("checkpoint_overdue").job("orders")


def reported(history: Story, until: int | str = "4 min") -> list[tuple[str, int]]:
    """Each change with its cause and its time in seconds."""
    return [(t.cause, (t.at - START) // SECOND) for t in history.transitions(until)]


def hung(measured_until: int, every: int = 5 * SECOND) -> Story:
    """Six quick checkpoints, a seventh that is triggered after a minute and never ends, and the job's gauge."""
    history = overdue().at("10 s").checkpoints(6, every="10 s", lasting="20 ms").triggered()
    return in_progress(history, 2 * SECOND, measured_until, every, 70 * SECOND)


def in_progress(history: Story, start: int, until: int, every: int, hangs: int, last: float = 1.0) -> Story:
    """The gauge of checkpoints in progress: 0, and `last` once one hangs."""
    for at in range(start, until, every):
        history.measure("checkpoints_in_progress", last if at > hangs else 0.0, at, job_id=JOB)
    return history


def test_a_checkpoint_twice_as_slow_as_usual_and_a_savepoint_of_five_minutes_are_healthy() -> None:
    history = overdue().at("10 s").checkpoints(8, every="1 min", lasting="20 s")
    history.checkpoint(lasting="55 s").gap("1 min").checkpoint(lasting="5 min", kind="SAVEPOINT").gap("6 min")
    assert reported(history.checkpoints(3, every="1 min", lasting="20 s"), "30 min") == []


def test_it_is_reported_after_thirty_seconds_while_its_jobmanager_is_measured() -> None:
    assert reported(hung(4 * MINUTE)) == [("checkpoint_overdue", 101)]


def test_it_is_reported_after_thirty_seconds_where_only_lines_come_or_samples_are_rare() -> None:
    for history in (hung(0), hung(4 * MINUTE, every=MINUTE)):
        assert reported(history) == [("checkpoint_overdue", 101)]


def test_rare_samples_are_waited_for_since_a_line_may_have_been_lost() -> None:
    def rare(last: float) -> Story:
        history = overdue().at("12 s").checkpoints(5, every="20 s", lasting="20 ms").triggered()
        return in_progress(history, 9 * SECOND, 4 * MINUTE, 50 * SECOND, 112 * SECOND, last)

    assert reported(rare(0.0)) == []
    assert reported(rare(1.0)) == [("checkpoint_overdue", 160)]


def test_where_the_metrics_stop_with_the_lines_it_may_have_completed_unseen() -> None:
    assert reported(hung(72 * SECOND)) == []


def test_metrics_that_had_stopped_long_before_report_nothing_of_the_lines() -> None:
    assert reported(hung(40 * SECOND)) == [("checkpoint_overdue", 101)]


def test_it_is_reported_all_the_same_when_nothing_more_is_seen_for_long() -> None:
    assert reported(hung(72 * SECOND), until="10 min") == [("checkpoint_overdue", 371)]


def test_a_line_that_comes_without_metrics_lets_the_next_one_be_reported_in_time() -> None:
    history = in_progress(overdue(), 0, 70 * SECOND, 5 * SECOND, 70 * SECOND)
    history.at("10 s").checkpoints(6, every="10 s", lasting="20 ms")
    history.triggered(at="71 s").completed(at="131 s", lasting="20 ms").triggered(at="150 s")
    assert reported(history) == [("checkpoint_overdue", 181)]


def lossy(lost: str, every: str = "60 s") -> Story:
    """Eight quick checkpoints, of which a line of the fifth is lost, and a ninth of which only the trigger is seen."""
    history = overdue().at("10 s").checkpoints(8, every=every, lasting="20 ms").triggered()
    kept = [e for e in history.events if (getattr(e, "event_type", ""), e.fields.get("checkpoint")) != (lost, "5")]
    history.events[:] = kept
    return history


def test_where_a_line_was_lost_before_the_next_trigger_is_waited_for() -> None:
    for lost in ("checkpoint_triggered", "checkpoint_completed"):
        hangs = 10 + 8 * 60
        assert reported(lossy(lost), "20 min")[-1] == ("checkpoint_overdue", hangs + 67)
        assert not [r for r in reported(lossy(lost).at("550 s").triggered(), "560 s") if r[1] >= hangs]


def test_where_a_line_was_lost_a_sample_of_it_in_progress_is_enough() -> None:
    history = in_progress(lossy("checkpoint_triggered"), 300 * SECOND, 540 * SECOND, 5 * SECOND, 491 * SECOND)
    assert reported(history, "540 s") == [("checkpoint_overdue", 521)]


def test_where_no_line_was_lost_for_long_a_checkpoint_is_reported_at_once() -> None:
    history = lossy("checkpoint_triggered", every="10 s").completed().gap("10 s")
    history.checkpoints(70, every="10 s", lasting="20 ms").triggered()
    since = 10 + 9 * 10 + 70 * 10
    assert reported(history, "20 min")[-1] == ("checkpoint_overdue", since + 31)


def test_a_checkpoint_that_a_source_notes_as_completed_has_completed() -> None:
    history = overdue().at("10 s").checkpoints(6, every="60 s", lasting="20 ms").triggered()
    assert reported(history, "8 min") == [("checkpoint_overdue", 401)]
    noted = history.line("checkpoint_completed_for_source", at="370 s 21 ms", checkpoint="7")
    assert reported(noted, "8 min") == []


def test_what_a_source_notes_closes_the_finding() -> None:
    history = overdue().at("10 s").checkpoints(6, every="60 s", lasting="20 ms").triggered()
    history.line("checkpoint_completed_for_source", at="420 s", checkpoint="7")
    (opened, ended) = history.transitions("20 min")
    assert (opened.transition, ended.transition) == ("opened", "resolved")


def not_written(*jobs: str) -> list[str]:
    """The last summary of each incident: a checkpoint of each job expires, and then a task fails to write its part."""
    history = story("checkpoint_overdue")
    for job in jobs:
        history.job(job, job).at("10 s").checkpoints(6, every="10 s", lasting="20 ms").triggered(7, "70 s")
        history.expired(7, "130 s")
    causes = (("java.io.IOException", "Could not flush", ""), ("x.AmazonS3Exception", "Status Code: 500", ""))
    history.by("tm").line("checkpoint_async_failed", "150 s", checkpoint="7").stack(*causes, at="150 s")
    return list({t.incident: t.summary for t in history.transitions("4 min")}.values())


def test_an_expiry_is_explained_by_a_task_that_could_not_write_its_part() -> None:
    (summary,) = not_written(JOB)
    assert summary.endswith(", because a task could not write its part: AmazonS3Exception: Status Code: 500")


def test_a_task_explains_nothing_where_several_jobs_are_at_its_checkpoint() -> None:
    assert ["because" in summary for summary in not_written(JOB, OTHER)] == [False, False]
