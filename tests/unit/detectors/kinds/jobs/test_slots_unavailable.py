"""A job without slots is reported; one that waits for its TaskManagers at its start is not."""

import pytest

from tests.unit.detectors.story import JOB, MINUTE, NO_SLOTS, OTHER, PLANNED, SECOND, Story, story
from tests.unit.detectors.streams import START


def registered(jm: Story, at: int, count: float, host: str = "jm-1") -> None:
    jm.measure("registered_task_managers", count, at, host=host)


def running(first: int, last: int, count: float, hosts: tuple[str, ...] = ("jm-1",)) -> Story:
    jm = story("slots_unavailable").runs()
    for at in range(first, last, 15 * SECOND):
        for host in hosts:
            registered(jm, at, count if host == "jm-1" else 0.0, host)
    return jm


@pytest.mark.parametrize(
    "text",
    [
        "Could not acquire the minimum required resources.",
        "Could not allocate the required slot within slot request timeout. Please make sure that",
        "Not enough free slots available to run the job. You can decrease the operator parallelism or increase the",
    ],
)
def test_a_failure_for_want_of_slots_is_reported_in_any_versions_words(text: str) -> None:
    jm = story("slots_unavailable").runs()
    jm.restart(
        ("java.util.concurrent.CompletionException", f"{NO_SLOTS[0]}: {text}", ""), (NO_SLOTS[0], text, ""), at=MINUTE
    )
    opened = jm.transitions(2 * MINUTE)[0]
    assert (opened.cause, opened.job_id) == ("slots_unavailable", JOB)
    assert opened.summary == f"job orders has no slots to run in: {text.partition('. ')[0].rstrip('.')}"


def test_jobs_that_all_lack_slots_and_fail_are_one_incident() -> None:
    jm = story("slots_unavailable", "restart_loop", "job_failed")
    for job in (JOB, OTHER):
        jm.runs(0, job=job)
        jm.restart(NO_SLOTS, at=MINUTE, job=job)
        jm.state("FAILING", at=2 * MINUTE, job=job)
        jm.stack(NO_SLOTS, at=2 * MINUTE)
        jm.state("FAILED", "FAILING", at=2 * MINUTE + 5, job=job)
    transitions = jm.transitions(4 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "slots_unavailable"


def test_a_warning_alone_is_taken_back_by_a_taskmanager_that_registers() -> None:
    jm = story("slots_unavailable").runs()
    jm.line("slots_wanted", SECOND, job=JOB)
    assert jm.opened(MINUTE) == ["slots_unavailable"]
    jm.line("tm_registered", 5 * SECOND, tm="t")
    assert jm.opened(MINUTE) == []


GOODBYE = "The TaskExecutor is shutting down."


def replaced(takes: int, *more: str) -> Story:
    """A TaskManager is stopped, slots are refused every 3 s, another registers after `takes`."""
    jm = story("slots_unavailable", *more).runs()
    jm.line("tm_closed", MINUTE, tm="old", reason=GOODBYE)
    jm.restart(PLANNED, at=MINUTE)
    for at in range(MINUTE + 3 * SECOND, MINUTE + takes, 3 * SECOND):
        jm.line("slots_wanted", at, job=JOB)
        jm.line("slots_refused", at)
        jm.restart(NO_SLOTS, at=at + 5)
    return jm


def test_slots_that_a_taskmanager_takes_with_its_goodbye_may_be_missing_until_another_registers() -> None:
    jm = replaced(40 * SECOND)
    jm.line("tm_registered", MINUTE + 40 * SECOND, tm="new")
    jm.completed(1, MINUTE + 50 * SECOND)
    assert jm.opened() == []


def test_a_goodbye_without_a_replacement_is_reported_after_a_minute() -> None:
    (opened,) = replaced(4 * MINUTE).transitions(5 * MINUTE)[:1]
    assert (opened.cause, opened.severity) == ("slots_unavailable", "critical")
    assert 2 * MINUTE <= opened.at - START <= 2 * MINUTE + SECOND


def test_a_job_that_fails_for_good_while_a_taskmanager_is_replaced_failed_for_want_of_slots() -> None:
    jm = replaced(20 * SECOND, "job_failed")
    at = MINUTE + 21 * SECOND
    jm.state("FAILING", at=at)
    jm.stack(NO_SLOTS, at=at)
    jm.state("FAILED", "FAILING", at=at + 5)
    assert jm.transitions(5 * MINUTE)[-1].cause == "slots_unavailable"


def test_a_goodbye_long_ago_excuses_nothing() -> None:
    jm = story("slots_unavailable").runs()
    jm.line("tm_closed", SECOND, tm="old", reason=GOODBYE)
    jm.restart(NO_SLOTS, at=3 * MINUTE)
    assert jm.transitions(4 * MINUTE)[0].at - START <= 3 * MINUTE + SECOND


def test_it_is_over_when_the_job_completes_a_checkpoint_and_not_when_another_does() -> None:
    def stuck() -> Story:
        jm = story("slots_unavailable")
        jm.runs(0, job=OTHER, name="other")
        jm.runs(0)
        jm.restart(NO_SLOTS, at=MINUTE)
        return jm

    jm = stuck()
    jm.completed(1, 2 * MINUTE, job=OTHER)
    assert [t.transition for t in jm.transitions(4 * MINUTE)] == ["opened"]
    jm = stuck()
    jm.completed(1, 2 * MINUTE)
    assert [t.transition for t in jm.transitions(4 * MINUTE)] == ["opened", "resolved"]


def test_a_job_that_waits_for_its_taskmanagers_at_start_is_healthy() -> None:
    jm = running(0, 2 * MINUTE, 0.0)
    registered(jm, 2 * MINUTE + SECOND, 2.0)
    assert jm.opened(6 * MINUTE) == []


def test_a_job_that_reports_running_without_any_taskmanager_is_reported_and_over_when_one_is_there() -> None:
    jm = running(0, 5 * MINUTE, 0.0)
    opened = jm.transitions(5 * MINUTE)[0]
    assert opened.summary.startswith("job orders has no slots to run in: no TaskManager has been registered for 3 min")
    registered(jm, 5 * MINUTE, 2.0)
    assert [t.transition for t in jm.transitions(7 * MINUTE)] == ["opened", "resolved"]


def test_a_standby_jobmanager_has_no_taskmanagers_and_a_cluster_without_jobs_needs_none() -> None:
    assert running(0, 8 * MINUTE, 2.0, ("jm-1", "jm-2")).opened(8 * MINUTE) == []
    idle = story("slots_unavailable")
    for at in range(0, 8 * MINUTE, 15 * SECOND):
        registered(idle, at, 0.0)
    assert idle.opened(8 * MINUTE) == []
