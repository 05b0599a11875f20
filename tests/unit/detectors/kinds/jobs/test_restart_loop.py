"""Restarts for the same reason are a loop; planned ones, and those that others explain, are none."""

import msgspec
import pytest

from tests.unit.detectors.story import (
    HOUR,
    JOB,
    LOST,
    MINUTE,
    NO_SLOTS,
    OTHER,
    PLANNED,
    SECOND,
    USER,
    Story,
    Thrown,
    story,
)


def loop(*ats: int, fault: Thrown = USER) -> Story:
    jm = story("restart_loop").runs()
    for at in ats:
        jm.restart(fault, at=at)
    return jm


def test_the_third_restart_with_the_same_fault_is_a_loop() -> None:
    assert loop(10 * SECOND, 30 * SECOND).opened() == []
    opened = loop(10 * SECOND, 30 * SECOND, 45 * SECOND).transitions()[0]
    assert (opened.cause, opened.severity, opened.job_id) == ("restart_loop", "critical", JOB)
    assert "3 times in 35 s (first 20 s apart, now 15 s)" in opened.summary
    assert opened.summary.endswith(
        "IllegalStateException: cannot parse order 17 at com.example.Parse.map(Parse.java:28)"
    )


def test_the_same_fault_may_name_another_order_and_subtask_each_time() -> None:
    jm = story("restart_loop")
    for n in range(3):
        outer = ("java.lang.RuntimeException", f"order {n} failed", f"com.example.Enrich.map(Enrich.java:{n})")
        jm.restart(outer, ("java.net.ConnectException", "Connection refused", ""), at=n * 20 * SECOND)
    assert "java.net.ConnectException: Connection refused" in jm.transitions()[0].summary


def test_three_different_faults_are_no_loop() -> None:
    jm = story("restart_loop")
    for n, name in enumerate(
        ("java.io.IOException", "java.lang.ArithmeticException", "java.lang.IllegalStateException")
    ):
        jm.restart((name, "x", ""), at=n * 20 * SECOND)
    assert jm.opened() == []


@pytest.mark.parametrize("fault", [PLANNED, LOST])
def test_restarts_that_are_only_consequences_are_no_loop(fault: Thrown) -> None:
    """Three planned stops of TaskManagers within a minute look like a loop by count."""
    assert loop(*(n * 18 * SECOND for n in range(4)), fault=fault).opened() == []


def test_restarts_for_want_of_slots_are_reported_as_that() -> None:
    starved = loop(*(n * 3 * SECOND for n in range(6)), fault=NO_SLOTS)
    assert starved.opened() == []
    assert story("restart_loop", "slots_unavailable").and_also(starved).opened() == ["slots_unavailable"]


def test_a_cause_deep_in_a_chain_that_begins_with_a_lost_taskmanager_is_a_consequence() -> None:
    jm = story("restart_loop")
    closed = "Connection unexpectedly closed by remote task manager 'h/1.2.3.4:5'."
    for n in range(4):
        outer = ("org.apache.flink.runtime.io.network.netty.exception.RemoteTransportException", closed, "")
        jm.restart(outer, ("java.io.IOException", "Connection reset by peer", ""), at=n * 20 * SECOND)
    assert jm.opened() == []


def test_restarts_hours_apart_are_a_loop_when_their_period_is_constant() -> None:
    steady = loop(*(n * 5 * HOUR for n in range(4))).transitions(16 * HOUR)
    assert [(t.cause, t.severity) for t in steady][:1] == [("restart_loop", "warning")]
    assert loop(0, 5 * HOUR, 7 * HOUR, 15 * HOUR).opened(16 * HOUR) == []


def test_a_job_of_a_session_is_blamed_for_its_own_fault_only() -> None:
    """Both fail in the same moment; the line that restarts one names the task."""
    jm = story("restart_loop")
    for n in range(3):
        at = n * 20 * SECOND
        jm.task_failed(USER, at=at, attempt="c" * 32)
        jm.task_failed(PLANNED, at=at + 1, attempt="d" * 32)
        jm.line("tasks_restarting", at + 2, failed="c" * 32)
        jm.state("RESTARTING", at=at + 2)
        jm.line("tasks_restarting", at + 3, failed="d" * 32)
        jm.state("RESTARTING", at=at + 3, job=OTHER, name="other")
    assert {(t.cause, t.job_id) for t in jm.transitions()} == {("restart_loop", JOB)}


def test_every_failing_task_announces_the_one_restart() -> None:
    jm = story("restart_loop")
    for at in (10 * SECOND, 70 * SECOND):
        jm.restart(USER, at=at, delay=8 * SECOND)
        for n in range(3):
            jm.task_failed(USER, at=at + 10 + n, subtask=n)
            jm.line("tasks_restarting", at + 11 + n)
    assert jm.opened() == []


def region_failover(jm: Story, at: int, restored: bool) -> None:
    """As Flink 1.9 writes it: nothing of the job's state."""
    jm.task_failed(USER, at=at)
    jm.line("tasks_restarting", at + 2, failed="c" * 32 + "_0")
    if restored:
        jm.line("job_restored", at + 10 * SECOND, job=JOB)


