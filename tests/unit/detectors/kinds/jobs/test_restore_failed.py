"""A failed restore is distinguished from other failures, and a job that starts empty from a new one."""

from collections.abc import Callable

import pytest

from detectors.events.event import LogEvent
from detectors.events.layouts.stack_line import FRAME, THROWN
from tests.unit.detectors.story import JOB, LOST, MINUTE, OTHER, SECOND, USER, Story, story
from tests.unit.detectors.streams import encoded

STARTED = ("org.apache.flink.runtime.client.JobInitializationException", "Could not start the JobMaster.", "")
MISSING = (
    "java.io.FileNotFoundException",
    "Cannot find checkpoint or savepoint file/directory 's3://b/chk-7' on file system 's3'.",
    "",
)
BROKEN = [
    MISSING,
    ("java.lang.IllegalStateException", "Failed to rollback to checkpoint/savepoint s3://b/chk-7. Cannot map", ""),
    ("org.apache.flink.util.StateMigrationException", "The new state serializer must not be incompatible.", ""),
    ("org.apache.flink.util.FlinkException", "Could not retrieve checkpoint 7 from state handle under 007.", ""),
    ("org.apache.flink.util.FlinkException", "Could not restore keyed state backend for X from any of the 1", ""),
    ("org.apache.flink.util.FlinkException", "Could not restore operator state backend for X from any of the 1", ""),
]

NOT_BUILT = ("java.lang.RuntimeException", "The class Order is not instantiable: The class is not public.", "")


@pytest.mark.parametrize("fault", BROKEN, ids=lambda f: f[1][:30])
def test_a_job_that_cannot_be_started_from_its_state_is_one_incident(fault: tuple[str, str, str]) -> None:
    jm = story("restore_failed", "job_failed")
    jm.line("job_ended", 0, job=JOB, state="FAILED").stack(STARTED, fault, at=5)
    transitions = jm.transitions(MINUTE)
    assert [t.transition for t in transitions] == ["opened", "updated"]
    assert transitions[-1].cause == "restore_failed"
    assert {f.kind for f in transitions[-1].findings} == {"restore_failed", "job_failed"}
    assert fault[1].rstrip(".")[:40] in transitions[-1].summary


