"""FAILED is reported once, with its root cause; other ends are not."""

import pytest

from tests.unit.detectors.story import JOB, MINUTE, OTHER, PLANNED, SECOND, USER, Story, story
from tests.unit.detectors.streams import encoded

GAVE_UP = (
    "org.apache.flink.runtime.JobException",
    "Recovery is suppressed by FixedDelayRestartBackoffTimeStrategy(maxNumberRestartAttempts=3, backoffTimeMS=2000)",
    "",
)
DEEP = (
    ("java.lang.RuntimeException", "Enrichment of order 8249 failed", ""),
    ("java.util.concurrent.ExecutionException", "java.io.UncheckedIOException: pricing-db", ""),
    ("java.net.ConnectException", "Connection refused", ""),
)


def failed(at: int = MINUTE, job: str = JOB) -> Story:
    jm = story("job_failed")
    jm.runs(0, job=job)
    jm.task_failed(*DEEP, at=at)
    jm.state("FAILING", at=at + 10, job=job)
    jm.stack(GAVE_UP, *DEEP, at=at + 10)
    jm.state("FAILED", "FAILING", at=at + 50, job=job)
    jm.stack(GAVE_UP, *DEEP, at=at + 50)
    jm.line("job_ended", at + 60, job=job, state="FAILED")
    jm.stack(GAVE_UP, *DEEP, at=at + 60)
    return jm


def test_a_job_that_failed_is_reported_with_its_deepest_cause() -> None:
    (opened,) = failed().transitions(2 * MINUTE)
    assert (opened.cause, opened.severity, opened.job_id) == ("job_failed", "critical", JOB)
    assert (
        opened.summary
        == "job orders has failed for good after 3 restarts: java.net.ConnectException: Connection refused"
    )


def test_a_failed_start_without_a_line_of_state_waits_for_the_stack_that_follows() -> None:
    jm = story("job_failed")
    jm.line("job_ended", 0, job=JOB, state="FAILED")
    jm.stack(
        ("org.apache.flink.runtime.client.JobInitializationException", "Could not start the JobMaster.", ""), USER, at=5
    )
    (opened,) = jm.transitions(10 * SECOND)
    assert "IllegalStateException: cannot parse order 17" in opened.summary


def test_a_job_that_failed_without_a_word_is_reported_all_the_same() -> None:
    jm = story("job_failed")
    jm.line("job_ended", 0, job=JOB, state="FAILED")
    assert "the log gives no root cause" in jm.transitions(10 * SECOND)[0].summary


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED", "SUSPENDED"])
def test_other_ends_are_no_failure(state: str) -> None:
    jm = story("job_failed").runs()
    jm.state(state, at=MINUTE)
    jm.line("job_ended", MINUTE + 5, job=JOB, state=state)
    assert jm.opened() == []


def test_a_job_that_fails_because_its_cluster_is_stopped_is_no_failure() -> None:
    """Without a restart strategy it goes to FAILED when its TaskManager is asked to stop."""

    def stopped() -> Story:
        jm = story("job_failed")
        jm.task_failed(PLANNED, at=0)
        jm.state("FAILING", at=5)
        jm.stack(("org.apache.flink.runtime.JobException", "Recovery is suppressed by NoRestart", ""), PLANNED, at=5)
        jm.state("FAILED", "FAILING", at=50)
        return jm

    jm = stopped()
    jm.line("process_signalled", 8 * SECOND, signal="15")
    assert jm.opened(5 * MINUTE) == []
    assert stopped().opened(5 * MINUTE) == ["job_failed"]


def test_it_is_over_when_a_job_of_its_name_completes_a_checkpoint() -> None:
    jm = failed()
    jm.runs(3 * MINUTE, job=OTHER)
    jm.completed(1, 4 * MINUTE, job=OTHER)
    assert jm.transitions(7 * MINUTE)[-1].transition == "resolved"


def test_another_job_reports_nothing_of_it() -> None:
    jm = failed()
    jm.runs(3 * MINUTE, job=OTHER, name="other")
    jm.completed(1, 4 * MINUTE, job=OTHER)
    assert "resolved" not in [t.transition for t in jm.transitions(14 * MINUTE)]


def test_a_job_without_checkpoints_is_back_when_it_has_long_been_running() -> None:
    jm = failed()
    jm.runs(3 * MINUTE, job=OTHER)
    assert jm.transitions(15 * MINUTE)[-1].transition == "resolved"
    jm.state("RESTARTING", at=4 * MINUTE, job=OTHER)
    assert "resolved" not in [t.transition for t in jm.transitions(15 * MINUTE)]


@pytest.mark.parametrize("after", [1, 5 * SECOND, 100 * SECOND])
def test_a_failure_that_is_sent_again_is_no_new_one(after: int) -> None:
    jm = failed().runs(80 * SECOND, job=OTHER).completed(1, 90 * SECOND, job=OTHER)
    once = jm.transitions(10 * MINUTE)
    assert [t.transition for t in once] == ["opened", "resolved"]
    assert encoded(jm.sent_again(after).transitions(10 * MINUTE)) == encoded(once)


def test_a_job_whose_id_comes_again_fails_again() -> None:
    jm = failed().runs(80 * SECOND).completed(1, 90 * SECOND)
    jm.state("FAILED", "FAILING", at=5 * MINUTE)
    assert [t.transition for t in jm.transitions(20 * MINUTE)][:3] == ["opened", "resolved", "updated"]


def reported_failure(labels: str = "CODE=17, TYPE=USER") -> Story:
    """Flink's events alone: the job fails and does not restart."""
    events = story("job_failed").runs(0).by("events")
    events.line("job_failure_reported", MINUTE, job=JOB, restarts="false", **({"labels": labels} if labels else {}))
    return events.line("job_state", MINUTE + 50, job=JOB, name="orders", state="FAILED")


def test_the_labels_of_a_failure_are_its_cause_where_no_stack_trace_is_seen() -> None:
    (opened,) = reported_failure().transitions(2 * MINUTE)
    assert opened.summary == "job orders has failed for good: a failure with the labels CODE=17, TYPE=USER"
    (opened,) = reported_failure("").transitions(2 * MINUTE)
    assert "the log gives no root cause" in opened.summary


def test_a_stack_trace_says_more_than_labels_whichever_comes_first() -> None:
    late = reported_failure().line("job_ended", MINUTE + 60, job=JOB, state="FAILED").stack(*DEEP, at=MINUTE + 60)
    assert "Connection refused" in late.transitions(2 * MINUTE)[-1].summary
    early = failed().line("job_failure_reported", MINUTE + 5, job=JOB, restarts="false", labels="TYPE=USER")
    assert "Connection refused" in early.transitions(2 * MINUTE)[0].summary


@pytest.mark.parametrize("all_run", [True, False])
def test_a_job_is_back_only_while_all_its_subtasks_run(all_run: bool) -> None:
    again = failed().runs(2 * MINUTE)
    again.line("all_subtasks_status", 2 * MINUTE + 100, job=JOB, status="NOT_ALL_RUNNING_OR_FINISHED")
    if all_run:
        again.line("all_subtasks_status", 3 * MINUTE, job=JOB, status="ALL_RUNNING_OR_FINISHED")
    ends = [t.at for t in again.transitions("40 min") if t.transition == "resolved"]
    assert len(ends) == all_run