@pytest.mark.parametrize("restored", [True, False])
def test_a_region_restarts_without_a_line_of_the_jobs_state(restored: bool) -> None:
    jm = story("restart_loop").runs()
    for n in range(3):
        region_failover(jm, MINUTE + n * 40 * SECOND, restored)
    assert [(t.cause, t.job_id) for t in jm.transitions(5 * MINUTE)] == [("restart_loop", JOB)]


def test_the_adaptive_scheduler_cancels_what_it_restarts() -> None:
    jm = story("restart_loop")
    for n in range(3):
        at = n * 20 * SECOND
        jm.line("job_restarting", at)
        jm.stack(USER, at=at)
        jm.state("CANCELLING", at=at + 5)
        jm.state("CANCELED", "CANCELLING", at=at + 90)
        jm.runs(at + 200)
    assert jm.opened(2 * MINUTE) == ["restart_loop"]


def test_a_cancel_and_a_rescale_of_the_adaptive_scheduler_are_none() -> None:
    jm = story("restart_loop")
    for n in range(5):
        jm.state("CANCELLING", at=n * 20 * SECOND)
        jm.runs(n * 20 * SECOND + 90)
    assert jm.opened() == []


def test_a_loop_is_over_when_checkpoints_complete_and_it_has_long_not_restarted() -> None:
    jm = loop(10 * SECOND, 30 * SECOND, 45 * SECOND)
    jm.completed(1, 60 * SECOND)
    jm.completed(2, 3 * MINUTE)
    transitions = jm.transitions(5 * MINUTE)
    assert [t.transition for t in transitions] == ["opened", "resolved"]
    assert transitions[-1].ended_at is not None
    assert "the job has not restarted for" in transitions[-1].findings[0].closed_because


def test_a_checkpoint_between_two_restarts_does_not_end_it() -> None:
    jm = loop(10 * SECOND, 30 * SECOND, 45 * SECOND)
    jm.completed(1, 80 * SECOND)
    jm.restart(USER, at=100 * SECOND)
    assert [t.transition for t in jm.transitions(4 * MINUTE) if t.transition != "updated"] == ["opened"]


def test_a_loop_that_is_cancelled_is_over() -> None:
    jm = loop(10 * SECOND, 30 * SECOND, 45 * SECOND)
    jm.line("job_ended", MINUTE, job=JOB, state="CANCELED")
    assert [t.transition for t in jm.transitions(5 * MINUTE)] == ["opened", "resolved"]


def test_a_loop_that_ends_in_failure_is_one_incident_until_the_job_is_back() -> None:
    jm = story("restart_loop", "job_failed").and_also(loop(10 * SECOND, 30 * SECOND, 45 * SECOND))
    jm.task_failed(USER, at=60 * SECOND)
    jm.state("FAILING", at=60 * SECOND)
    jm.stack(("org.apache.flink.runtime.JobException", "Recovery is suppressed by X", ""), USER, at=60 * SECOND)
    jm.state("FAILED", "FAILING", at=60 * SECOND + 50)
    first = jm.transitions(5 * MINUTE)
    assert [t.transition for t in first if t.reason != "new numbers of job_failed"] == ["opened", "updated"]
    assert {f.kind for f in first[-1].findings} == {"restart_loop", "job_failed"}
    jm.runs(6 * MINUTE, job=OTHER)
    jm.completed(1, 7 * MINUTE, job=OTHER)
    assert jm.transitions(9 * MINUTE)[-1].transition == "resolved"


def test_a_restart_that_is_reported_again_later_does_not_count_twice() -> None:
    jm = loop(10 * SECOND, 30 * SECOND)
    restarts = [e for e in jm.events if e.fields.get("state") == "RESTARTING"]  # type: ignore[union-attr]
    jm.events += [msgspec.structs.replace(e, timestamp=e.timestamp + 20_000, offset=e.offset + 10**6) for e in restarts]
    assert jm.opened() == []


def events_of_failures(labels: str = "TYPE=USER", count: int = 4, restarts: str = "true") -> Story:
    """Flink's events alone: the job fails every minute."""
    history = story("restart_loop").by("events")
    for number in range(1, count + 1):
        fields = {"labels": labels} if labels else {}
        history.line("job_failure_reported", number * MINUTE, job=JOB, restarts=restarts, **fields)
        history.line("job_state", number * MINUTE + 2_000, job=JOB, name="orders", state="RUNNING")
    return history


def test_events_of_failures_with_the_same_labels_are_a_loop() -> None:
    (opened, *_) = events_of_failures().transitions("6 min")
    assert (opened.cause, opened.job_id) == ("restart_loop", JOB)
    assert "a failure with the labels TYPE=USER" in opened.summary


def test_events_without_labels_or_without_a_restart_are_no_loop() -> None:
    assert events_of_failures(labels="").opened("6 min") == []
    assert events_of_failures(restarts="false").opened("6 min") == []


def test_a_restart_that_the_log_shows_too_counts_once() -> None:
    both = story("restart_loop")
    for number in (1, 2):
        both.line("job_failure_reported", number * MINUTE - 1, job=JOB, restarts="true", labels="TYPE=USER")
        both.restart(USER, at=number * MINUTE)
    assert both.opened("6 min") == []
