"""Which TaskManagers are lost, which have only left, and what ends a loss."""

import pytest

from detectors.incident import Transition
from tests.unit.detectors.story import MINUTE, SECOND, Story
from tests.unit.detectors.streams import START

TM, NEW = "tm-1:6122-aaaaaa", "tm-2:6122-bbbbbb"
AT = 10 * MINUTE


class TaskManagers(Story):
    """A cluster with one TaskManager, of which something is logged ten minutes after START."""

    def then(self, after: int, meaning: str, source: str = "jm", **fields: str) -> "TaskManagers":
        """A line so long after AT."""
        return self.line(meaning, AT + after, source=source, **fields)

    def reported(self, minutes: int = 4) -> list[Transition]:
        """The transitions within so many minutes of AT."""
        return self.transitions(AT + minutes * MINUTE)


def cluster() -> TaskManagers:
    history = TaskManagers("taskmanager_lost").runs(0).by("tm-1").line("tm_started", 0, tm=TM).by("jm")
    return history.line("tm_registered", 1, tm=TM, host="tm-1")


@pytest.mark.parametrize(
    ("meaning", "fields", "why"),
    [
        ("tm_timed_out", {}, "its heartbeat timed out"),
        ("tm_unreachable", {}, "it is no longer reachable"),
        ("tm_closed", {"reason": "The heartbeat of TaskManager with id x timed out."}, "The heartbeat of TaskManager"),
        ("tm_closed", {"reason": "Container released on a *lost* node"}, "Container released on a *lost* node"),
        ("tm_closed", {"reason": "Pod terminated, statuses: [main(exitCode=137, reason=OOMKilled)]"}, "OOMKilled"),
    ],
)
def test_each_hard_line_is_a_loss_two_seconds_later(meaning: str, fields: dict[str, str], why: str) -> None:
    (opened,) = cluster().then(0, meaning, tm=TM, **fields).reported()
    assert (opened.cause, opened.severity, opened.findings[0].entity["tm_id"]) == ("taskmanager_lost", "critical", TM)
    assert f"TaskManager {TM} is lost: " in opened.summary
    assert why in opened.summary
    assert 2 * SECOND <= opened.at - (START + AT) <= 3 * SECOND


def test_all_lines_about_one_taskmanager_are_one_finding() -> None:
    history = cluster().then(0, "tm_timed_out", tm=TM).then(10, "tm_unreachable", tm=TM)
    (opened,) = history.then(
        20, "tm_closed", tm=TM, reason="The heartbeat of TaskManager with id x timed out."
    ).reported()
    assert [f.subject for f in opened.findings] == [TM]
    assert len(opened.findings[0].evidence) == 3


def test_taskmanagers_that_go_together_are_one_incident() -> None:
    transitions = cluster().then(0, "tm_timed_out", tm=TM).then(30 * SECOND, "tm_timed_out", tm=NEW).reported()
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert {f.subject for f in transitions[-1].findings} == {TM, NEW}


@pytest.mark.parametrize(
    "reason",
    [
        "The TaskExecutor is shutting down.",
        "TaskExecutor exceeded the idle timeout.",
        "Stopping JobMaster for job orders.",
        "Pod terminated, statuses: [main(exitCode=143)]",
    ],
)
def test_a_goodbye_is_no_loss(reason: str) -> None:
    assert cluster().then(0, "tm_closed", tm=TM, reason=reason).reported() == []


@pytest.mark.parametrize("lost_after", [-SECOND, SECOND, 50 * SECOND])
def test_what_is_reported_of_it_around_an_orderly_end_is_that_end(lost_after: int) -> None:
    history = cluster().then(0, "tm_closed", tm=TM, reason="The TaskExecutor is shutting down.")
    assert history.then(lost_after, "tm_timed_out", tm=TM).reported() == []


def test_a_loss_long_after_an_orderly_end_is_one() -> None:
    history = cluster().then(0, "tm_closed", tm=TM, reason="The TaskExecutor is shutting down.")
    assert len(history.then(61 * SECOND, "tm_timed_out", tm=TM).reported()) == 1


def test_the_end_of_one_jobs_jobmaster_reports_nothing_of_the_process() -> None:
    history = cluster().then(0, "tm_closed", tm=TM, reason="Stopping JobMaster for job orders.")
    assert len(history.then(SECOND, "tm_timed_out", tm=TM).reported()) == 1


