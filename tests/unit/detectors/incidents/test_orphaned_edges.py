"""When exactly another kind of proof ends a finding: each wait just before and just after it is over."""

import pytest

from detectors.events.event import LogEvent
from detectors.flink.facts import fact_of
from detectors.flink.topology import Job, Topology
from detectors.incident import Finding
from detectors.incidents.orphaned import OrphanedFindings
from detectors.incidents.transitions import Incident
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, finding
from tests.unit.detectors.incidents.test_orphaned import NEW, OLD, completed, ended, full_heap, hung, started
from tests.unit.detectors.streams import log

SETTLED, SILENT = 60_000, 600_000
LAG = 100  # of the lines


def of_old(at: int) -> LogEvent:
    return log("job_state", at, job=OLD, state="RUNNING")


@pytest.mark.parametrize(("after", "ends"), [(SETTLED - 1, 0), (SETTLED, 1)])
def test_a_jobmanager_has_a_minute_to_bring_its_jobs_back(after: int, ends: int) -> None:
    found = ended(hung(), started(MINUTE), completed(NEW, MINUTE + after))
    assert len(found) == ends


@pytest.mark.parametrize(("since", "ends"), [(MINUTE + LAG - 1, 1), (MINUTE + LAG, 0)])
def test_what_began_under_the_new_jobmanager_is_not_of_the_old_one(since: int, ends: int) -> None:
    late = finding("checkpoint_overdue", OLD, 0, since=since, entity={"job_id": OLD})
    assert len(ended(late, started(MINUTE), completed(NEW, 9 * MINUTE))) == ends


@pytest.mark.parametrize(("silent", "ends"), [(SILENT - 1, 0), (SILENT, 1)])
def test_a_job_that_the_new_jobmanager_has_spoken_of_is_gone_after_ten_silent_minutes(silent: int, ends: int) -> None:
    lines = (started(MINUTE), of_old(2 * MINUTE), completed(NEW, 2 * MINUTE + silent))
    assert len(ended(hung(), *lines)) == ends


@pytest.mark.parametrize(("silent", "ends"), [(SILENT - 1, 0), (SILENT, 1)])
def test_a_job_of_the_same_name_takes_the_place_of_one_that_is_silent_for_ten_minutes(silent: int, ends: int) -> None:
    topology = Topology(jobs={OLD: Job("orders", "RUNNING", 0), NEW: Job("orders", "RUNNING", 5 * MINUTE)})
    assert len(ended(hung(), of_old(MINUTE), completed(NEW, MINUTE + silent), topology=topology)) == ends


@pytest.mark.parametrize(("since", "ends"), [(MINUTE + LAG, 0), (MINUTE + LAG + 1, 1)])
def test_a_job_of_the_same_name_that_ran_next_to_the_other_does_not_take_its_place(since: int, ends: int) -> None:
    topology = Topology(jobs={OLD: Job("orders", "RUNNING", 0), NEW: Job("orders", "RUNNING", since)})
    assert len(ended(hung(), of_old(MINUTE), completed(NEW, 20 * MINUTE), topology=topology)) == ends


def test_jobs_without_a_name_are_not_taken_for_each_other() -> None:
    topology = Topology(jobs={OLD: Job("", "RUNNING", 0), NEW: Job("", "RUNNING", 5 * MINUTE)})
    assert ended(hung(), completed(NEW, 20 * MINUTE), topology=topology) == []
    assert ended(hung(), completed("c" * 32, 20 * MINUTE), topology=topology) == []


def test_its_own_checkpoint_or_a_finding_without_a_job_prove_nothing_here() -> None:
    assert ended(hung(), started(MINUTE), completed(OLD, 30 * MINUTE)) == []
    nameless = finding("checkpoint_overdue", OLD, 0, entity={"job_id": ""})
    assert ended(nameless, started(MINUTE), completed(NEW, 30 * MINUTE)) == []


