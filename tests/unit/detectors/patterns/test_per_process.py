"""Exhausted memory: direct, Metaspace, and the container's limit; whose it is, and that it is said once."""

import pytest

from detectors.events.vocabulary import match
from detectors.incident import Finding
from detectors.patterns.per_process import recurrence
from tests.unit.detectors.failing import HOUR, JOB, MINUTE, SECOND, USER, Lines, Thrown, causes, said
from tests.unit.detectors.streams import metric

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
METASPACE = (OOM, "Metaspace", "")
TM = "tm-1:6122-aaaaaa"
PLACE = {"tm": TM, "host": "tm-1"}
HADOOP_3 = (
    "Container [pid=21876,containerID=container_e47_1654843011567_0042_01_000002] is running 11714560B beyond the "
    "'PHYSICAL' memory limit. Current usage: 3.0 GB of 3 GB physical memory used; 6.1 GB of 6.3 GB virtual memory "
    "used. Killing container."
)
HADOOP_2 = (
    "Container [pid=8,containerID=container_1654843011567_0042_01_000002] is running beyond virtual memory limits. "
    "Current usage: 1.0 GB of 3 GB physical memory used; 6.4 GB of 6.3 GB virtual memory used. Killing container."
)


def findings(*lines: Lines, until: int = HOUR) -> list[Finding]:
    return said(*lines, until=until)[-1].findings


@pytest.mark.parametrize("fault", DIRECT, ids=lambda f: f[1][:22])
def test_direct_memory_is_known_in_any_words_and_belongs_to_the_taskmanager_named(fault: Thrown) -> None:
    jm = Lines()
    jm.task_failed(MINUTE, ("java.io.IOException", "wrapped", ""), fault, **PLACE)
    (opened,) = said(jm, until=2 * MINUTE)
    assert (opened.cause, opened.findings[0].entity["tm_id"]) == ("direct_memory_exhaustion", TM)


def test_heap_and_other_failures_are_not_these() -> None:
    jm = Lines()
    jm.task_failed(MINUTE, (OOM, "Java heap space", ""), **PLACE)
    jm.task_failed(2 * MINUTE, ("java.lang.RuntimeException", "Metaspace", ""), **PLACE)
    kinds = {f.kind for t in said(jm) for f in t.findings}
    assert not kinds & {"direct_memory_exhaustion", "metaspace_exhaustion", "memory_limit_kill"}


def test_the_log_of_the_taskmanager_and_of_the_jobmanager_tell_the_same_once() -> None:
    tm, jm = Lines("tm-1"), Lines()
    tm.task_failed(MINUTE, DIRECT[0])
    jm.task_failed(MINUTE + 300, DIRECT[0], **PLACE)
    assert [f.subject for f in findings(jm, tm, until=3 * MINUTE)] == [TM]
    assert [f.subject for f in findings(tm, until=3 * MINUTE)] == ["tm-1"]


def test_an_out_file_is_known_by_its_host() -> None:
    log, out = Lines("tm-1"), Lines("tm-1")
    log.say("tm_started", 0, tm=TM)
    out.stack(MINUTE, METASPACE)
    out.events[0].source = "tm-1:out"
    assert [(f.kind, f.subject) for f in findings(log, out, until=2 * MINUTE)] == [("metaspace_exhaustion", TM)]


