"""Whose a checkpoint line is that names no job, as before Flink 1.9."""

import msgspec
import pytest

from detectors.events.event import Event, LogEvent
from detectors.events.vocabulary.flink_events import JOB_STATE
from detectors.flink.facts import Fact, fact_of
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


def update(topology: Topology, line: LogEvent) -> Fact | None:
    fact = fact_of(line)
    assert fact is not None
    return topology.update(line, fact, line.timestamp, line.local_time)


def state(at: int, job: str, new: str, lag: int = 100, source: str = "jm") -> LogEvent:
    return log("job_state", at, 0, source, lag, job=job, name="orders", before="CREATED", state=new)


def test_a_line_that_is_sent_again_within_two_minutes_is_nothing_new() -> None:
    for lag, new in ((500, False), (120_100, False), (120_101, True)):
        topology = Topology()
        for at, job, now in ((0, JOB, "RUNNING"), (10, JOB, "FAILED"), (11, OTHER, "RUNNING")):
            assert update(topology, state(at, job, now)) is not None
        assert (update(topology, state(0, JOB, "RUNNING", lag)) is not None) is new
        assert topology.jobs[JOB].state == ("RUNNING" if new else "FAILED")


@pytest.mark.parametrize(("older", "known"), [(500, False), (1_000, True), (100_000, True), (900_000, False)])
def test_an_older_line_does_not_change_which_job_a_source_writes_of(older: int, known: bool) -> None:
    """Threads overtake each other by less, and a time zone is corrected by more."""
    topology = Topology()
    update(topology, state(11, OTHER, "RUNNING"))
    update(topology, state(11 - older, JOB, "RUNNING"))
    assert topology.job_of_source["jm"] == (OTHER if known else JOB)


def test_a_jobmanager_whose_clock_is_behind_is_believed() -> None:
    topology = Topology()
    update(topology, state(30_000, JOB, "SUSPENDED", source="jm-1"))
    update(topology, state(10_000, JOB, "RUNNING", source="jm-2"))
    assert topology.jobs[JOB].state == "RUNNING"


def told(at: int, new: str) -> LogEvent:
    """What Flink's event reporter sends of the same change, from a source of its own."""
    event = log("job_state", at, 0, "orders-7d9f", 3_000, job=JOB, name="orders", state=new)
    return msgspec.structs.replace(event, text=f"{JOB_STATE} of job orders ({JOB}): {new}", zoned=True)


@pytest.mark.parametrize("first", ["log", "event"])
def test_a_change_that_log_and_event_both_state_is_one_change(first: str) -> None:
    topology = Topology()
    for at in (0, 1_500, 3_000):
        both = [state(at, JOB, "RESTARTING"), told(at + 2, "RESTARTING")]
        found = [update(topology, line) for line in (both if first == "log" else reversed(both))]
        assert [fact is not None for fact in found] == [True, False]


def test_a_change_that_only_one_of_them_states_is_new_each_time() -> None:
    topology = Topology()
    assert update(topology, told(0, "RUNNING")) is not None
    assert update(topology, told(500, "RESTARTING")) is not None
    assert update(topology, told(900, "RUNNING")) is not None
    assert update(topology, state(2_000, JOB, "RUNNING")) is not None
    assert topology.jobs[JOB].name == "orders"
