"""A savepoint that fails is reported with its reason; what a healthy stop or a restart writes is not."""

import pytest

from tests.unit.detectors.story import JOB, OTHER, Story, Thrown

KIND = "savepoint_failed"
SAVEPOINT = "SavepointType{name='Savepoint', postCheckpointAction=NONE, formatType=CANONICAL}"
STOP = "SavepointType{name='Suspend Savepoint', postCheckpointAction=SUSPEND, formatType=CANONICAL}"
CHECKPOINT_EXCEPTION = "org.apache.flink.runtime.checkpoint.CheckpointException"
DECLINED: Thrown = (CHECKPOINT_EXCEPTION, "Asynchronous task checkpoint failed.", "")
DENIED: Thrown = ("java.nio.file.AccessDeniedException", "/savepoints/savepoint-86302b", "")
SUSPENDING: Thrown = (CHECKPOINT_EXCEPTION, "Checkpoint Coordinator is suspending.", "")
NO_DIRECTORY: Thrown = ("java.io.IOException", "Failed to create savepoint directory at file:/savepoints", "")
IO_PROBLEM: Thrown = (
    CHECKPOINT_EXCEPTION,
    "An Exception occurred while triggering the checkpoint. IO-problem detected.",
    "",
)


class Savepoint(Story):
    """A job with checkpoints of which savepoints are asked for."""

    def asked(self) -> "Savepoint":
        return self.line("savepoint_requested", job=self._job).gap("10 ms")

    def savepoint(self, number: int, kind: str = SAVEPOINT) -> "Savepoint":
        return self.asked().triggered(number, kind=kind).gap("1 s")

    def failed(self, number: int, *chain: Thrown) -> "Savepoint":
        return self.line("checkpoint_failed", checkpoint=str(number), job=self._job).stack(*chain).gap("100 ms")

    def unnumbered(self, *chain: Thrown) -> "Savepoint":
        return self.line("checkpoint_not_triggered", job=self._job).stack(*chain).gap("100 ms")

    def words(self, until: str = "30 min") -> list[tuple[str, str]]:
        told = self.transitions(until)
        return [(t.transition, t.severity) for t in told if t.transition != "stale"]


def job(*more: str) -> Savepoint:
    return Savepoint(KIND, *more).runs().gap("1 s").checkpoints(3, every="10 s")


# Healthy


def test_a_savepoint_that_completes_is_healthy() -> None:
    assert job().savepoint(4).completed(4).opened() == []


def test_a_healthy_stop_with_savepoint_may_fail_to_trigger_a_checkpoint_without_a_number() -> None:
    history = job().savepoint(4, STOP).completed(4).gap("10 ms")
    assert history.unnumbered(SUSPENDING).unnumbered(IO_PROBLEM, NO_DIRECTORY).state("FINISHED").opened() == []


def test_a_checkpoint_that_fails_is_not_this_kinds() -> None:
    history = job().triggered(4).gap("1 s").failed(4, DECLINED, DENIED).expired(5).unnumbered(IO_PROBLEM, NO_DIRECTORY)
    assert history.opened() == []


@pytest.mark.parametrize("why", ["Checkpoint Coordinator is suspending.", "The job has failed.", "Task has failed."])
def test_a_savepoint_that_a_restart_aborts_is_not_reported(why: str) -> None:
    assert job().savepoint(4).failed(4, (CHECKPOINT_EXCEPTION, why, "")).opened() == []


def test_a_failure_whose_reason_was_lost_belongs_to_the_restart_that_follows() -> None:
    assert job().savepoint(4).failed(4).state("RESTARTING").opened() == []
    assert job().savepoint(4).failed(4).opened() == [KIND]


def test_a_request_that_fails_without_a_reason_or_because_tasks_are_starting_is_not_reported() -> None:
    starting = (CHECKPOINT_EXCEPTION, "Not all required tasks are currently running.", "")
    assert job().asked().unnumbered().opened() == []
    assert job().asked().unnumbered(starting).opened() == []


def test_a_savepoint_of_another_job_means_nothing() -> None:
    assert job().savepoint(4).job("payments", OTHER).failed(4, DECLINED, DENIED).opened() == []


