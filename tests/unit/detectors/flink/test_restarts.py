import pytest

from detectors.flink.facts import JobStateChanged
from detectors.flink.restarts import Failover, Failovers
from detectors.incident import Evidence

SECOND = 1_000


def failover(at: int, cancels: bool = False, job: str = "") -> Failover:
    return Failover(at, at, Evidence("logs", 0, at, at, "tasks should be restarted"), None, cancels, job)


def state(to: str, before: str = "RUNNING") -> JobStateChanged:
    return JobStateChanged("orders", to, before)


def test_one_line_for_each_failing_task_is_one_failover() -> None:
    known = Failovers()
    known.begin("jm", failover(0))
    assert [known.repeated("jm", at) for at in (1, 999, 1_000)] == [True, True, False]
    assert not known.repeated("another", 1)


def test_a_log_that_names_the_restarts_of_jobs_shows_each_of_them_itself() -> None:
    known = Failovers()
    known.begin("jm", failover(0))
    assert known.restarting("jm", state("RESTARTING"))
    assert not known.repeated("jm", 1)
    assert known.begin("jm", failover(SECOND)) is None
    assert known.restored("jm", 2 * SECOND) is None


def test_a_failover_that_no_other_line_shows_was_a_restart_once_the_next_begins_or_the_job_is_restored() -> None:
    known = Failovers()
    first, second = failover(0), failover(10 * SECOND)
    assert known.begin("jm", first) is None
    assert known.begin("jm", second) is first
    assert known.restored("jm", 10 * SECOND) is None, "at the same time it may be the restore before it"
    assert known.restored("jm", 11 * SECOND) is second
    assert known.restored("jm", 12 * SECOND) is None


@pytest.mark.parametrize(
    ("cancels", "fact", "restarting"),
    [
        (False, state("RESTARTING"), True),
        (False, state("CANCELLING"), False),
        (True, state("CANCELLING"), True),
        (True, state("CANCELED", before=""), False),
        (False, state("RESTARTING", before=""), False),
        (False, state("RUNNING"), False),
    ],
)
def test_a_state_shows_a_restart(cancels: bool, fact: JobStateChanged, restarting: bool) -> None:
    known = Failovers()
    known.begin("jm", failover(0, cancels))
    assert known.restarting("jm", fact) == restarting


def test_what_no_line_has_named_in_time_is_a_restart_unless_the_job_is_cancelled_for_it() -> None:
    known = Failovers()
    early, late = failover(0), failover(20 * SECOND)
    for source, one in (("a", early), ("b", late), ("c", failover(0, cancels=True))):
        known.begin(source, one)
    assert known.unnamed(lambda f: f.at < 10 * SECOND) == [early]
    assert [*known.waiting] == ["b"]
    assert known.unnamed(lambda f: True) == [late]


def test_failovers_are_bounded() -> None:
    known = Failovers()
    for n in range(500):
        known.begin(f"jm-{n}", failover(n))
    assert len(known.waiting) == 50
