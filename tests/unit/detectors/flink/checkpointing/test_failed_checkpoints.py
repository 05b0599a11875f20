from detectors.flink.checkpointing.failed_checkpoints import EXPIRED, FailedCheckpoint, FailedCheckpoints
from detectors.incident import Evidence

WAIT = 2_000


def failed(at: int, why: str = "", **more: bool) -> FailedCheckpoint:
    return FailedCheckpoint(at, at, Evidence("logs", 0, at, at, "failed"), why, **more)


def row(*failures: FailedCheckpoint) -> FailedCheckpoints:
    known = FailedCheckpoints()
    for number, one in enumerate(failures):
        known.add(number, one)
    return known


def test_a_row_is_complete_once_the_reasons_have_had_their_time() -> None:
    known = row(failed(10, EXPIRED), failed(20, "Disk full"))
    assert known.enough(2, WAIT) == 20 + WAIT
    assert known.enough(3, WAIT) is None
    assert row(failed(10, EXPIRED), failed(20, EXPIRED)).enough(2, WAIT) == 20, "an expiry is its own reason"


def test_a_doubtful_failure_counts_only_with_a_reason() -> None:
    known = row(failed(10, EXPIRED), failed(20, doubtful=True))
    assert known.count() == 1
    known.failed[1].why = "Disk full"
    assert known.count() == 2


def test_old_failures_are_only_counted() -> None:
    known = row(*(failed(n, EXPIRED) for n in range(100)))
    assert len(known.failed) == 16
    assert known.count() == 100


def test_a_completed_checkpoint_ends_the_row_unless_its_line_is_older() -> None:
    known = row(failed(10, EXPIRED))
    known.limit = Evidence("logs", 0, 1, 30, "Exceeded checkpoint tolerable failure threshold")
    assert not known.complete(29)
    assert known.count() == 1
    assert known.complete(30)
    assert (known.count(), known.limit) == (0, None)
    known.throw(5, failed(30, thrown=True))
    assert known.count() == 0, "a failure before that checkpoint is over"


def test_what_a_restart_aborts_is_no_failure() -> None:
    known = row(failed(10), failed(20, "Disk full"), failed(30, thrown=True))
    known.restart(40, 40, WAIT, forgive=True)
    assert [*known.failed] == [1], "those without a reason are forgiven"
    known.throw(0, failed(50, thrown=True))
    assert [*known.failed] == [1], "for good"


def test_after_a_restart_the_stack_trace_of_a_failure_that_threw_is_complete() -> None:
    known = row(failed(10, "IOException", thrown=True))
    known.restart(40, 5_000, WAIT, forgive=False)
    assert known.enough(1, WAIT) == 10 + WAIT
    known.failed[0].at = 4_900
    known.restart(4_950, 5_000, WAIT, forgive=False)
    assert known.enough(1, WAIT) == 5_000


def test_each_line_of_a_stack_trace_changes_the_reason() -> None:
    known = FailedCheckpoints()
    known.throw(7, failed(10, "IOException", thrown=True))
    known.throw(7, failed(20, "IOException: disk full", thrown=True))
    assert known.failed[7].why == "IOException: disk full"
    assert known.failed[7].time == 10