# Failed


def test_a_savepoint_that_fails_is_a_warning_with_its_root_cause() -> None:
    (opened,) = job().savepoint(4).failed(4, DECLINED, DENIED).transitions("2 min")
    assert (opened.cause, opened.severity, opened.job_id) == (KIND, "warning", JOB)
    assert opened.summary == "savepoint 4 of job orders failed: AccessDeniedException: /savepoints/savepoint-86302b"
    assert opened.findings[0].entity["checkpoint"] == "4"


def test_a_savepoint_that_expires_is_reported_although_a_second_line_follows() -> None:
    history = job().savepoint(4).expired(4).gap("5 ms")
    history.failed(4, (CHECKPOINT_EXCEPTION, "Checkpoint expired before completing.", ""))
    assert [t.summary for t in history.transitions("2 min")] == [
        "savepoint 4 of job orders failed: it expired before completing"
    ]


def test_a_savepoint_whose_directory_cannot_be_made_has_no_number() -> None:
    (opened,) = job().asked().unnumbered(IO_PROBLEM, NO_DIRECTORY).transitions("2 min")
    assert opened.summary.startswith(
        "savepoint of job orders failed: IOException: Failed to create savepoint directory"
    )


def test_a_job_that_does_not_end_after_its_savepoint_is_reported_once_and_over_when_it_has_ended() -> None:
    history = job().savepoint(4, STOP).completed(4).gap("1 s")
    history.line("stop_with_savepoint_failed", job=JOB).gap("5 ms").line("stop_with_savepoint_failed", job=JOB)
    history.state("RESTARTING").gap("1 s").state("RUNNING", "RESTARTING")
    (opened,) = history.transitions("2 min")
    assert opened.summary == "savepoint of job orders failed: the job did not end after the savepoint"
    assert history.gap("5 min").state("FINISHED").words() == [("opened", "warning"), ("resolved", "warning")]


def test_it_is_over_when_a_later_savepoint_completes_and_not_when_a_checkpoint_does() -> None:
    history = job().savepoint(4).failed(4, DECLINED, DENIED).gap("10 s").checkpoint().checkpoints(20, every="10 s")
    assert history.words("8 min") == [("opened", "warning")]
    assert history.savepoint(40).completed(40).words() == [("opened", "warning"), ("resolved", "warning")]


@pytest.mark.parametrize("state", ["CANCELED", "FAILED", "FINISHED"])
def test_it_is_over_when_the_job_ends(state: str) -> None:
    history = job().savepoint(4).failed(4, DECLINED, DENIED).gap("1 min").state(state)
    assert history.words() == [("opened", "warning"), ("resolved", "warning")]


def test_it_is_forgotten_after_hours_without_another_attempt() -> None:
    history = job().savepoint(4).failed(4, DECLINED, DENIED).gap("10 s").checkpoints(2_400, every="10 s")
    transitions = history.transitions("7 h")
    assert (transitions[-1].transition, transitions[-1].reason) == ("resolved", "no other savepoint was tried for 6 h")


def test_attempts_that_fail_one_after_another_are_one_incident() -> None:
    history = job()
    for number in (4, 6, 8):
        history.savepoint(number).failed(number, DECLINED, DENIED).gap("1 min")
    transitions = history.transitions("15 min")
    assert [t.transition for t in transitions if t.transition != "updated"] == ["opened"]
    assert transitions[-1].summary.startswith("savepoint 8 of job orders failed (3 in a row): ")


def test_a_savepoint_sent_again_is_one() -> None:
    history = job().savepoint(4).failed(4, DECLINED, DENIED)
    once = [t.summary for t in history.transitions("10 min")]
    assert [t.summary for t in history.sent_again("20 s").transitions("10 min")] == once


def test_a_slow_job_explains_that_its_savepoint_expires() -> None:
    history = job("checkpoint_failing")
    for number in (4, 5, 6):
        history.triggered(number).gap("10 s").expired(number).gap("1 s")
    transitions = history.savepoint(7).expired(7).transitions("3 min")
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "checkpoint_failing"
