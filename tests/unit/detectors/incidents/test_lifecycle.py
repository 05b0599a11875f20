"""The life of an incident, and which findings belong to one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Finding, Severity, Transition
from detectors.incidents.cause_graph import joined, leading
from detectors.incidents.lifecycle import IncidentConfig, accept_finding, due, go_back, tick
from detectors.incidents.transitions import Incident, IncidentContext

LIFE = IncidentConfig()
MINUTE = 60_000


def finding(kind: str = "checkpoint_overdue", subject: str = "j", at: int = 0, **more: object) -> Finding:
    severity: Severity = "warning"
    fields: dict[str, object] = {
        "since": at,
        "severity": severity,
        "entity": {"job_id": "j"},
        "summary": f"{kind} {at}",
    }
    return Finding(kind=kind, subject=subject, at=at, **{**fields, **more})  # type: ignore[arg-type]


class Told:
    """Incidents of one cluster and what was said of them."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []
        self.said: list[Transition] = []
        self.scene = IncidentContext(
            "c", "h", recurrence_window=LIFE.recurrence_window, recurrence_min_count=LIFE.recurrence_min_count
        )

    def report(self, *findings: Finding) -> "Told":
        for one in findings:
            self.said += accept_finding(self.incidents, one, self.scene)
        return self

    def tick(self, now: int, last_event: int | None = None) -> "Told":
        self.said += tick(self.incidents, now, now if last_event is None else last_event, LIFE, self.scene)
        return self

    def words(self) -> list[tuple[str, str]]:
        return [(t.transition, t.cause) for t in self.said]


def test_a_cause_found_later_takes_the_lead_of_the_same_incident() -> None:
    told = Told().report(finding(), finding("late_barrier_acks", at=MINUTE))
    assert told.words() == [("opened", "checkpoint_overdue"), ("updated", "late_barrier_acks")]
    assert len({t.incident for t in told.said}) == 1


def test_findings_of_different_jobs_are_different_incidents() -> None:
    told = Told().report(finding(), finding("late_barrier_acks", "k", entity={"job_id": "k"}))
    assert [t.transition for t in told.said] == ["opened", "opened"]


def test_findings_too_far_apart_are_different_incidents() -> None:
    assert joined(finding(), finding("taskmanager_lost", at=15 * MINUTE))
    assert not joined(finding(), finding("taskmanager_lost", at=15 * MINUTE + 1))


def test_the_cause_does_not_depend_on_the_order_of_findings() -> None:
    three = [finding(), finding("late_barrier_acks", at=5), finding("taskmanager_lost", at=9)]
    assert leading(three) is leading(three[::-1]) is three[2]


def test_resolved_is_said_only_after_the_hold_and_only_once() -> None:
    told = Told().report(finding(), finding(at=MINUTE, closed_at=MINUTE, closed_because="it completed"))
    told.tick(2 * MINUTE - 1).tick(2 * MINUTE).tick(3 * MINUTE)
    assert [(t.transition, t.at, t.reason) for t in told.said[1:]] == [("resolved", 2 * MINUTE, "it completed")]


def test_a_finding_that_comes_back_within_ten_minutes_continues_and_later_opens_anew() -> None:
    told = Told().report(finding(), finding(at=1, closed_at=1)).tick(1 + MINUTE)
    told.report(finding(at=9 * MINUTE), finding(at=9 * MINUTE, closed_at=9 * MINUTE)).tick(10 * MINUTE)
    told.tick(20 * MINUTE).report(finding(at=21 * MINUTE))
    assert [t.transition for t in told.said] == ["opened", "resolved", "updated", "resolved", "opened"]
    assert [t.seq for t in told.said] == [1, 2, 3, 4, 1]


def test_silence_makes_an_incident_stale_and_the_next_record_takes_that_back() -> None:
    told = Told().report(finding()).tick(15 * MINUTE - 1, 0).tick(15 * MINUTE, 0).tick(16 * MINUTE, 0)
    assert [t.transition for t in told.said] == ["opened", "stale"]
    told.tick(17 * MINUTE, 17 * MINUTE)
    assert [t.transition for t in told.said] == ["opened", "stale", "updated"]


def test_the_same_finding_again_is_said_once_a_minute_at_most() -> None:
    told = Told().report(*(finding(at=at) for at in range(0, MINUTE, 5_000)))
    assert [t.transition for t in told.said] == ["opened"]
    told.tick(MINUTE - 1).tick(MINUTE).tick(MINUTE + 1)
    assert [(t.transition, t.at) for t in told.said] == [("opened", 0), ("updated", MINUTE)]


