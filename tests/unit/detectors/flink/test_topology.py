"""Whose a checkpoint line is that names no job, as before Flink 1.9."""

import pytest

from detectors.events.event import Event
from detectors.flink.topology import Topology
from tests.unit.detectors.streams import START, in_order, log, metric, run

JOB, OTHER = "a" * 32, "b" * 32
SECOND = 1_000


def expired_after(*jobs: str) -> list[tuple[str, str]]:
    """(cause, job) of findings about an expired checkpoint and its late acknowledgements; only those name the job."""
    events: list[Event] = [
        metric("completed_checkpoints", n, 1.0, n, job_id=job, job_name=f"job {job[0]}") for n, job in enumerate(jobs)
    ]
    events.append(log("checkpoint_expired", 10 * SECOND, 10, checkpoint="7"))
    events += [
        log("checkpoint_acked_late", 20 * SECOND + n, 20 + n, checkpoint="7", attempt=str(n) * 32, job=JOB)
        for n in range(3)
    ]
    transitions = run(in_order(events), until=START + 30 * SECOND)
    return [(t.cause, next(f.subject for f in t.findings if f.kind == t.cause)) for t in transitions]


def test_the_only_job_that_is_measured_is_meant_where_no_line_has_named_one() -> None:
    assert expired_after(JOB) == [("checkpoint_overdue", JOB), ("late_barrier_acks", JOB)]


def test_of_several_none_is() -> None:
    assert expired_after(JOB, OTHER) == [("checkpoint_overdue", "source:jm")]


@pytest.mark.parametrize(("older", "known"), [(500, False), (1_000, True), (100_000, True), (900_000, False)])
def test_a_line_that_is_sent_again_does_not_change_what_is_known_of_jobs(older: int, known: bool) -> None:
    """Threads overtake each other by less, and a time zone is corrected by more."""
    topology = Topology()
    for at, job, state in (
        (0, JOB, "RUNNING"),
        (10, JOB, "FAILED"),
        (11, OTHER, "RUNNING"),
        (11 - older, JOB, "RUNNING"),
    ):
        topology.update(log("job_state", at, job=job, name="orders", before="CREATED", state=state), START + at)
    assert topology.job_of_source["jm"] == (OTHER if known else JOB)
    assert topology.jobs[JOB].state == ("FAILED" if known else "RUNNING")


def test_a_jobmanager_whose_clock_is_behind_is_believed() -> None:
    topology = Topology()
    for source, at, state in (("jm-1", 30_000, "SUSPENDED"), ("jm-2", 10_000, "RUNNING")):
        line = log("job_state", at, 0, source, job=JOB, name="orders", before="CREATED", state=state)
        topology.update(line, START + at)
    assert topology.jobs[JOB].state == "RUNNING"
