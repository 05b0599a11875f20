"""Whose task has failed, in the log of a JobManager with several jobs."""

from detectors.events.event import LogEvent
from detectors.flink.facts import fact_of
from detectors.flink.topology import Topology
from tests.unit.detectors.story import story
from tests.unit.detectors.streams import log

JOB, OTHER = "a" * 32, "b" * 32
GRAPH, SECOND_GRAPH = "1" * 32, "2" * 32
VERTEX = "e" * 32
NO_BUFFERS = ("java.io.IOException", "Insufficient number of network buffers: required 9, but only 2 available.", "")


def attempt(graph: str, number: int = 0) -> str:
    return f"{graph}_{VERTEX}_0_{number}"


def state(at: int, job: str, new: str = "RUNNING", source: str = "jm") -> LogEvent:
    return log("job_state", at, at, source, job=job, name=f"job {job[0]}", before="CREATED", state=new)


def task(at: int, graph: str, new: str = "SCHEDULED", source: str = "jm", number: int = 0) -> LogEvent:
    named = {"task": "map", "subtask": "0", "parallelism": "1", "before": "CREATED", "state": new}
    return log("task_state", at, at, source, attempt=attempt(graph, number), **named)


def checkpoint(at: int, job: str) -> LogEvent:
    return log("checkpoint_triggered", at, at, "jm", checkpoint="7", job=job)


def failed_job(*lines: LogEvent) -> str:
    """The job of the last line, after those before it."""
    topology = Topology()
    for line in lines:
        fact = fact_of(line)
        assert fact is not None
        topology.update(line, fact, line.timestamp, line.local_time)
    return topology.job_of_failure(lines[-1])


def test_a_checkpoint_of_another_job_in_the_line_before_does_not_make_it_that_jobs_failure() -> None:
    """As recorded with Flink 1.20.5: the failing job was accused of by turns with the healthy one."""
    begin = [state(0, JOB), task(10, GRAPH), state(5_000, OTHER), task(5_010, SECOND_GRAPH)]
    assert failed_job(*begin, checkpoint(9_000, JOB), task(9_001, SECOND_GRAPH, "FAILED")) == OTHER
    assert failed_job(*begin, checkpoint(9_000, OTHER), task(9_001, GRAPH, "FAILED", number=3)) == JOB


def test_the_line_that_tasks_are_restarted_names_the_job_by_its_attempt() -> None:
    begin = [state(0, JOB), task(10, GRAPH), state(5_000, OTHER)]
    restarting = log("tasks_restarting", 9_001, 9_001, "jm", failed=attempt(GRAPH), count="1")
    assert failed_job(*begin, checkpoint(9_000, OTHER), restarting) == JOB


def test_jobs_that_start_at_once_are_told_apart_by_the_next_restart_only() -> None:
    """After a failover the JobManager recovers all jobs within milliseconds, and their lines are mixed."""
    begin = [state(0, JOB), state(2, OTHER), task(4, GRAPH), task(5, SECOND_GRAPH)]
    assert failed_job(*begin, task(9_000, GRAPH, "FAILED")) == OTHER  # The last that was named: no better is known.
    again = [*begin, state(20_000, JOB), task(20_010, GRAPH, number=1), checkpoint(30_000, OTHER)]
    assert failed_job(*again, task(30_001, GRAPH, "FAILED", number=1)) == JOB


def test_a_job_that_has_waited_for_slots_or_another_jobmanagers_log_tells_nothing() -> None:
    begin = [state(0, JOB), task(60_000, GRAPH, "DEPLOYING"), checkpoint(61_000, OTHER)]
    assert failed_job(*begin, task(61_001, GRAPH, "FAILED")) == OTHER
    begin = [state(0, JOB, source="jm-2"), task(10, GRAPH), checkpoint(61_000, OTHER)]
    assert failed_job(*begin, task(61_001, GRAPH, "FAILED")) == OTHER


def test_attempts_of_flink_before_1_16_have_no_graph() -> None:
    old = {"task": "map", "subtask": "0", "parallelism": "1", "before": "CREATED"}
    begin = [state(0, JOB), log("task_state", 10, 10, "jm", attempt="c" * 32, state="SCHEDULED", **old)]
    end = log("task_state", 9_001, 9_001, "jm", attempt="c" * 32, state="FAILED", **old)
    assert failed_job(*begin, checkpoint(9_000, OTHER), end) == OTHER


def test_the_healthy_job_of_a_session_cluster_is_not_accused_of_the_others_lack_of_buffers() -> None:
    history = story("network_buffers_exhausted", "restart_loop").job("healthy", OTHER).state("RUNNING").gap("1 min")
    history.job("broken").state("RUNNING")
    named = {"task": "map", "subtask": "0", "parallelism": "8", "before": "CREATED"}
    history.line("task_state", **named, state="SCHEDULED", attempt=attempt(GRAPH))
    for number in range(8):
        history.gap("4 s").triggered(job=OTHER)
        history.task_failed(NO_BUFFERS, attempt=attempt(GRAPH, number)).state("RESTARTING").gap("1 s")
        history.state("RUNNING", "RESTARTING")
    accused = {f.entity.get("job_name", "") for t in history.transitions() for f in t.findings}
    assert accused == {"broken"}