def test_a_hundred_taskmanagers_lost_at_once_are_one_incident_told_in_two_transitions() -> None:
    told = Told().report(*(finding("taskmanager_lost", f"tm-{n}", n, entity={"tm_id": f"tm-{n}"}) for n in range(100)))
    told.tick(2 * MINUTE)
    assert [t.transition for t in told.said] == ["opened", "updated"]
    assert len(told.incidents) == 1


def test_a_worse_severity_is_said_at_once() -> None:
    told = Told().report(finding(), finding(at=1, severity="critical"))
    assert [t.severity for t in told.said] == ["warning", "critical"]


def test_incidents_are_bounded_and_what_is_resolved_goes_first() -> None:
    told = Told().report(finding(subject="old"), finding(subject="old", at=1, closed_at=1)).tick(MINUTE + 1)
    told.report(*(finding(subject=f"j{n}", at=n + MINUTE) for n in range(150)))
    assert len(told.incidents) == 100
    assert "old" not in {f.subject for i in told.incidents for f in i.findings}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["checkpoint_overdue", "late_barrier_acks", "taskmanager_lost"]),
            st.sampled_from(["j", "k"]),
            st.integers(0, 8 * MINUTE),
            st.booleans(),
            st.booleans(),
        ),
        max_size=30,
    )
)
def test_after_a_tick_nothing_is_due_at_that_time_and_numbers_have_no_gap(
    steps: list[tuple[str, str, int, bool, bool]],
) -> None:
    """A deadline that stays would make the engine spin."""
    told, now, last_event = Told(), 0, 0
    for kind, subject, gap, closed, heard in steps:
        now += gap
        if heard:
            last_event = now
        closing = {"closed_at": now} if closed else {}
        told.report(finding(kind, subject, now, entity={"job_id": subject}, **closing))
        told.tick(now, last_event)
        next_due = due(told.incidents, last_event, LIFE)
        assert next_due is None or next_due > now
    for incident in {t.incident for t in told.said}:
        own = [t for t in told.said if t.incident == incident]
        assert [t.seq for t in own] == list(range(1, len(own) + 1))


@pytest.mark.parametrize("change", [{"since": 7}, {"subject": "k"}, {"kind": "late_barrier_acks"}])
def test_the_same_finding_gives_the_same_id_and_another_gives_another(change: dict[str, object]) -> None:
    (one,), (same,) = Told().report(finding()).said, Told().report(finding()).said
    base: dict[str, object] = {"kind": "checkpoint_overdue", "subject": "j"}
    (other,) = Told().report(finding(**{**base, **change})).said  # type: ignore[arg-type]
    assert one.incident == same.incident != other.incident


def test_an_incident_is_never_dated_before_what_was_said_of_it() -> None:
    """A partition that is read ahead dates a finding up to a minute ahead of the clock; the next one is behind it."""
    told = Told().report(finding(at=0), finding("late_barrier_acks", at=50_000), finding("backpressure", at=10_000))
    assert [t.at for t in told.said] == [0, 50_000, 50_000]


def test_an_end_is_not_before_the_last_update() -> None:
    first, ahead = finding(at=0), finding("late_barrier_acks", at=50_000)
    told = Told().report(first, ahead)
    told.report(finding("late_barrier_acks", at=20_000, closed_at=20_000, closed_because="done"))
    told.report(finding(at=30_000, closed_at=30_000, closed_because="done")).tick(200_000)
    assert told.said[-1].transition == "resolved"
    assert told.said[-1].ended_at == 50_000
    assert [t.at for t in told.said] == sorted(t.at for t in told.said)


@pytest.mark.parametrize("ended", [False, True])
def test_after_the_clock_has_gone_back_an_incident_ends_as_soon_as_ever(ended: bool) -> None:
    """It was opened, and perhaps closed and resolved, while a wrong clock stood an hour ahead."""
    hour = 60 * MINUTE
    told = Told().report(finding(at=hour), finding(at=hour + 1, closed_at=hour + 1, closed_because="it completed"))
    if ended:
        told.tick(hour + 2 * MINUTE)
    go_back(told.incidents, MINUTE)
    (incident,) = told.incidents
    times = [incident.opened_at, incident.said_at, incident.closed_at, incident.resolved_at]
    assert times == [MINUTE, MINUTE, MINUTE, MINUTE if ended else None]
    assert [(f.at, f.closed_at) for f in incident.findings] == [(MINUTE, MINUTE)]
    assert due(told.incidents, MINUTE, LIFE) == MINUTE + (LIFE.reopen_within if ended else LIFE.resolve_after)
    before = Told().report(finding())
    go_back(before.incidents, MINUTE)
    (incident,) = before.incidents
    assert (incident.opened_at, incident.said_at, incident.closed_at, incident.resolved_at) == (0, 0, None, None)
    assert [(f.at, f.closed_at) for f in incident.findings] == [(0, None)]
