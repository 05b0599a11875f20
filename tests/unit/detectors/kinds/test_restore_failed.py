"""A restore that fails is told from other failures, and a job that starts empty from one that begins."""

import pytest

from tests.unit.detectors.failing import JOB, LOST, MINUTE, OTHER, SECOND, USER, Lines, causes, said

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
    jm = Lines()
    jm.say("job_ended", 0, job=JOB, state="FAILED")
    jm.stack(5, STARTED, fault)
    transitions = said(jm, until=MINUTE)
    assert [t.transition for t in transitions] == ["opened", "updated"]
    assert transitions[-1].cause == "restore_failed"
    assert {f.kind for f in transitions[-1].findings} == {"restore_failed", "job_failed"}
    assert fault[1].rstrip(".")[:40] in transitions[-1].summary


def test_restarts_that_fail_to_restore_belong_to_it() -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    for n in range(4):
        jm.restart((n + 1) * 20 * SECOND, BROKEN[4])
    transitions = said(jm, until=5 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "restore_failed"


def test_other_failures_are_none() -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.restart(MINUTE, USER)
    jm.restart(2 * MINUTE, LOST, BROKEN[4])
    assert causes(jm) == []


def test_it_is_over_when_the_job_completes_a_checkpoint_be_it_under_another_id() -> None:
    for job in (JOB, OTHER):
        jm = Lines()
        jm.state(0, "RUNNING", "CREATED")
        jm.restart(MINUTE, BROKEN[4])
        jm.state(2 * MINUTE, "RUNNING", "CREATED", job=job)
        jm.done(3 * MINUTE, job=job)
        assert [t.transition for t in said(jm, until=5 * MINUTE)] == ["opened", "resolved"]


def ran(jm: Lines, checkpoints: int = 3) -> Lines:
    jm.say("nothing_restored", 0)
    jm.state(5, "RUNNING", "CREATED")
    for n in range(checkpoints):
        jm.done((n + 1) * MINUTE, n + 1)
    return jm


def test_a_job_that_restarts_empty_although_checkpoints_had_completed_has_lost_its_state() -> None:
    jm = ran(Lines())
    jm.restart(5 * MINUTE, USER)
    jm.say("nothing_restored", 5 * MINUTE + 600)
    (opened,) = said(jm, until=6 * MINUTE)
    assert opened.summary == "job orders started with empty state: no checkpoint was found, although 3 had completed"


def test_a_job_that_restarts_empty_before_its_first_checkpoint_has_lost_nothing() -> None:
    jm = ran(Lines(), checkpoints=0)
    jm.restart(5 * MINUTE, USER)
    jm.say("nothing_restored", 5 * MINUTE + 600)
    assert causes(jm) == []


def test_a_new_jobmanager_that_finds_nothing_has_lost_the_state() -> None:
    standby = Lines("jm-2")
    standby.say("nothing_restored", 10 * MINUTE)
    standby.state(10 * MINUTE + 50, "RUNNING", "CREATED")
    assert causes(ran(Lines()), standby) == ["restore_failed"]


def test_a_job_that_is_submitted_anew_or_after_its_end_begins_empty_by_right() -> None:
    anew = ran(Lines())
    anew.say("nothing_restored", 10 * MINUTE)
    anew.state(10 * MINUTE + 50, "RUNNING", "CREATED", job=OTHER)
    assert causes(anew) == []
    again = ran(Lines())
    again.state(9 * MINUTE, "CANCELED", "CANCELLING")
    again.say("nothing_restored", 10 * MINUTE)
    again.state(10 * MINUTE + 50, "RUNNING", "CREATED")
    assert causes(again) == []


def test_a_job_that_is_submitted_while_another_restarts_is_not_taken_for_it() -> None:
    jm = ran(Lines())
    jm.restart(5 * MINUTE, USER)
    jm.say("job_restored", 5 * MINUTE + 510, job=JOB)
    jm.say("nothing_restored", 5 * MINUTE + 900)
    jm.state(5 * MINUTE + 950, "RUNNING", "CREATED", job=OTHER, name="other")
    assert causes(jm) == []


def test_what_a_job_that_had_nothing_to_restore_calls_a_failed_restore_is_a_fault_of_its_own() -> None:
    jm = ran(Lines(), checkpoints=0)
    for n in range(3):
        jm.restart((n + 1) * 20 * SECOND, BROKEN[4], NOT_BUILT)
        jm.say("nothing_restored", (n + 1) * 20 * SECOND + 600)
    transitions = said(jm, until=MINUTE + 10 * SECOND)
    assert {f.kind for t in transitions for f in t.findings} == {"restart_loop"}
    assert "Order is not instantiable" in transitions[-1].summary


def test_a_job_that_began_with_a_savepoint_had_something_to_restore() -> None:
    jm = Lines()
    jm.say("nothing_restored", 0)
    jm.say("job_restored", 5, job=JOB)
    jm.state(10, "RUNNING", "CREATED")
    jm.restart(20 * SECOND, BROKEN[4])
    assert causes(jm) == ["restore_failed"]


def test_a_job_that_never_started_is_known_by_its_name_and_over_when_it_comes_again() -> None:
    jm = Lines()
    jm.say("job_initializing", 0, job=JOB, name="orders")
    jm.say("job_ended", 100, job=JOB, state="FAILED")
    jm.stack(105, STARTED, MISSING)
    jm.state(MINUTE, "RUNNING", "CREATED", job=OTHER)
    jm.done(2 * MINUTE, job=OTHER)
    transitions = said(jm, until=5 * MINUTE)
    assert transitions[-1].transition == "resolved"
    assert transitions[-1].summary.startswith("job orders cannot be restored")