@pytest.mark.parametrize(("after", "ends"), [(SETTLED - 1, 0), (SETTLED, 1)])
@pytest.mark.parametrize("left", ["tm_closed", "tm_unreachable", "tm_timed_out"])
def test_a_taskmanager_is_gone_a_minute_after_it_left(left: str, after: int, ends: int) -> None:
    lines = (
        log(left, MINUTE, tm="tm-1", reason=""),
        log(left, 2 * MINUTE, tm="tm-1", reason=""),
        completed(NEW, MINUTE + after),
    )
    assert len(ended(full_heap(), *lines)) == ends


@pytest.mark.parametrize(("after", "ends"), [(SETTLED - 1, 0), (SETTLED, 1)])
def test_and_a_minute_after_the_finding_changed_last(after: int, ends: int) -> None:
    late = finding("heap_exhaustion", "tm-1", 9 * MINUTE, entity={"tm_id": "tm-1"})
    assert (
        len(
            ended(
                late, log("tm_closed", MINUTE, tm="tm-1", reason="timed out"), completed(NEW, 9 * MINUTE + after - LAG)
            )
        )
        == ends
    )


@pytest.mark.parametrize(("job", "ends"), [("", 1), (NEW, 1), (OLD, 0)])
def test_a_checkpoint_of_another_job_does_not_end_what_a_process_did_to_one(job: str, ends: int) -> None:
    full = finding("heap_exhaustion", "tm-1", 0, entity={"tm_id": "tm-1", "job_id": job})
    assert len(ended(full, log("tm_closed", MINUTE, tm="tm-1", reason="timed out"), completed(NEW, 5 * MINUTE))) == ends


@pytest.mark.parametrize(
    "kind", ["direct_memory_exhaustion", "memory_limit_kill", "metaspace_exhaustion", "telemetry_lost"]
)
def test_the_reason_names_the_checkpoint_that_proves_it(kind: str) -> None:
    (one,) = ended(full_heap(kind), log("tm_closed", MINUTE, tm="tm-1", reason="timed out"), completed(NEW, 5 * MINUTE))
    assert one.closed_because == "the TaskManager is gone and checkpoint 3 completed without it"
    assert one.closed_at is not None
    assert one.at == one.closed_at >= 5 * MINUTE
    topology = Topology(jobs={NEW: Job("orders", "RUNNING", 0)})
    (one,) = ended(hung(), started(MINUTE), completed(NEW, 5 * MINUTE), topology=topology)
    assert one.closed_because == "job orders now runs under another ID and completed checkpoint 3"


def test_nothing_is_remembered_of_jobs_while_nothing_is_open_and_what_is_resolved_or_closed_stays_so() -> None:
    gone, topology = OrphanedFindings(), Topology()
    assert list(gone.update(of_old(0), fact_of(of_old(0)), 0, [], topology)) == []
    assert gone.last_seen == {}
    for resolved, closed in ((5, None), (None, 5)):
        one = hung()
        one.closed_at = closed
        incident = Incident("i", 0, [one], seq=1, resolved_at=resolved)
        gone = OrphanedFindings(started=MINUTE)
        line = completed(NEW, 9 * MINUTE)
        assert list(gone.update(line, fact_of(line), 9 * MINUTE, [incident], topology)) == []
        assert [*gone.last_seen] == [NEW]


def kept(gone: OrphanedFindings, open_one: Finding) -> tuple[int, int]:
    for n in range(300):
        incidents = [Incident("i", 0, [open_one], seq=1)]
        line = log("tm_closed", n, tm=f"tm-{n}", job=f"job-{n}", reason="timed out")
        list(gone.update(line, fact_of(line), n, incidents, Topology()))
    return len(gone.tms), len(gone.last_seen)


def test_taskmanagers_and_jobs_are_bounded() -> None:
    gone = OrphanedFindings()
    assert kept(gone, hung()) == (200, 200)
    assert "tm_299" in gone.tms
