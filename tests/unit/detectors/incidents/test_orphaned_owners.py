"""To what a finding belongs: only the end of that ends the finding, and a job is named as well as it is known."""

import pytest

from detectors.flink.topology import Job, Topology
from detectors.incident import Finding
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, finding
from tests.unit.detectors.incidents.test_orphaned import NEW, OLD, completed, ended, hung, started
from tests.unit.detectors.streams import log


def of_both(kind: str) -> Finding:
    """A finding that names the old job and a TaskManager."""
    return finding(kind, "tm-1", 0, entity={"tm_id": "tm-1", "job_id": OLD})


@pytest.mark.parametrize("kind", ["heap_exhaustion", "metaspace_exhaustion", "node_lost"])
def test_the_end_of_a_job_id_ends_nothing_that_belongs_to_a_process_or_outlives_both(kind: str) -> None:
    assert ended(of_both(kind), started(MINUTE), completed(NEW, 9 * MINUTE)) == []


def test_the_end_of_a_process_ends_nothing_that_belongs_to_a_job() -> None:
    here = finding("checkpoint_overdue", NEW, 0, entity={"tm_id": "tm-1", "job_id": NEW})
    assert ended(here, log("tm_closed", MINUTE, tm="tm-1", reason="timed out"), completed(NEW, 9 * MINUTE)) == []


@pytest.mark.parametrize("what", ["StandaloneSessionClusterEntrypoint", "YARN ApplicationMaster / JobManager"])
def test_every_name_of_a_jobmanager_counts_as_its_start(what: str) -> None:
    (one,) = ended(hung(), started(MINUTE, what), completed(NEW, 3 * MINUTE))
    assert one.closed_because == f"job {NEW} now runs under another ID and completed checkpoint 3"


def test_a_job_that_nothing_is_known_of_does_not_take_the_place_of_a_named_one() -> None:
    topology = Topology(jobs={OLD: Job("orders", "RUNNING", 0)})
    assert ended(hung(), completed(NEW, 30 * MINUTE), topology=topology) == []
