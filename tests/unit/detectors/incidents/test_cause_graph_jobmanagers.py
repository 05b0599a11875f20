"""What the heap of a JobManager explains, and a TaskManager's does not."""

import pytest

from detectors.incident import Finding
from detectors.incidents.cause_graph import JOBMANAGER_LINKS, KINDS, Link, explains, leading
from tests.unit.detectors.incidents.test_cause_graph import LATE, a

each_link = pytest.mark.parametrize("link", JOBMANAGER_LINKS, ids=lambda link: f"{link.cause}-{link.effect}")


def heap(subject: str = "jm|jm-1", since: int = LATE, tm: str = "") -> Finding:
    return a("heap_exhaustion", since, subject=subject, severity="critical", entity={"tm_id": tm, "host": "jm-1"})


@each_link
def test_a_jobmanagers_heap_explains_what_happens_to_any_taskmanager_or_job(link: Link) -> None:
    for entity in ({"tm_id": "tm-2", "host": "h2"}, {"job_id": "a"}, {}):
        assert explains(heap(), a(link.effect, LATE - link.within, entity=entity))
        assert not explains(heap(), a(link.effect, LATE - link.within - 1, entity=entity))
    assert link.effect in KINDS


def test_a_taskmanagers_heap_explains_its_own_loss_alone() -> None:
    own = heap("tm-1", tm="tm-1")
    assert explains(own, a("taskmanager_lost", LATE, entity={"tm_id": "tm-1"}))
    assert not explains(own, a("taskmanager_lost", LATE, entity={"tm_id": "tm-2"}))
    assert not explains(own, a("jobmanager_lost", LATE))


def test_nothing_explains_a_jobmanagers_heap() -> None:
    for kind in sorted(KINDS):
        assert not explains(a(kind, LATE, severity="critical"), heap())


def test_it_leads_all_that_it_explains() -> None:
    lost = [a("taskmanager_lost", LATE - 9_000, subject=f"tm-{n}", entity={"tm_id": f"tm-{n}"}) for n in range(3)]
    cause = heap()
    assert leading([*lost, a("jobmanager_lost", LATE + 1), cause]) is cause
