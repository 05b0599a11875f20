"""What healthy clusters do that must not be taken for an incident, and what must be although it looks planned.

All detectors listen: no other may take for an incident what one rightly passes over.
"""

from detectors.incident import Transition
from tests.unit.detectors.story import JOB, KINDS, MINUTE, OTHER, SECOND, Story

GOODBYE = "The TaskExecutor is shutting down."


class Cluster(Story):
    """A job with a checkpoint of a second each minute."""

    def usual(self, first: int, count: int, start: int = 0) -> "Cluster":
        """So many checkpoints, from this number on."""
        for n in range(count):
            at = start + n * MINUTE
            self.triggered(first + n, at).completed(first + n, at + SECOND, lasting="1 s")
        return self

    def lost(self, tm: str, at: int) -> "Cluster":
        """A TaskManager is no longer reachable."""
        return self.line("tm_unreachable", at, tm=tm)

    def closed(self, tm: str, at: int, reason: str) -> "Cluster":
        """A TaskManager's connection is closed."""
        return self.line("tm_closed", at, tm=tm, reason=reason)

    def registered(self, tm: str, at: int, lag: int = 100) -> "Cluster":
        """A TaskManager registers."""
        return self.line("tm_registered", at, lag=lag, tm=tm)


def cluster(usual: int = 0) -> Cluster:
    return Cluster(*KINDS).usual(1, usual)


def words(history: Cluster, until: str) -> list[str]:
    return [t.transition for t in history.transitions(until)]


def last(history: Cluster, after: int = 0) -> Transition:
    return history.transitions(after=after)[-1]


def test_a_checkpoint_that_hangs_is_reported() -> None:
    """The streams below would be, too, but for what they show."""
    assert cluster(9).triggered(10, 9 * MINUTE).opened() == ["checkpoint_overdue"]


def test_a_savepoint_may_take_its_time() -> None:
    assert cluster(9).triggered(10, 9 * MINUTE, kind="SavepointType{name='Savepoint'}").opened() == []


def test_a_checkpoint_in_flight_ends_with_its_job_or_its_cluster() -> None:
    def hung() -> Cluster:
        return cluster(9).triggered(10, 9 * MINUTE).at(9 * MINUTE + 5 * SECOND)

    for new in ("CANCELLING", "FINISHED", "SUSPENDED", "RESTARTING"):
        assert hung().state(new, "X").opened() == [], new
    assert hung().state("FAILED", "X").opened() == ["job_failed"]
    assert hung().line("cluster_ending", what="X", status="SUCCEEDED").opened() == []


def test_a_completed_line_that_was_lost_is_made_up_for_by_the_gauge() -> None:
    history = cluster(9).triggered(10, 9 * MINUTE)
    assert history.measure("checkpoints_in_progress", 0.0, 9 * MINUTE + 10 * SECOND, job_id=JOB).opened() == []


def test_a_completed_line_that_was_lost_is_made_up_for_by_the_next_trigger() -> None:
    """Flink triggers the next one when the last has ended, by default."""
    assert cluster(9).triggered(10, 9 * MINUTE).usual(11, 1, 9 * MINUTE + 20 * SECOND).opened() == []
    transitions = cluster(9).triggered(10, 9 * MINUTE).usual(11, 1, 10 * MINUTE).transitions("15 min")
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].reason == "checkpoint 11 was triggered after it"


def test_lines_that_a_shipper_holds_back_are_waited_for() -> None:
    """A trigger that arrives at once and a completion that arrives 50 s later, with the next trigger."""
    for lag in (100, 50 * SECOND):
        held = cluster()
        for n in range(1, 12):
            held.triggered(n, n * MINUTE).completed(n, n * MINUTE + SECOND, lasting=900, lag=lag)
        assert held.opened() == [], lag
        assert held.triggered(12, 12 * MINUTE).opened() == ["checkpoint_overdue"], lag


def test_of_concurrent_checkpoints_the_hung_one_is_reported_although_others_are_triggered() -> None:
    both = cluster(9).triggered(10, 9 * MINUTE).triggered(11, 9 * MINUTE + 500)
    both.completed(10, 9 * MINUTE + 900, lasting="1 s").completed(11, 9 * MINUTE + SECOND, lasting="1 s")
    assert both.triggered(12, 10 * MINUTE).triggered(13, 11 * MINUTE).opened() == ["checkpoint_overdue"]


