"""FAILED is said once, with its root cause; other ends are none."""

import pytest

from tests.unit.detectors.failing import JOB, MINUTE, OTHER, PLANNED, SECOND, USER, Lines, causes, said

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


def failed(at: int = MINUTE, job: str = JOB) -> Lines:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED", job=job)
    jm.task_failed(at, *DEEP)
    jm.state(at + 10, "FAILING", job=job)
    jm.stack(at + 10, GAVE_UP, *DEEP)
    jm.state(at + 50, "FAILED", "FAILING", job=job)
    jm.stack(at + 50, GAVE_UP, *DEEP)
    jm.say("job_ended", at + 60, job=job, state="FAILED")
    jm.stack(at + 60, GAVE_UP, *DEEP)
    return jm


def test_a_job_that_failed_is_said_with_its_deepest_cause() -> None:
    (opened,) = said(failed(), until=2 * MINUTE)
    assert (opened.cause, opened.severity, opened.job_id) == ("job_failed", "critical", JOB)
    assert (
        opened.summary
        == "job orders has failed for good after 3 restarts: java.net.ConnectException: Connection refused"
    )


def test_a_failed_start_without_a_line_of_state_waits_for_the_stack_that_follows() -> None:
    jm = Lines()
    jm.say("job_ended", 0, job=JOB, state="FAILED")
    jm.stack(
        5, ("org.apache.flink.runtime.client.JobInitializationException", "Could not start the JobMaster.", ""), USER
    )
    (opened,) = said(jm, until=10 * SECOND)
    assert "IllegalStateException: cannot parse order 17" in opened.summary


def test_a_job_that_failed_without_a_word_is_said_all_the_same() -> None:
    jm = Lines()
    jm.say("job_ended", 0, job=JOB, state="FAILED")
    assert "the log gives no root cause" in said(jm, until=10 * SECOND)[0].summary


@pytest.mark.parametrize("state", ["FINISHED", "CANCELED", "SUSPENDED"])
def test_other_ends_are_no_failure(state: str) -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.state(MINUTE, state)
    jm.say("job_ended", MINUTE + 5, job=JOB, state=state)
    assert causes(jm) == []


def test_a_job_that_fails_because_its_cluster_is_stopped_is_no_failure() -> None:
    """Without a restart strategy it goes to FAILED when its TaskManager is told to stop."""

    def stopped() -> Lines:
        jm = Lines()
        jm.task_failed(0, PLANNED)
        jm.state(5, "FAILING")
        jm.stack(5, ("org.apache.flink.runtime.JobException", "Recovery is suppressed by NoRestart", ""), PLANNED)
        jm.state(50, "FAILED", "FAILING")
        return jm

    jm = stopped()
    jm.say("process_signalled", 8 * SECOND, signal="15")
    assert causes(jm, until=5 * MINUTE) == []
    assert causes(stopped(), until=5 * MINUTE) == ["job_failed"]


def test_it_is_over_when_a_job_of_its_name_completes_a_checkpoint() -> None:
    jm = failed()
    jm.state(3 * MINUTE, "RUNNING", "CREATED", job=OTHER)
    jm.done(4 * MINUTE, job=OTHER)
    assert said(jm, until=7 * MINUTE)[-1].transition == "resolved"


def test_another_job_says_nothing_of_it() -> None:
    jm = failed()
    jm.state(3 * MINUTE, "RUNNING", "CREATED", job=OTHER, name="other")
    jm.done(4 * MINUTE, job=OTHER)
    assert "resolved" not in [t.transition for t in said(jm, until=14 * MINUTE)]


def test_a_job_without_checkpoints_is_back_when_it_has_long_been_running() -> None:
    jm = failed()
    jm.state(3 * MINUTE, "RUNNING", "CREATED", job=OTHER)
    assert said(jm, until=15 * MINUTE)[-1].transition == "resolved"
    jm.state(4 * MINUTE, "RESTARTING", job=OTHER)
    assert "resolved" not in [t.transition for t in said(jm, until=15 * MINUTE)]
