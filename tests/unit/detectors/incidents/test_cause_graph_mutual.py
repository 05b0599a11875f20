"""Findings that explain each other, such as TaskManagers that are lost together, have the same rank."""

from itertools import permutations

from detectors.incidents.cause_graph import leading
from tests.unit.detectors.incidents.test_cause_graph import a


def test_of_findings_that_explain_each_other_the_earliest_leads_whatever_they_explain_besides() -> None:
    lost = [a("taskmanager_lost", since, subject=f"tm-{since}", entity={"tm_id": f"tm-{since}"}) for since in (1, 2, 3)]
    loop = a("restart_loop", 0, subject="j", entity={"job_id": "j"})
    for order in permutations(lost):
        assert leading(list(order)) is lost[0]
    for order in permutations([*lost, loop]):
        assert leading(list(order)) is lost[0]