def test_numbers_that_jump_back_after_a_restore_are_watched_as_before() -> None:
    history = cluster(9).state("RESTARTING", "X", 10 * MINUTE).line("job_restored", 10 * MINUTE + 10, job=JOB)
    history.usual(3, 5, 11 * MINUTE)
    assert history.opened() == []
    assert history.triggered(8, 16 * MINUTE).opened() == ["checkpoint_overdue"]


def test_an_overdue_checkpoint_is_over_when_one_completes_after_a_restore_from_an_older_one() -> None:
    hung = cluster(9).triggered(10, 9 * MINUTE).state("RESTARTING", "X", 11 * MINUTE)
    assert words(hung.usual(3, 3, 12 * MINUTE), "20 min") == ["opened", "resolved"]


def test_a_notice_without_an_expiry_is_nothing() -> None:
    """Declined checkpoints, restarts and cancels are noticed as aborted, too."""
    history = cluster(9).line("checkpoint_abort_noticed", 9 * MINUTE, source="tm-1", checkpoint="10")
    assert history.usual(11, 3, 11 * MINUTE).opened() == []


def test_a_notice_belongs_to_the_job_its_taskmanager_works_for() -> None:
    def noticed(job: str) -> Cluster:
        history = cluster(9).line("tm_started", 0, source="tm-1", tm="tm-1")
        history.measure("records_in", 5.0, 10, job_id=job, tm_id="tm_1").expired(10, 9 * MINUTE)
        return history.line("checkpoint_abort_noticed", 9 * MINUTE + 4 * SECOND, source="tm-1", checkpoint="10")

    assert noticed(OTHER).opened() == ["checkpoint_overdue"]
    assert last(noticed(OTHER), 5 * SECOND).cause == "checkpoint_overdue"
    assert last(noticed(JOB), 5 * SECOND).cause == "late_barrier_acks"


def test_many_expiries_after_the_late_one_do_not_lose_the_open_finding() -> None:
    history = cluster().expired(1, 8 * MINUTE)
    for n in range(3):
        history.line("checkpoint_acked_late", 9 * MINUTE + n, checkpoint="1", job=JOB, attempt=str(n) * 32)
    for n in range(2, 12):
        history.expired(n, (9 + n) * MINUTE)
    transitions = history.usual(12, 3, 22 * MINUTE).transitions("40 min")
    assert (transitions[-1].transition, transitions[-1].cause) == ("resolved", "late_barrier_acks")


def test_a_taskmanager_that_reports_its_own_end_is_not_lost_whichever_line_comes_first() -> None:
    assert cluster().closed("t", 0, GOODBYE).lost("t", 1_000).opened() == []
    assert cluster().lost("t", 0).closed("t", 1_500, GOODBYE).opened() == []
    assert cluster().lost("t", 0).opened() == ["taskmanager_lost"]


def test_containers_that_flink_releases_are_not_lost_and_those_that_yarn_kills_are() -> None:
    released = "Container killed by the ApplicationMaster. Exit code is 143"
    assert cluster().closed("t", 0, released).lost("t", 900).opened() == []
    killed = "Container [pid=1] is running beyond the 'PHYSICAL' memory limit. Killing container. Exit code is 143"

    def signalled() -> Cluster:
        history = cluster().line("tm_started", 0, source="tm", tm="t")
        return history.line("process_signalled", 1_000, source="tm", signal="15")

    assert signalled().closed("t", 1_500, killed).opened() == ["memory_limit_kill"]
    assert signalled().lost("t", 1_500).opened() == []


def test_a_signal_to_one_taskmanager_is_no_excuse_for_another() -> None:
    history = cluster().line("tm_started", 0, source="t1", tm="t1").line("tm_started", 0, source="t2", tm="t2")
    history.line("process_signalled", 1_000, source="t1", signal="15")
    assert history.lost("t2", 2_000).opened() == ["taskmanager_lost"]


def test_what_the_jobmaster_still_reports_of_a_replaced_taskmanager_is_no_second_loss() -> None:
    history = cluster().lost("t", 0).registered("u", 10 * SECOND).lost("t", 40 * SECOND)
    assert words(history, "10 min") == ["opened", "resolved"]


def test_an_old_registration_that_is_reported_again_ends_no_loss() -> None:
    history = cluster().registered("u", 0).lost("t", 10 * SECOND).registered("u", 0, lag=20 * SECOND)
    assert words(history, "10 min") == ["opened"]
