"""Whose a checkpoint line is that names no job, as before Flink 1.9."""

from detectors.events.event import Event
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
