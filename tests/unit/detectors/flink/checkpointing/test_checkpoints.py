"""What is new in a line about a checkpoint, and what its job's checkpoints show."""

import pytest

from detectors.flink.checkpointing.checkpoints import GAUGE_LAG_MS, JobCheckpoints
from detectors.flink.facts import CheckpointCompleted, CheckpointFailed, CheckpointTriggered
from detectors.incident import Evidence

SECOND, MINUTE = 1_000, 60_000


class Checkpoints(JobCheckpoints):
    """With lines in one word each, at a time in ms."""

    def triggered(self, number: int, at: int, kind: str = "CHECKPOINT") -> CheckpointTriggered | None:
        record = Evidence("flink.logs", 0, at, at, f"Triggering checkpoint {number}")
        return self.trigger(CheckpointTriggered(number, type=kind), at + 100, record)

    def done(self, number: int, at: int) -> CheckpointCompleted | None:
        return self.complete(CheckpointCompleted(number, 20, 1), at)

    def times_out(self, number: int, at: int) -> CheckpointFailed | None:
        return self.fail(CheckpointFailed(number, "expired"), at)


def test_a_trigger_and_an_end_are_new_once() -> None:
    job = Checkpoints()
    assert job.triggered(1, 0) is not None
    assert job.triggered(1, 0) is None
    assert job.done(1, 20) is not None
    assert job.done(1, 20) is None
    assert job.triggered(1, 0) is None
    assert (job.completed, job.latest, job.oldest()) == (1, 1, None)


def test_what_ended_unseen_is_named_by_the_next_trigger() -> None:
    job = Checkpoints()
    job.triggered(1, 0)
    following = job.triggered(2, MINUTE)
    assert following is not None
    assert following.unseen == (1,)
    assert [*job.in_progress] == [2]


def test_concurrent_checkpoints_and_savepoints_end_each_other_not() -> None:
    job = Checkpoints()
    job.triggered(1, 0)
    job.triggered(2, MINUTE, "SAVEPOINT")
    assert job.oldest() is not None
    job.triggered(3, MINUTE)
    assert [*job.in_progress] == [2, 3]
    job.concurrent = True
    job.triggered(4, 2 * MINUTE)
    assert [*job.in_progress] == [2, 3, 4]


@pytest.mark.parametrize(("kind", "savepoint"), [("CHECKPOINT", False), ("SAVEPOINT", True), ("Savepoint{x}", True)])
def test_a_savepoint_is_known_from_its_trigger(kind: str, savepoint: bool) -> None:
    job = Checkpoints()
    job.triggered(1, 0, kind)
    known = job.done(1, MINUTE)
    assert known is not None
    assert (known.seen, known.savepoint) == (True, savepoint)
    unknown = job.done(2, 2 * MINUTE)
    assert unknown is not None
    assert (unknown.seen, unknown.savepoint) == (False, False)


def test_after_a_restart_numbers_may_begin_again_and_older_lines_are_outdated() -> None:
    job = Checkpoints()
    for number in (1, 2, 3):
        job.triggered(number, number * MINUTE)
        job.done(number, number * MINUTE + 20)
    job.triggered(4, 4 * MINUTE)
    job.restart(5 * MINUTE, restored=True)
    assert job.oldest() is None
    assert job.done(4, 5 * MINUTE - 1) is None
    assert job.times_out(4, 5 * MINUTE - 1) is None
    assert job.triggered(2, 5 * MINUTE - 1) is None
    assert job.triggered(2, 6 * MINUTE) is not None
    first = job.done(2, 6 * MINUTE + 20)
    assert first is not None
    assert first.restored
    assert (job.restored, job.latest) == (False, 2)


def test_a_number_that_comes_again_with_a_newer_time_shows_a_restart_that_no_line_has_shown() -> None:
    job = Checkpoints()
    for number in (1, 2, 3):
        job.triggered(number, number * MINUTE)
        job.done(number, number * MINUTE + 20)
    assert job.triggered(2, 4 * MINUTE) is not None
    first = job.done(2, 4 * MINUTE + 20)
    assert first is not None
    assert first.restored
    assert job.done(3, 3 * MINUTE + 20) is None
    assert job.done(3, 5 * MINUTE) is not None


def test_a_savepoint_may_complete_after_a_later_checkpoint() -> None:
    job = Checkpoints()
    job.triggered(5, 0, "SAVEPOINT")
    job.triggered(6, MINUTE)
    job.done(6, MINUTE + 20)
    late = job.done(5, 2 * MINUTE)
    assert late is not None
    assert (late.savepoint, job.completed, job.restored) == (True, 6, False)
    assert job.done(5, 2 * MINUTE) is None


def test_a_savepoint_is_not_the_first_checkpoint_after_a_restore() -> None:
    job = Checkpoints()
    job.restart(0, restored=True)
    job.triggered(1, MINUTE, "SAVEPOINT")
    job.done(1, 2 * MINUTE)
    assert job.restored


