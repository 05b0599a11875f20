"""Which finding leads an incident over several transitions, and what follows from it."""

import msgspec

from detectors.incidents.silences import Silence, at
from detectors.incidents.transitions import Incident, IncidentContext, make_transition
from tests.unit.detectors.incidents.test_lifecycle import finding


def test_a_silence_of_a_job_is_that_of_the_job_of_the_cause() -> None:
    overdue = finding("checkpoint_overdue", "x", entity={"job_id": "x", "job_name": "payments"})
    late_acks = finding("late_barrier_acks", "y", severity="critical", entity={"job_id": "y", "job_name": "orders"})
    lost = finding("taskmanager_lost", "t", 5, entity={"tm_id": "t"})
    for job, silenced in (("orders", True), ("payments", False)):
        silence = Silence(id="s", until=at(10**6), author="a", comment="b", job=job)
        context = IncidentContext("c", silences=(silence,))
        incident = Incident("i", 0, [overdue, late_acks])
        made = make_transition(incident, "opened", 9, "", context)
        assert made.cause == "late_barrier_acks"
        assert (made.silence is not None) is silenced
        assert incident.next_silence_change == (10**6 if silenced else 0)
    # A cause that names no job: then that of the first finding that does.
    silence = Silence(id="s", until=at(10**6), author="a", comment="b", job="payments")
    incident = Incident("i", 0, [lost, overdue])
    made = make_transition(incident, "opened", 9, "", IncidentContext("c", silences=(silence,)))
    assert (made.cause, made.silence is not None) == ("taskmanager_lost", True)


def test_a_cause_that_was_left_does_not_lead_again_though_it_began_before_the_present_one() -> None:
    left, present = finding("checkpoint_failing", "a", 0), finding("unread_records_lost", "b", 5)
    incident, causes = Incident("i", 0, [left]), []
    for at_, findings in enumerate(([left], [present], [left, present], [present, left])):
        incident.findings = findings
        causes.append(make_transition(incident, "updated", at_, "", IncidentContext("c")).cause)
    assert causes == ["checkpoint_failing", *["unread_records_lost"] * 3]


def test_a_finding_that_is_new_leads_before_one_that_was_left() -> None:
    """Though it explains as much and began later than the one that leads now."""
    left, present = finding("checkpoint_failing", "a", 0), finding("unread_records_lost", "b", 5)
    worse = finding("clock_skew", "c", 9, severity="critical")
    incident = Incident("i", 0, [left])
    make_transition(incident, "opened", 0, "", IncidentContext("c"))
    for at_, findings in enumerate(([present], [left, present, worse])):
        incident.findings = findings
        last = make_transition(incident, "updated", at_ + 1, "", IncidentContext("c"))
    assert last.cause == "clock_skew"
    assert incident.earlier_causes == [("checkpoint_failing", "a"), ("unread_records_lost", "b")]


def test_an_incident_whose_silence_never_changes_is_read_back_as_it_was_kept() -> None:
    silence = Silence(id="s", until=at(5), author="a", comment="b")
    incident = Incident("i", 0, [finding("checkpoint_overdue")])
    make_transition(incident, "opened", 9, "", IncidentContext("c", silences=(silence,)))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(incident), type=Incident) == incident
