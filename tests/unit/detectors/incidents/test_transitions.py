"""What a transition shows of its incident: evidence, series, forecast, the job and the causes before."""

from typing import Any

import pytest

from detectors.incident import Evidence, Finding, Forecast, Series
from detectors.incidents.transitions import Incident, IncidentContext, job_of, make_transition, severity_now
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, Timeline, finding

CAUSE, SYMPTOM, OTHER = "late_barrier_acks", "checkpoint_overdue", "checkpoint_failing"


def proof(*offsets: int) -> list[Evidence]:
    return [Evidence("flink.logs", 0, offset, offset, f"line {offset}") for offset in offsets]


def timeline(*findings: Finding) -> Any:
    return make_transition(Incident("i", 0, list(findings)), "opened", 9, "", IncidentContext("c"))


def test_evidence_is_three_records_of_the_cause_one_of_each_symptom_then_what_is_left() -> None:
    one = finding(CAUSE, evidence=proof(1, 2, 3, 4, 5))
    two, three = finding(SYMPTOM, evidence=proof(11, 12)), finding(OTHER, evidence=proof(21, 22))
    assert [e.offset for e in timeline(two, one, three).evidence] == [1, 2, 3, 11, 21]
    assert [e.offset for e in timeline(two, one).evidence] == [1, 2, 3, 11, 4]
    short = finding(CAUSE, evidence=proof(1))
    assert [e.offset for e in timeline(two, short).evidence] == [1, 11, 12]


def test_a_record_is_shown_once_though_it_proves_two_findings() -> None:
    assert [
        e.offset for e in timeline(finding(SYMPTOM, evidence=proof(1, 2)), finding(CAUSE, evidence=proof(1))).evidence
    ] == [1, 2]
    places = [Evidence("a", 0, 1, 0, ""), Evidence("b", 0, 1, 0, ""), Evidence("a", 1, 1, 0, "")]
    assert timeline(finding(CAUSE, evidence=places)).evidence == places


def numbers(name: str, *points: tuple[int, float]) -> Series:
    return Series(name, "s", list(points))


def test_the_series_is_the_causes_else_that_of_the_first_finding_that_has_points() -> None:
    own, others = numbers("own", (1, 1.0)), numbers("others", (2, 2.0))
    assert timeline(finding(SYMPTOM, series=others), finding(CAUSE, series=own)).series == own
    assert timeline(finding(SYMPTOM, series=others), finding(CAUSE)).series == others
    assert timeline(finding(SYMPTOM, series=others), finding(CAUSE, series=numbers("empty"))).series == others
    assert timeline(finding(SYMPTOM), finding(CAUSE)).series is None


def test_the_forecast_is_that_of_a_finding_that_is_open() -> None:
    soon, late = Forecast("soon", 1, 1, 1), Forecast("late", 2, 2, 2)
    assert timeline(finding(SYMPTOM, forecast=late), finding(CAUSE, forecast=soon)).forecast == soon
    assert timeline(finding(SYMPTOM, forecast=late), finding(CAUSE, forecast=soon, closed_at=5)).forecast == late
    assert timeline(finding(SYMPTOM, closed_at=1, forecast=late), finding(CAUSE)).forecast is None


def test_the_job_is_the_causes_else_that_of_the_first_finding_that_names_one() -> None:
    no_job = finding("taskmanager_lost", entity={"tm_id": "t"})
    assert job_of([no_job]) == {}
    assert job_of([no_job, finding(entity={"job_id": "j", "job_name": "orders"})])["job_name"] == "orders"
    transition = timeline(
        finding(SYMPTOM, entity={"job_id": "x"}), finding(CAUSE, "y", entity={"job_id": "y", "job_name": "n"})
    )
    assert (transition.job_id, transition.job_name) in (("x", ""), ("y", "n"))
    assert transition.job_id == next(f for f in transition.findings if f.kind == transition.cause).entity["job_id"]


