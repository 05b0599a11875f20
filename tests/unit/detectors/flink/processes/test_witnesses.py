"""Which process is believed when it reports another one as lost, and when only the path between two is broken."""

import pytest

from detectors.flink.facts import (
    Fact,
    Failure,
    JobManagerFound,
    JobManagerMissed,
    JobManagerUnresolved,
    ProcessFatal,
    TaskManagerGone,
    TaskManagerRegistered,
)
from detectors.flink.processes.witnesses import Witnesses

TM, JM = "tm-1:6122-a", "jm"
SECOND, MINUTE = 1_000, 60_000
AT = 10 * MINUTE
HEAP = Failure(
    of="", id="", name="java.lang.OutOfMemoryError", message="Java heap space", first="java.lang.OutOfMemoryError"
)
OF_A_TASK = Failure(
    of="task_state", id="", name="java.lang.OutOfMemoryError", message="Java heap space", first="java.lang.Exception"
)
GONE = TaskManagerGone(why="its heartbeat timed out", tm=TM)
MISSED = JobManagerMissed(sign="heartbeat", peer="JobManager")


class Known(Witnesses):
    """Lines of one TaskManager and one JobManager."""

    def tm(self, fact: Fact, time: int) -> "Known":
        self.take("tm-1", TM, False, fact, time)
        return self

    def jm(self, fact: Fact, time: int) -> "Known":
        self.take(JM, "", True, fact, time)
        return self

    def parted(self, signs: int = 6, every: int = 10 * SECOND) -> "Known":
        """Both miss each other, and both continue."""
        self.jm(GONE, AT).tm(MISSED, AT + SECOND)
        for n in range(1, signs + 1):
            self.tm(JobManagerUnresolved(), AT + SECOND + n * every)
        self.leads(AT + MINUTE)
        return self


@pytest.mark.parametrize("error", [HEAP, OF_A_TASK, ProcessFatal()])
def test_the_word_of_a_sick_process_counts_neither_shortly_before_nor_after_its_error(error: Fact) -> None:
    known = Known().tm(error, AT)
    believed = [known.believed("tm-1", AT + after * SECOND) for after in (-61, -60, -10, 0, 300, 301)]
    assert believed == [True, False, False, False, False, True]
    assert known.believed("tm-2", AT)


def test_a_jobmanager_that_quotes_the_error_of_a_taskmanager_is_not_sick() -> None:
    assert Known().jm(OF_A_TASK, AT).believed(JM, AT)
    assert not Known().jm(HEAP, AT).believed(JM, AT)


def test_the_one_who_was_given_up_first_is_doubtful() -> None:
    known = Known().jm(GONE, AT)
    assert [known.given_up_first(TM, AT + after * SECOND) for after in (-6, -5, 0, 40)] == [False, True, True, True]
    assert not known.given_up_first("tm-2:1-b", AT)
    assert not known.given_up_first("", AT)


def test_a_sick_jobmanager_gives_up_no_one() -> None:
    assert not Known().jm(GONE, AT).jm(HEAP, AT + 9 * SECOND).given_up_first(TM, AT)


@pytest.mark.parametrize("back", [TaskManagerRegistered(tm=TM), JobManagerFound(address="jm:1")])
def test_contact_ends_both_and_a_late_line_of_before_ends_nothing(back: Fact) -> None:
    known = Known().parted().tm(back, AT - SECOND)
    assert known.path_broken(TM)
    assert not known.tm(back, AT + 2 * MINUTE).path_broken(TM)
    assert known.missing == known.given_up == {}


def test_the_path_is_broken_if_both_miss_each_other_and_both_continue() -> None:
    assert Known().parted().path_broken(TM)
    assert not Known().parted(1).path_broken(TM)
    assert not Known().parted(60, every=100).path_broken(TM)


def test_each_half_alone_proves_nothing() -> None:
    one, other = Known().parted(), Known().parted()
    one.given_up.clear()
    other.missing.clear()
    assert not one.path_broken(TM)
    assert not other.path_broken(TM)


def test_a_dead_jobmanager_is_no_broken_path() -> None:
    known = Known().parted()
    known.leading = AT
    assert not known.path_broken(TM)


def test_neither_side_may_be_sick() -> None:
    assert not Known().parted().tm(HEAP, AT + 20 * SECOND).path_broken(TM)
    assert not Known().parted().jm(HEAP, AT + 20 * SECOND).path_broken(TM)


def test_losses_far_apart_are_two_events() -> None:
    known = Known().jm(GONE, AT - 10 * MINUTE).parted()
    assert not known.path_broken(TM)
