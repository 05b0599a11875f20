"""Too few network buffers: which failures, whose job, and what it explains."""

import pytest

from detectors.incident import Finding
from tests.unit.detectors.story import HOUR, JOB, MINUTE, OTHER, SECOND, USER, Story, Thrown, follow, story

TM = "tm-1:6122-aaaaaa"
PLACE = {"tm": TM, "host": "tm-1"}
CONFIGURED = (
    "The total number of network buffers is currently set to 4096 of 32768 bytes each. You can increase this number"
)
TOO_FEW: Thrown = (
    "java.io.IOException",
    f"Insufficient number of network buffers: required 65, but only 12 available. {CONFIGURED}",
    "",
)
POOL = "Could not allocate enough memory segments for NetworkBufferPool"
NO_POOL: Thrown = (
    "java.lang.OutOfMemoryError",
    f"{POOL} (required (MB): 64, allocated (MB): 10, missing (MB): 54). Cause: Cannot reserve 32768 bytes",
    "",
)
TIMED_OUT: Thrown = ("java.io.IOException", f"Timeout triggered when requesting exclusive buffers: {CONFIGURED}", "")


def short(*more: str) -> Story:
    return story("network_buffers_exhausted", *more).runs()


def last(history: Story, until: int = 3 * MINUTE) -> Finding:
    return history.transitions(until)[-1].findings[0]


def test_tasks_whose_buffers_are_all_in_use_are_healthy() -> None:
    """Buffers are full before every slow task, and a task that is cancelled meanwhile finds its pool gone."""
    history = short()
    for second in range(0, 600, 15):
        for name in ("in_pool_usage", "is_backpressured"):
            history.measure(name, 1.0, second * SECOND, job_id=JOB, task_id="e" * 32, subtask_index="0", tm_id="tm_1")
    cancelled = ("java.lang.IllegalStateException", "Buffer pool is destroyed.", "")
    assert history.by("tm-1").stack(cancelled, at=10 * MINUTE).opened(HOUR) == []


def test_other_failures_are_not_this() -> None:
    history = short().task_failed(USER, at=MINUTE, **PLACE)
    history.task_failed(("java.lang.OutOfMemoryError", "Direct buffer memory", ""), at=2 * MINUTE, **PLACE)
    history.task_failed(("java.io.IOException", "Insufficient number of replicas", ""), at=3 * MINUTE, **PLACE)
    assert history.opened(HOUR) == []


def test_a_task_of_one_of_several_jobs_in_a_taskmanagers_log_waits_for_the_jobmanagers_line() -> None:
    history = short().runs(job=OTHER, name="payments").by("tm-1").line("tm_started", 0, tm=TM)
    assert history.task_failed(TOO_FEW, at=MINUTE).opened(2 * MINUTE) == []
    history.by("jm").state("RUNNING", "CREATED", 50 * SECOND).task_failed(TOO_FEW, at=MINUTE + 100, **PLACE)
    assert last(history).entity["job_id"] == JOB


def test_the_logs_of_the_taskmanager_and_of_the_jobmanager_are_one_sign() -> None:
    history = short().by("tm-1").task_failed(TOO_FEW, at=MINUTE).by("jm")
    assert "times" not in last(history.task_failed(TOO_FEW, at=MINUTE + 300, **PLACE)).summary


def test_it_says_what_is_missing_and_where() -> None:
    finding = last(short().task_failed(("java.lang.Exception", "wrapped", ""), TOO_FEW, at=MINUTE, **PLACE))
    assert (finding.subject, finding.severity) == (JOB, "critical")
    assert finding.summary == (
        f"job orders cannot run for lack of network buffers on TaskManager {TM}: "
        "a task requires 65, and 12 of 4096 are available"
    )
    assert (finding.entity["job_name"], finding.entity["tm_id"]) == ("orders", TM)


@pytest.mark.parametrize(("fault", "words"), [(NO_POOL, "required (MB): 64"), (TIMED_OUT, "exclusive buffers")])
def test_other_words_mean_the_same(fault: Thrown, words: str) -> None:
    assert words in last(short().task_failed(fault, at=MINUTE, **PLACE)).summary


def test_a_taskmanager_that_cannot_start_is_known_by_its_host_where_no_job_is() -> None:
    history = story("network_buffers_exhausted").by("tm-7").stack(NO_POOL, at=MINUTE)
    finding = last(history)
    assert (finding.subject, finding.entity["job_id"]) == ("tm-7", "")
    assert finding.summary.startswith("a job cannot run for lack of network buffers on a process on host tm-7: ")


def test_the_loop_and_the_end_of_the_job_are_its_effects() -> None:
    history = short("restart_loop", "job_failed")
    for n in range(1, 6):
        history.restart(TOO_FEW, at=n * 10 * SECOND)
    history.at(MINUTE).state("FAILING").stack(TOO_FEW).gap(5).state("FAILED", "FAILING")
    transitions = history.transitions(3 * MINUTE)
    assert len({t.incident for t in transitions}) == 1
    assert transitions[-1].cause == "network_buffers_exhausted"
    assert {f.kind for f in transitions[-1].findings} == {"network_buffers_exhausted", "restart_loop", "job_failed"}
    assert transitions[-1].summary.startswith(
        "job orders cannot run for lack of network buffers, 6 times in 50 s: a task requires 65, and 12"
    )


def test_slots_that_a_taskmanager_cannot_offer_are_its_effect() -> None:
    history = short("slots_unavailable").by("tm-7").stack(NO_POOL, at=MINUTE).by("jm")
    history.line("slots_refused", MINUTE + SECOND).line("slots_wanted", MINUTE + SECOND, job=JOB)
    transitions = history.transitions(10 * MINUTE)
    assert {t.cause for t in transitions} == {"network_buffers_exhausted"}


def test_it_ends_when_checkpoints_complete_a_while_after() -> None:
    history = follow("network_buffers_exhausted").runs(0).task_failed(TOO_FEW, at=0, **PLACE)
    history.completed(1, MINUTE)
    history.completed(2, 3 * MINUTE + SECOND)
    assert [f.closed_because for f in history.findings()] == [
        "",
        "a checkpoint completed 3 min 1 s after the last sign",
    ]