def test_restarts_and_the_end_of_the_job_that_follow_are_the_same_incident() -> None:
    jm = Lines()
    jm.state(0, "RUNNING", "CREATED")
    for n in range(4):
        jm.task_failed((n + 1) * 10 * SECOND, DIRECT[0], attempt=f"{n:032x}", **PLACE)
        jm.say("tasks_restarting", (n + 1) * 10 * SECOND + 2, failed=f"{n:032x}")
        jm.state((n + 1) * 10 * SECOND + 2, "RESTARTING")
    jm.state(50 * SECOND, "FAILING")
    jm.stack(50 * SECOND, DIRECT[0])
    jm.state(50 * SECOND + 5, "FAILED", "FAILING")
    transitions = said(jm, until=2 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "direct_memory_exhaustion"
    assert {f.kind for f in transitions[-1].findings} == {"direct_memory_exhaustion", "restart_loop", "job_failed"}


def test_it_is_over_when_checkpoints_complete_a_while_after() -> None:
    jm = Lines()
    jm.task_failed(MINUTE, DIRECT[0], **PLACE)
    jm.done(MINUTE + 20 * SECOND)
    assert [t.transition for t in said(jm, until=4 * MINUTE)] == ["opened"]
    jm.done(3 * MINUTE)
    assert [t.transition for t in said(jm, until=5 * MINUTE)] == ["opened", "resolved"]


@pytest.mark.parametrize(
    ("line", "used"), [(HADOOP_3, "3.0 GB of 3 GB physical"), (HADOOP_2, "6.4 GB of 6.3 GB virtual")]
)
def test_yarns_kill_is_read_from_the_nodemanager_and_from_diagnostics(line: str, used: str) -> None:
    found = match.match_anywhere(f"2022-06-15 05:25:33,348 WARN org.apache.hadoop.ContainersMonitorImpl: {line}")
    assert found is not None
    nm, jm = Lines("nm"), Lines()
    nm.say(found[0], MINUTE, **found[1])
    assert used in said(nm, until=2 * MINUTE)[0].summary
    worker = match.match(f"Worker {found[1]['tm']} is terminated. Diagnostics: [2022]{line}")
    assert worker is not None
    jm.say(worker[0], MINUTE + SECOND, **worker[1])
    transitions = said(nm, jm, until=2 * MINUTE)
    assert {t.incident for t in transitions} == {transitions[0].incident}
    assert transitions[-1].cause == "memory_limit_kill"
    assert causes(jm, until=2 * MINUTE)[0] in ("memory_limit_kill", "taskmanager_lost")
    assert said(jm, until=2 * MINUTE)[-1].cause == "memory_limit_kill"


def test_kubernetes_kill_is_told_from_other_ends_of_a_pod() -> None:
    def ended(status: str) -> list[str]:
        jm = Lines()
        jm.say(
            "tm_closed",
            MINUTE,
            tm="orders-taskmanager-1-3",
            reason=f"Pod terminated, statuses: [main({status})], failed",
        )
        return [t.cause for t in said(jm, until=2 * MINUTE)][-1:]

    assert ended("exitCode=137, reason=OOMKilled, message=null") == ["memory_limit_kill"]
    assert ended("exitCode=137, reason=Error, message=null") == ["taskmanager_lost"]


def test_kills_at_a_constant_period_are_said_to_be_a_leak() -> None:
    assert recurrence([0, HOUR]) == ""
    assert recurrence([0, HOUR, 2 * HOUR]).startswith("; 3 times so far, every 1 h: a constant period")
    assert recurrence([0, HOUR, 5 * HOUR]) == "; 3 times so far, not regularly"


def deployments(levels: list[float], limit: float, after: float) -> Lines:
    """Metaspace before each deployment and after the last, as the metrics show it."""
    jm = Lines()
    for n, level in enumerate([*levels, after]):
        at = n * MINUTE
        jm.events.append(metric("metaspace_max", at, limit, len(jm.events), tm_id="tm_1:6122_aaaaaa", host="tm_1"))
        jm.events.append(metric("metaspace_used", at + 1, level, len(jm.events), tm_id="tm_1:6122_aaaaaa", host="tm_1"))
        if n < len(levels):
            jm.state(at + 10 * SECOND, "RUNNING", "CREATED", job=f"{n:032x}")
    return jm


MB = 1e6


def test_a_staircase_is_warned_of_when_the_next_step_is_too_much() -> None:
    transitions = said(deployments([38 * MB, 54 * MB, 64 * MB], 84 * MB, 75 * MB), until=4 * MINUTE)
    assert [(t.transition, t.cause, t.severity) for t in transitions] == [("opened", "metaspace_exhaustion", "warning")]
    assert "uses 75 of 84 MB Metaspace after 3 deployments" in transitions[0].summary
    assert transitions[0].findings[0].series is not None


@pytest.mark.parametrize(
    ("levels", "limit", "after"),
    [
        ([38 * MB, 54 * MB, 64 * MB], 256 * MB, 75 * MB),
        ([210 * MB, 211 * MB, 212 * MB], 256 * MB, 213 * MB),
        ([38 * MB, 75 * MB, 40 * MB], 84 * MB, 76 * MB),
        ([38 * MB, 72 * MB, 72 * MB], 84 * MB, 72 * MB),
        ([38 * MB], 84 * MB, 76 * MB),
    ],
    ids=["far from the limit", "hardly grows", "comes down", "flat", "one large job"],
)
def test_other_courses_of_metaspace_are_healthy(levels: list[float], limit: float, after: float) -> None:
    assert causes(deployments(levels, limit, after), until=10 * MINUTE) == []


def test_a_warning_becomes_critical_with_the_error_and_stays_one_incident() -> None:
    jm, tm = deployments([38 * MB, 54 * MB, 64 * MB], 84 * MB, 75 * MB), Lines("tm-1")
    tm.say("tm_started", 0, tm=TM)
    tm.stack(4 * MINUTE, METASPACE)
    transitions = said(jm, tm, until=5 * MINUTE)
    assert [(t.transition, t.severity) for t in transitions] == [("opened", "warning"), ("updated", "critical")]
    assert "has no Metaspace left" in transitions[-1].summary


def test_a_warning_is_over_when_classes_are_unloaded_or_the_process_is_replaced() -> None:
    jm = deployments([38 * MB, 54 * MB, 64 * MB], 84 * MB, 75 * MB)
    down = metric("metaspace_used", 5 * MINUTE, 30 * MB, len(jm.events), tm_id="tm_1:6122_aaaaaa", host="tm_1")
    jm.events.append(down)
    assert said(jm, until=7 * MINUTE)[-1].transition == "resolved"
    jm = deployments([38 * MB, 54 * MB, 64 * MB], 84 * MB, 75 * MB)
    again = Lines("tm-1")
    again.say("tm_started", 5 * MINUTE, tm="tm-1:6122-bbbbbb")
    jm.say("tm_registered", 5 * MINUTE + SECOND, tm="tm-1:6122-bbbbbb")
    assert said(jm, again, until=7 * MINUTE)[-1].transition == "resolved"


def test_a_failure_of_the_job_alone_blames_no_process() -> None:
    """The job's line repeats its task's, without naming a TaskManager."""
    jm = Lines()
    jm.state(MINUTE, "FAILING", job=JOB)
    jm.stack(MINUTE, USER, DIRECT[0])
    assert "direct_memory_exhaustion" not in causes(jm)
