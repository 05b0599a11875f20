"""Direct memory that is exhausted: in any version's words, whose it is, and that it is reported once."""

import pytest

from detectors.incident import Finding
from tests.unit.detectors.story import HOUR, JOB, MINUTE, SECOND, USER, Story, Thrown, story

OOM = "java.lang.OutOfMemoryError"
DIRECT: list[Thrown] = [
    (OOM, "Direct buffer memory", ""),
    (OOM, "Direct buffer memory. The direct out-of-memory error has occurred. This can mean two things: either", ""),
    (OOM, "Cannot reserve 65536 bytes of direct buffer memory (allocated: 1, limit: 2)", ""),
    (
        "org.apache.flink.shaded.netty4.io.netty.util.internal.OutOfDirectMemoryError",
        "failed to allocate 16777216 byte(s) of direct memory (used: 1, max: 2)",
        "",
    ),
]
TM = "tm-1:6122-aaaaaa"
PLACE = {"tm": TM, "host": "tm-1"}


def exhausted() -> Story:
    return story("direct_memory_exhaustion")


def findings(history: Story) -> list[Finding]:
    return history.transitions(3 * MINUTE)[-1].findings


@pytest.mark.parametrize("fault", DIRECT, ids=lambda f: f[1][:22])
def test_it_is_known_in_any_words_and_belongs_to_the_taskmanager_named(fault: Thrown) -> None:
    wrapped = ("java.io.IOException", "wrapped", "")
    (opened,) = exhausted().task_failed(wrapped, fault, at=MINUTE, **PLACE).transitions(2 * MINUTE)
    assert (opened.cause, opened.findings[0].entity["tm_id"]) == ("direct_memory_exhaustion", TM)


def test_an_application_that_quotes_the_error_and_tries_again_is_healthy() -> None:
    quoted = "the peer failed with java.lang.OutOfMemoryError: Direct buffer memory, trying again in 5 s"
    history = exhausted().by("tm-1").line("tm_started", 0, tm=TM)
    for attempt in range(5):
        history.stack(("com.example.PoolException", quoted, ""), at=MINUTE + attempt * 5 * SECOND)
    assert history.by("jm").completed(1, 2 * MINUTE).transitions() == []


def test_heap_and_other_failures_are_not_this() -> None:
    other = exhausted().task_failed((OOM, "Java heap space", ""), at=MINUTE, **PLACE)
    other.task_failed((OOM, "Metaspace", ""), at=2 * MINUTE, **PLACE)
    other.task_failed(("java.lang.RuntimeException", "Direct buffer memory", ""), at=3 * MINUTE, **PLACE)
    assert other.transitions() == []


def test_the_logs_of_the_taskmanager_and_of_the_jobmanager_are_one_finding() -> None:
    own = exhausted().by("tm-1").task_failed(DIRECT[0], at=MINUTE)
    assert [f.subject for f in findings(own)] == ["tm-1"]
    own.by("jm").task_failed(DIRECT[0], at=MINUTE + 300, **PLACE)
    assert [f.subject for f in findings(own)] == [TM]


def test_restarts_and_the_end_of_the_job_that_follow_are_the_same_incident() -> None:
    jm = story("direct_memory_exhaustion", "restart_loop", "job_failed").runs()
    for n in range(1, 5):
        at, attempt = n * 10 * SECOND, f"{n:032x}"
        jm.task_failed(DIRECT[0], at=at, attempt=attempt, **PLACE)
        jm.line("tasks_restarting", at + 2, failed=attempt).state("RESTARTING", at=at + 2)
    jm.at(50 * SECOND).state("FAILING").stack(DIRECT[0]).gap(5).state("FAILED", "FAILING")
    transitions = jm.transitions(2 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "direct_memory_exhaustion"
    assert {f.kind for f in transitions[-1].findings} == {"direct_memory_exhaustion", "restart_loop", "job_failed"}


def test_it_ends_when_checkpoints_complete_a_while_after() -> None:
    jm = exhausted().task_failed(DIRECT[0], at=MINUTE, **PLACE).completed(1, MINUTE + 20 * SECOND)
    assert [t.transition for t in jm.transitions(4 * MINUTE)] == ["opened"]
    jm.completed(2, 3 * MINUTE)
    assert [t.transition for t in jm.transitions(5 * MINUTE)] == ["opened", "resolved"]


def test_a_failure_of_the_job_alone_blames_no_process() -> None:
    """The job's line repeats its task's, without naming a TaskManager."""
    jm = exhausted().at(MINUTE).state("FAILING", job=JOB).stack(USER, DIRECT[0])
    assert jm.opened(HOUR) == []