def test_the_timeout_is_the_age_at_the_expiry_and_is_not_learned_twice() -> None:
    job = Checkpoints()
    job.triggered(1, 0)
    expired = job.times_out(1, 10 * MINUTE)
    assert expired is not None
    assert (expired.again, expired.since, expired.triggered is not None) == (False, 0, True)
    again = job.times_out(1, 11 * MINUTE)
    assert again is not None
    assert (again.again, job.timeout, job.expired) == (True, 10 * MINUTE, [(10 * MINUTE, 10 * MINUTE)])


def test_an_expiry_is_news_although_a_line_has_said_that_it_failed() -> None:
    job = Checkpoints()
    job.fail(CheckpointFailed(4, "failed"), MINUTE)
    expired = job.times_out(4, MINUTE)
    assert expired is not None
    assert not expired.again
    again = job.times_out(4, 2 * MINUTE)
    assert again is not None
    assert again.again


def test_a_gauge_of_none_in_progress_ends_what_began_before_it_was_taken() -> None:
    job = Checkpoints()
    job.triggered(1, 10 * SECOND)
    job.measure(1.0, MINUTE)
    job.measure(0.0, 10 * SECOND + GAUGE_LAG_MS - 1)
    assert job.oldest() is not None
    job.measure(0.0, 10 * SECOND + GAUGE_LAG_MS)
    assert job.oldest() is None


def test_the_lag_of_a_single_late_line_fades() -> None:
    job = Checkpoints()
    job.shipped(400 * SECOND)
    assert job.lag == 300 * SECOND
    for _ in range(2_000):
        job.shipped(100)
    assert 0 < job.lag < SECOND


def test_what_is_kept_is_bounded() -> None:
    job = Checkpoints()
    for number in range(100):
        job.triggered(2 * number, number * MINUTE)
        job.times_out(2 * number, number * MINUTE + SECOND)
        job.triggered(2 * number + 1, number * MINUTE, "SAVEPOINT")
    assert len(job.in_progress) == 16
    assert len(job.expired) == 16


def test_a_duration_that_the_end_does_not_state_is_the_time_since_the_trigger() -> None:
    job = Checkpoints()
    job.triggered(1, 0)
    seen = job.complete(CheckpointCompleted(1, bytes=5), 400)
    unseen = job.complete(CheckpointCompleted(2, bytes=5), 900)
    assert seen is not None
    assert unseen is not None
    assert (seen.duration, unseen.duration, job.usual) == (400, -1, 400)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("apart", [-5, 0, 5])
def test_a_completion_that_log_and_event_both_state_is_one_and_no_restart(first: bool, apart: int) -> None:
    """The event has the time of the last acknowledgement, the line that of the completion."""
    job = Checkpoints()
    for number in (1, 2, 3):
        at = number * MINUTE
        assert job.complete(CheckpointCompleted(number, 20, 1), at, reported=first) is not None
        assert job.complete(CheckpointCompleted(number, 20, 1), at + apart, reported=not first) is None
        assert not job.restored


def test_a_number_that_only_the_events_repeat_later_shows_a_restore() -> None:
    job = Checkpoints()
    for number in (1, 2, 3):
        job.complete(CheckpointCompleted(number, 20, 1), number * MINUTE, reported=True)
    again = job.complete(CheckpointCompleted(2, 20, 1), 9 * MINUTE, reported=True)
    assert again is not None
    assert again.restored


def test_a_missing_line_makes_a_job_lossy_for_64_checkpoints() -> None:
    job = Checkpoints()
    for number in range(1, 200):
        if number != 5:
            job.triggered(number, number * MINUTE)
        job.done(number, number * MINUTE + 20)
        assert (job.lossy > 0) == (5 <= number < 69), number
        assert job.interval in (0, MINUTE)


@pytest.mark.parametrize("missing", ["end", "both"])
def test_the_next_trigger_shows_what_is_missing(missing: str) -> None:
    job = Checkpoints()
    job.triggered(1, 0)
    job.done(1, 20)
    if missing == "end":
        job.triggered(2, MINUTE)
    assert not job.lossy
    job.triggered(3, 2 * MINUTE)
    assert job.lossy


def test_nothing_is_missing_where_checkpoints_overlap_or_only_ends_are_reported() -> None:
    job = Checkpoints()
    for number in range(1, 9):
        job.done(number, number * MINUTE)
    assert not job.lossy
    job = Checkpoints()
    job.triggered(1, 0)
    job.triggered(2, MINUTE)
    job.done(1, 2 * MINUTE)
    assert (job.concurrent, job.lossy) == (True, 0)


def test_what_a_source_notes_counts_once_and_its_size_is_unknown() -> None:
    job = Checkpoints()
    noted = CheckpointCompleted(1, for_source=True)
    assert job.complete(noted, 20) is None
    job.triggered(1, 0)
    found = job.complete(noted, 20)
    assert found is not None
    assert (found.duration, found.seen, job.sizes, job.completed) == (20, True, [], 1)
    assert job.complete(noted, 21) is None
    assert job.done(1, 19) is None
