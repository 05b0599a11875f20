"""Findings of jobs and processes that are no more end by proof of another kind, and no other finding does."""

import pytest

from detectors.events.event import LogEvent
from detectors.flink.facts import fact_of
from detectors.flink.topology import Job, Topology
from detectors.incident import Finding
from detectors.incidents.orphaned import OrphanedFindings
from detectors.incidents.transitions import Incident
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, finding
from tests.unit.detectors.streams import START, log

OLD, NEW = "a" * 32, "b" * 32


def started(at: int, what: str = "StandaloneSessionClusterEntrypoint") -> LogEvent:
    return log("process_version", at, what=what, version="1.20.5")


def completed(job: str, at: int) -> LogEvent:
    return log("checkpoint_completed", at, job=job, checkpoint="3", duration="5", bytes="1")


def ended(open_one: Finding, *lines: LogEvent, topology: Topology | None = None) -> list[Finding]:
    gone, found = OrphanedFindings(), []
    for line in lines:
        incidents = [Incident("i", 0, [open_one], seq=1)]
        found += list(gone.update(line, fact_of(line), line.timestamp - START, incidents, topology or Topology()))
    return found


def hung(kind: str = "checkpoint_overdue", **entity: str) -> Finding:
    return finding(kind, OLD, 0, entity={"job_id": OLD, **entity})


def test_a_job_that_returns_under_another_id_after_its_jobmanager_died_ends_what_was_reported_of_it() -> None:
    (one,) = ended(hung("late_barrier_acks"), started(MINUTE), completed(NEW, 3 * MINUTE))
    assert one.closed_at is not None
    assert "runs under another ID" in one.closed_because


def test_another_jobs_checkpoint_alone_proves_nothing() -> None:
    assert ended(hung(), completed(NEW, 30 * MINUTE)) == []
    assert ended(hung(), started(MINUTE, "TaskManager"), completed(NEW, 30 * MINUTE)) == []


def test_a_job_that_the_new_jobmanager_speaks_of_is_not_gone() -> None:
    assert (
        ended(
            hung(), started(MINUTE), log("job_state", 2 * MINUTE, job=OLD, state="RUNNING"), completed(NEW, 3 * MINUTE)
        )
        == []
    )


def test_a_checkpoint_in_the_first_minute_proves_nothing_yet() -> None:
    assert ended(hung(), started(MINUTE), completed(NEW, MINUTE + 10_000)) == []


def test_a_job_of_the_same_name_that_has_run_for_ten_minutes_takes_the_place_of_the_silent_one() -> None:
    topology = Topology(jobs={OLD: Job("orders", "RUNNING", 0), NEW: Job("orders", "RUNNING", 5 * MINUTE)})
    assert ended(hung(), completed(NEW, 9 * MINUTE), topology=topology) == []
    assert len(ended(hung(), completed(NEW, 12 * MINUTE), topology=topology)) == 1
    topology.jobs[NEW].name = "other"
    assert ended(hung(), completed(NEW, 12 * MINUTE), topology=topology) == []


def full_heap(kind: str = "heap_exhaustion") -> Finding:
    return finding(kind, "tm-1", 0, entity={"tm_id": "tm-1", "job_id": ""})


def test_a_full_heap_ends_with_its_process_once_a_checkpoint_completes_without_it() -> None:
    left = log("tm_unreachable", MINUTE, tm="tm-1")
    assert len(ended(full_heap(), left, completed(NEW, 3 * MINUTE))) == 1
    assert ended(full_heap(), completed(NEW, 3 * MINUTE)) == []
    back = log("tm_registered", 2 * MINUTE, tm="tm-1")
    assert ended(full_heap(), left, back, completed(NEW, 3 * MINUTE)) == []


@pytest.mark.parametrize("kind", ["zero_input_leak", "taskmanager_lost", "node_lost"])
def test_what_outlives_a_process_does_not_end_with_it(kind: str) -> None:
    assert ended(full_heap(kind), log("tm_unreachable", MINUTE, tm="tm-1"), completed(NEW, 9 * MINUTE)) == []