def test_restarts_that_fail_to_restore_belong_to_it() -> None:
    jm = story("restore_failed", "restart_loop").runs()
    for n in range(4):
        jm.restart(BROKEN[4], at=(n + 1) * 20 * SECOND)
    transitions = jm.transitions(5 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "restore_failed"


def test_other_failures_are_none() -> None:
    jm = story("restore_failed").runs()
    jm.restart(USER, at=MINUTE)
    jm.restart(LOST, BROKEN[4], at=2 * MINUTE)
    assert jm.opened() == []


def test_it_is_over_when_the_job_completes_a_checkpoint_be_it_under_another_id() -> None:
    for job in (JOB, OTHER):
        jm = story("restore_failed").runs()
        jm.restart(BROKEN[4], at=MINUTE)
        jm.runs(2 * MINUTE, job=job)
        jm.completed(1, 3 * MINUTE, job=job)
        assert [t.transition for t in jm.transitions(5 * MINUTE)] == ["opened", "resolved"]


def ran(*more: str, checkpoints: int = 3) -> Story:
    """A job begins empty and completes checkpoints; `more` are kinds that hear of it as well."""
    jm = story("restore_failed", *more).line("nothing_restored", 0).runs(5)
    for n in range(checkpoints):
        jm.completed(n + 1, (n + 1) * MINUTE)
    return jm


def test_a_job_that_restarts_empty_although_checkpoints_had_completed_has_lost_its_state() -> None:
    jm = ran()
    jm.restart(USER, at=5 * MINUTE)
    jm.line("nothing_restored", 5 * MINUTE + 600)
    (opened,) = jm.transitions(6 * MINUTE)
    assert opened.summary == "job orders started with empty state: no checkpoint was found, although 3 had completed"


def test_a_job_that_restarts_empty_before_its_first_checkpoint_has_lost_nothing() -> None:
    jm = ran(checkpoints=0)
    jm.restart(USER, at=5 * MINUTE)
    jm.line("nothing_restored", 5 * MINUTE + 600)
    assert jm.opened() == []


def test_a_new_jobmanager_that_finds_nothing_has_lost_the_state() -> None:
    jm = ran().by("jm-2").line("nothing_restored", 10 * MINUTE).runs(10 * MINUTE + 50)
    assert jm.opened() == ["restore_failed"]


def test_a_job_that_is_submitted_anew_or_after_its_end_begins_empty_by_right() -> None:
    anew = ran()
    anew.line("nothing_restored", 10 * MINUTE)
    anew.runs(10 * MINUTE + 50, job=OTHER)
    assert anew.opened() == []
    again = ran()
    again.state("CANCELED", "CANCELLING", at=9 * MINUTE)
    again.line("nothing_restored", 10 * MINUTE)
    again.runs(10 * MINUTE + 50)
    assert again.opened() == []


def test_a_job_that_is_submitted_while_another_restarts_is_not_taken_for_it() -> None:
    jm = ran()
    jm.restart(USER, at=5 * MINUTE)
    jm.line("job_restored", 5 * MINUTE + 510, job=JOB)
    jm.line("nothing_restored", 5 * MINUTE + 900)
    jm.runs(5 * MINUTE + 950, job=OTHER, name="other")
    assert jm.opened() == []


def test_what_a_job_that_had_nothing_to_restore_calls_a_failed_restore_is_a_fault_of_its_own() -> None:
    jm = ran("restart_loop", checkpoints=0)
    for n in range(3):
        jm.restart(BROKEN[4], NOT_BUILT, at=(n + 1) * 20 * SECOND)
        jm.line("nothing_restored", (n + 1) * 20 * SECOND + 600)
    transitions = jm.transitions(MINUTE + 10 * SECOND)
    assert {f.kind for t in transitions for f in t.findings} == {"restart_loop"}
    assert "Order is not instantiable" in transitions[-1].summary


def test_a_job_that_began_with_a_savepoint_had_something_to_restore() -> None:
    jm = story("restore_failed")
    jm.line("nothing_restored", 0)
    jm.line("job_restored", 5, job=JOB)
    jm.runs(10)
    jm.restart(BROKEN[4], at=20 * SECOND)
    assert jm.opened() == ["restore_failed"]


def test_a_job_that_never_started_is_known_by_its_name_and_over_when_it_comes_again() -> None:
    jm = story("restore_failed")
    jm.line("job_initializing", 0, job=JOB, name="orders")
    jm.line("job_ended", 100, job=JOB, state="FAILED")
    jm.stack(STARTED, MISSING, at=105)
    jm.runs(MINUTE, job=OTHER)
    jm.completed(1, 2 * MINUTE, job=OTHER)
    transitions = jm.transitions(5 * MINUTE)
    assert transitions[-1].transition == "resolved"
    assert transitions[-1].summary.startswith("job orders cannot be restored")


def of_stacks(event: LogEvent) -> bool:
    return event.event_type in (THROWN, FRAME)


@pytest.mark.parametrize("lines", [of_stacks, lambda e: e.fields.get("class") == MISSING[0], lambda _: True])
@pytest.mark.parametrize("after", [1, 20 * SECOND, 100 * SECOND])
def test_a_stack_trace_that_is_sent_again_is_not_that_of_the_next_job(
    lines: Callable[[LogEvent], bool], after: int
) -> None:
    jm = story("restore_failed", "job_failed")
    jm.line("job_initializing", 0, job=JOB, name="orders")
    jm.line("job_ended", 100, job=JOB, state="FAILED").stack(STARTED, MISSING, at=105)
    jm.stack(("java.lang.RuntimeException", "main failed", ""), MISSING, at=600)
    once = jm.runs(15 * SECOND, job=OTHER).completed(1, 17 * SECOND, job=OTHER).transitions(5 * MINUTE)
    twice = jm.sent_again(after, only=lines).transitions(5 * MINUTE)
    assert encoded(twice) == encoded(once)


def test_a_job_that_fails_again_for_the_same_reason_is_reported_again() -> None:
    jm = story("restore_failed")
    for n, job in enumerate((JOB, OTHER, "c" * 32)):
        at = n * 20 * SECOND
        jm.line("job_initializing", at, job=job, name=f"orders-{n}")
        jm.line("job_ended", at + 100, job=job, state="FAILED").stack(STARTED, MISSING, at=at + 105)
    assert jm.opened() == ["restore_failed"] * 3