@pytest.mark.parametrize("source", ["tm-1", "jm"])
def test_a_signal_to_the_taskmanager_or_to_the_jobmanager_is_an_orderly_end(source: str) -> None:
    history = cluster().then(0, "process_signalled", source, signal="15")
    assert history.then(SECOND, "tm_unreachable", tm=TM).reported() == []


def test_a_signal_to_another_taskmanager_explains_nothing() -> None:
    history = cluster().line("tm_started", 2, source="tm-2", tm=NEW).then(0, "process_signalled", "tm-2", signal="15")
    assert [t.findings[0].subject for t in history.then(SECOND, "tm_unreachable", tm=TM).reported()] == [TM]


def test_a_kill_for_memory_comes_with_a_signal_and_is_a_loss_all_the_same() -> None:
    history = cluster().then(0, "process_signalled", "tm-1", signal="15")
    killed = "Container [pid=1,containerID=x] is running beyond the 'PHYSICAL' memory limit. Exit code is 143"
    assert len(history.then(SECOND, "tm_closed", tm=TM, reason=killed).reported()) == 1


def test_the_end_of_the_cluster_is_no_loss() -> None:
    history = cluster().then(0, "cluster_ending", what="X", status="SUCCEEDED")
    assert history.then(SECOND, "tm_unreachable", tm=TM).reported() == []


def test_a_gated_address_alone_is_nothing_and_dates_the_loss_that_follows() -> None:
    gated = cluster().then(-20 * SECOND, "rpc_gated", address="tm-1:6122")
    assert gated.reported() == []
    (opened,) = gated.then(0, "tm_timed_out", tm=TM).reported()
    assert opened.findings[0].since == START + AT - 20 * SECOND
    long_ago = cluster().then(-3 * MINUTE, "rpc_gated", address="tm-1:6122").then(0, "tm_timed_out", tm=TM)
    assert long_ago.reported()[0].findings[0].since == START + AT


def test_a_peer_that_saw_the_connection_close_dates_the_loss_and_proves_none() -> None:
    seen = cluster().then(-5 * SECOND, "tm_connection_closed", "tm-2", tm=TM, address="tm-1:1")
    assert seen.reported() == []
    assert seen.then(0, "tm_timed_out", tm=TM).reported()[0].findings[0].since == START + AT - 5 * SECOND


def test_another_taskmanager_that_registers_ends_it() -> None:
    transitions = (
        cluster().then(0, "tm_timed_out", tm=TM).then(20 * SECOND, "tm_registered", tm=NEW, host="tm-2").reported()
    )
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].reason == f"TaskManager {NEW} registered in its place"


def test_it_is_reported_although_another_takes_its_place_at_once() -> None:
    transitions = cluster().then(0, "tm_timed_out", tm=TM).then(SECOND, "tm_registered", tm=NEW, host="tm-2").reported()
    assert [t.transition for t in transitions] == ["opened", "resolved"]


def test_one_that_returns_under_its_id_was_paused() -> None:
    transitions = (
        cluster().then(0, "tm_timed_out", tm=TM).then(20 * SECOND, "tm_registered", tm=TM, host="tm-1").reported()
    )
    assert transitions[-1].transition == "resolved"
    assert "registered again under the same id" in transitions[-1].reason


def test_one_replacement_replaces_one() -> None:
    both = cluster().then(0, "tm_timed_out", tm=TM).then(SECOND, "tm_timed_out", tm="tm-3:6122-c")
    both.then(20 * SECOND, "tm_registered", tm=NEW, host="tm-2").then(21 * SECOND, "tm_registered", tm=NEW)
    assert "resolved" not in [t.transition for t in both.reported()]


def test_a_line_that_the_other_component_reports_late_is_no_second_loss() -> None:
    history = cluster().then(0, "tm_timed_out", tm=TM).then(20 * SECOND, "tm_registered", tm=NEW, host="tm-2")
    transitions = history.then(50 * SECOND, "tm_unreachable", tm=TM).reported()
    assert [t.transition for t in transitions] == ["opened", "resolved"]


def test_checkpoints_that_complete_without_it_for_five_minutes_end_it() -> None:
    history = cluster().then(0, "tm_timed_out", tm=TM).completed(7, AT + 4 * MINUTE)
    assert [t.transition for t in history.reported(8)] == ["opened"]
    transitions = history.completed(8, AT + 6 * MINUTE).reported(8)
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].reason.startswith(f"checkpoints have completed without {TM} for ")
