"""Which TaskManagers are lost, which have only left, and what ends a loss."""

import pytest

from detectors.events.event import Sample
from detectors.events.names import filtered
from detectors.incident import Transition
from tests.unit.detectors.containers import throttled
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


class Partition(TaskManagers):
    """A TaskManager and a JobManager that lose each other at AT while both continue to run."""

    def both_report(self, tm_after: int = 2 * SECOND, jm: bool = True) -> "Partition":
        """Each one's heartbeats of the other time out."""
        if jm:
            self.then(0, "tm_timed_out", tm=TM)
        for n, peer in enumerate(("ResourceManager", "JobManager")):
            self.then(tm_after + n, "jm_timed_out", source="tm-1", peer=peer)
        return self

    def looks_for_jobmanager(self, since: int = 12 * SECOND, until: int = 120 * SECOND) -> "Partition":
        """The TaskManager tries to connect again every ten seconds."""
        for after in range(since, until, 10 * SECOND):
            self.then(after, "jm_unresolved", source="tm-1", address="jm-1:6123")
        return self

    def answers(self, until: int, every: int, since: int = -5 * MINUTE) -> "Partition":
        """The TaskManager answers scrapes."""
        for after in range(since, until, every):
            self.scrape(Sample("heap_used", {"tm_id": filtered(TM)}, 1.0), at=AT + after, host="tm-1")
        return self

    def works(self, until: int = 3 * MINUTE) -> "Partition":
        """The JobManager answers scrapes."""
        for after in range(-5 * MINUTE, until, 15 * SECOND):
            self.scrape(Sample("jm_heap_used", {}, 1.0), at=AT + after, host="jm")
        return self


def parted() -> Partition:
    history = Partition("taskmanager_lost", "jobmanager_lost").runs(0).by("tm-1").line("tm_started", 0, tm=TM)
    history.line("jm_address", 2, address="jm-1:6123").by("jm")
    return history.line("tm_registered", 1, tm=TM, host="tm-1")


CUT_OFF = "it still runs and has lost the JobManager, too: the network between them is interrupted"


@pytest.mark.parametrize("tm_after", [-8 * SECOND, 0, 8 * SECOND])
@pytest.mark.parametrize("every", [5, 15, 30, 60])
def test_both_sides_report_the_other_so_the_path_is_lost(tm_after: int, every: int) -> None:
    scraped = parted().works(5 * MINUTE).both_report(tm_after).answers(5 * MINUTE, every * SECOND)
    said = scraped.transitions(AT + 5 * MINUTE)
    assert [t.transition for t in said] == ["opened", "updated"]
    assert {t.cause for t in said} == {"taskmanager_lost"}
    assert CUT_OFF not in said[0].summary
    assert said[-1].summary.endswith(CUT_OFF)
    assert "Leave its process running" in said[-1].findings[0].advice


def test_its_own_log_is_enough_and_it_ends_when_it_registers_again() -> None:
    history = parted().works().both_report().looks_for_jobmanager()
    history.then(150 * SECOND, "tm_registered", tm=TM, host="tm-1")
    said = history.transitions(AT + 4 * MINUTE)
    assert [t.transition for t in said] == ["opened", "updated", "resolved"]
    assert said[1].summary.endswith(CUT_OFF)
    assert 32 * SECOND <= said[1].at - (START + AT) <= 70 * SECOND


def test_a_frozen_taskmanager_that_is_back_at_once_is_not_cut_off() -> None:
    history = parted().works().answers(-50 * SECOND, 5 * SECOND).both_report(22 * SECOND)
    history.then(23 * SECOND, "tm_registered", tm=TM, host="tm-1").then(
        23 * SECOND, "jm_address", "tm-1", address="j:1"
    )
    said = history.answers(4 * MINUTE, 5 * SECOND, since=22 * SECOND).transitions(AT + 4 * MINUTE)
    assert [t.transition for t in said] == ["opened", "resolved"]
    assert all(CUT_OFF not in t.summary for t in said)


def test_a_taskmanager_without_a_jobmanager_that_is_alive_is_not_cut_off() -> None:
    dead = parted().works(0).both_report().looks_for_jobmanager().answers(3 * MINUTE, 15 * SECOND)
    assert all(CUT_OFF not in t.summary for t in dead.transitions(AT + 4 * MINUTE))
    killed = parted().works(-50 * SECOND).both_report(jm=False).looks_for_jobmanager().answers(3 * MINUTE, 15 * SECOND)
    assert killed.opened(AT + 4 * MINUTE) == ["jobmanager_lost"]


def test_a_taskmanager_that_is_out_of_memory_is_not_cut_off() -> None:
    history = parted().works().both_report().answers(3 * MINUTE, 5 * SECOND).by("tm-1")
    history.stack(("java.lang.OutOfMemoryError", "Java heap space", ""), at=AT + 12 * SECOND)
    assert all(CUT_OFF not in t.summary for t in history.transitions(AT + 4 * MINUTE))


def test_a_taskmanager_that_says_nothing_of_its_jobmanager_is_not_cut_off() -> None:
    history = parted().works().then(0, "tm_timed_out", tm=TM).answers(3 * MINUTE, 5 * SECOND)
    assert all(CUT_OFF not in t.summary for t in history.transitions(AT + 4 * MINUTE))


@pytest.mark.parametrize(("pod", "named"), [("tm-1", True), ("tm-9", False)])
def test_a_taskmanager_that_has_used_up_its_cpu_limit_is_lost_for_that_reason(pod: str, named: bool) -> None:
    starved = throttled(cluster(), pod, AT).then(30 * SECOND, "tm_timed_out", tm=TM)
    text = f"its heartbeat timed out; TaskManager {TM} has used up its CPU limit"
    assert (text in starved.reported()[0].summary) is named