def test_severity_is_the_worst_of_what_is_open_and_stays_when_nothing_of_weight_is() -> None:
    incident = Incident("i", 0, [finding(severity="warning"), finding(OTHER, severity="critical", closed_at=3)])
    assert severity_now(incident) == "warning"
    incident = Incident("i", 0, [finding(severity="critical", closed_at=3), finding(OTHER, severity="info")])
    incident.severity = "critical"
    assert severity_now(incident) == "critical"


def test_numbers_of_transitions_go_up_by_one_and_what_waited_is_reported() -> None:
    incident = Incident("i", 3, [finding()], changed="x", repeats=4)
    transitions = [make_transition(incident, "updated", at, "why", IncidentContext("c")) for at in (5, 6)]
    assert [(t.seq, t.at, t.opened_at, t.reason, t.ended_at) for t in transitions] == [
        (1, 5, 3, "why", None),
        (2, 6, 3, "why", None),
    ]
    assert (incident.changed, incident.repeats, incident.reported_at) == ("", 0, 6)


def test_only_a_resolved_incident_has_an_end() -> None:
    incident = Incident("i", 0, [finding(closed_at=4)], closed_at=4)
    assert make_transition(incident, "stale", 5, "", IncidentContext("c")).ended_at is None
    assert make_transition(incident, "resolved", 5, "", IncidentContext("c")).ended_at == 4


def test_causes_before_the_present_one_are_remembered_the_last_twenty_of_them() -> None:
    incident = Incident("i", 0, [finding("unread_records_lost", "s0")])
    for n in range(1, 30):
        make_transition(incident, "updated", n, "", IncidentContext("c"))
        incident.findings = [finding("unread_records_lost", f"s{n}", n)]
    make_transition(incident, "updated", 30, "", IncidentContext("c"))
    assert incident.cause == ("unread_records_lost", "s29")
    assert incident.earlier_causes == [("unread_records_lost", f"s{n}") for n in range(9, 29)]


def test_a_first_cause_follows_none() -> None:
    incident = Incident("i", 0, [finding()])
    make_transition(incident, "opened", 1, "", IncidentContext("c"))
    make_transition(incident, "updated", 2, "", IncidentContext("c"))
    assert incident.earlier_causes == []


@pytest.mark.parametrize(("stale", "last_event", "has_data"), [(True, 6, True), (True, 5, False), (False, 6, False)])
def test_a_stale_incident_is_known_again_by_what_comes_after_that_was_reported(
    stale: bool, last_event: int, has_data: bool
) -> None:
    assert Incident("i", 0, [], reported_at=5, stale=stale).has_new_data(last_event) is has_data


def test_the_period_is_the_median_gap_and_constant_within_a_fifth_of_it() -> None:
    for gaps, period, steady in (([100, 120], 110, True), ([100, 150], 125, True), ([100, 151], 126, False)):
        timeline, at = Timeline(), 0
        for n, gap in enumerate([0, *gaps]):
            at += gap * MINUTE
            timeline.report(finding(at=at), finding(at=at + 1, closed_at=at + 1)).tick(at + 2 * MINUTE).tick(
                at + 12 * MINUTE
            )
            assert n == 2 or timeline.transitions[-1].recurrence is None
        found = timeline.transitions[-1].recurrence
        assert found is not None
        assert (found.count, found.first, round(found.period / MINUTE), found.steady) == (3, 0, period, steady)


def test_a_third_coming_is_counted_by_kind_and_job() -> None:
    for other in ({"kind": "restart_loop"}, {"subject": "k", "entity": {"job_id": "k"}}):
        timeline = Timeline()
        for n in range(3):
            at = n * 60 * MINUTE
            more: dict[str, Any] = other if n == 1 else {}
            timeline.report(finding(at=at, **more), finding(at=at + 1, closed_at=at + 1, **more)).tick(at + 2 * MINUTE)
            timeline.tick(at + 20 * MINUTE)
        assert [t.recurrence for t in timeline.transitions] == [None] * len(timeline.transitions)
