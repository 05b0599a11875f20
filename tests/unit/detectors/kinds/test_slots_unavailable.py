"""A job without slots is reported; one that waits for its TaskManagers at its start is not."""

import pytest

from detectors.events.event import Event
from tests.unit.detectors.failing import JOB, MINUTE, NO_SLOTS, OTHER, PLANNED, SECOND, Lines, causes, said
from tests.unit.detectors.streams import START, in_order, metric, run


def registered(jm: Lines, at: int, count: float, host: str = "jm-1") -> None:
    jm.events.append(metric("registered_task_managers", at, count, len(jm.events), host=host))


def running(first: int, last: int, count: float, hosts: tuple[str, ...] = ("jm-1",)) -> Lines:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
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
def test_a_failure_for_want_of_slots_is_said_in_any_versions_words(text: str) -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.restart(
        MINUTE, ("java.util.concurrent.CompletionException", f"{NO_SLOTS[0]}: {text}", ""), (NO_SLOTS[0], text, "")
    )
    opened = said(jm, until=2 * MINUTE)[0]
    assert (opened.cause, opened.job_id) == ("slots_unavailable", JOB)
    assert opened.summary == f"job orders has no slots to run in: {text.partition('. ')[0].rstrip('.')}"


def test_jobs_that_all_lack_slots_and_fail_are_one_incident() -> None:
    jm = Lines()
    for job in (JOB, OTHER):
        jm.state(0, "RUNNING", "CREATED", job=job)
        jm.restart(MINUTE, NO_SLOTS, job=job)
        jm.state(2 * MINUTE, "FAILING", job=job)
        jm.stack(2 * MINUTE, NO_SLOTS)
        jm.state(2 * MINUTE + 5, "FAILED", "FAILING", job=job)
    transitions = said(jm, until=4 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "slots_unavailable"


def test_a_warning_alone_is_taken_back_by_a_taskmanager_that_registers() -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.say("slots_wanted", SECOND, job=JOB)
    assert causes(jm, until=MINUTE) == ["slots_unavailable"]
    jm.say("tm_registered", 5 * SECOND, tm="t")
    assert causes(jm, until=MINUTE) == []


GOODBYE = "The TaskExecutor is shutting down."


def replaced(takes: int) -> Lines:
    """A TaskManager is stopped, slots are refused every 3 s, another registers after `takes`."""
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.say("tm_closed", MINUTE, tm="old", reason=GOODBYE)
    jm.restart(MINUTE, PLANNED)
    for at in range(MINUTE + 3 * SECOND, MINUTE + takes, 3 * SECOND):
        jm.say("slots_wanted", at, job=JOB)
        jm.say("slots_refused", at)
        jm.restart(at + 5, NO_SLOTS)
    return jm


def test_slots_that_a_taskmanager_takes_with_its_goodbye_may_be_missing_until_another_registers() -> None:
    jm = replaced(40 * SECOND)
    jm.say("tm_registered", MINUTE + 40 * SECOND, tm="new")
    jm.done(MINUTE + 50 * SECOND)
    assert causes(jm) == []


def test_a_goodbye_without_a_replacement_is_said_after_a_minute() -> None:
    (opened,) = said(replaced(4 * MINUTE), until=5 * MINUTE)[:1]
    assert (opened.cause, opened.severity) == ("slots_unavailable", "critical")
    assert 2 * MINUTE <= opened.at - START <= 2 * MINUTE + SECOND


def test_a_job_that_fails_for_good_while_a_taskmanager_is_replaced_failed_for_want_of_slots() -> None:
    jm = replaced(20 * SECOND)
    at = MINUTE + 21 * SECOND
    jm.state(at, "FAILING")
    jm.stack(at, NO_SLOTS)
    jm.state(at + 5, "FAILED", "FAILING")
    assert said(jm, until=5 * MINUTE)[-1].cause == "slots_unavailable"


def test_a_goodbye_long_ago_excuses_nothing() -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    jm.say("tm_closed", SECOND, tm="old", reason=GOODBYE)
    jm.restart(3 * MINUTE, NO_SLOTS)
    assert said(jm, until=4 * MINUTE)[0].at - START <= 3 * MINUTE + SECOND


def test_it_is_over_when_the_job_completes_a_checkpoint_and_not_when_another_does() -> None:
    def stuck() -> Lines:
        jm = Lines()
        jm.state(0, "RUNNING", "CREATED", job=OTHER, name="other")
        jm.state(0, "RUNNING", "CREATED")
        jm.restart(MINUTE, NO_SLOTS)
        return jm

    jm = stuck()
    jm.done(2 * MINUTE, job=OTHER)
    assert [t.transition for t in said(jm, until=4 * MINUTE)] == ["opened"]
    jm = stuck()
    jm.done(2 * MINUTE)
    assert [t.transition for t in said(jm, until=4 * MINUTE)] == ["opened", "resolved"]


def test_a_job_that_waits_for_its_taskmanagers_at_start_is_healthy() -> None:
    jm = running(0, 2 * MINUTE, 0.0)
    registered(jm, 2 * MINUTE + SECOND, 2.0)
    assert causes(jm, until=6 * MINUTE) == []


def test_a_job_that_says_running_without_any_taskmanager_is_said_and_over_when_one_is_there() -> None:
    jm = running(0, 5 * MINUTE, 0.0)
    opened = said(jm, until=5 * MINUTE)[0]
    assert opened.summary.startswith("job orders has no slots to run in: no TaskManager has been registered for 3 min")
    registered(jm, 5 * MINUTE, 2.0)
    assert [t.transition for t in said(jm, until=7 * MINUTE)] == ["opened", "resolved"]


def test_a_standby_jobmanager_has_no_taskmanagers_and_a_cluster_without_jobs_needs_none() -> None:
    assert causes(running(0, 8 * MINUTE, 2.0, ("jm-1", "jm-2")), until=8 * MINUTE) == []
    idle: list[Event] = [metric("registered_task_managers", at, 0.0) for at in range(0, 8 * MINUTE, 15 * SECOND)]
    assert run(in_order(idle), until=START + 8 * MINUTE) == []
