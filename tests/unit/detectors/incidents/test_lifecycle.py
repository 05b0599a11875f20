"""The life of an incident, and which findings belong to one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Finding, Severity, Transition
from detectors.incidents.cause_graph import joined, leading
from detectors.incidents.lifecycle import accept_finding, go_back, next_deadline, tick
from detectors.incidents.settings import IncidentConfig
from detectors.incidents.transitions import Incident, IncidentContext

CONFIG = IncidentConfig()
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


class Timeline:
    """Incidents of one cluster and what was reported of them."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []
        self.transitions: list[Transition] = []
        self.context = IncidentContext(
            "c", "h", recurrence_window=CONFIG.recurrence_window, recurrence_min_count=CONFIG.recurrence_min_count
        )

    def report(self, *findings: Finding) -> "Timeline":
        for one in findings:
            self.transitions += accept_finding(self.incidents, one, self.context)
        return self

    def tick(self, now: int, last_event: int | None = None) -> "Timeline":
        self.transitions += tick(self.incidents, now, now if last_event is None else last_event, CONFIG, self.context)
        return self

    def words(self) -> list[tuple[str, str]]:
        return [(t.transition, t.cause) for t in self.transitions]


def test_a_cause_found_later_takes_the_lead_of_the_same_incident() -> None:
    timeline = Timeline().report(finding(), finding("late_barrier_acks", at=MINUTE))
    assert timeline.words() == [("opened", "checkpoint_overdue"), ("updated", "late_barrier_acks")]
    assert len({t.incident for t in timeline.transitions}) == 1


def test_findings_of_different_jobs_are_different_incidents() -> None:
    timeline = Timeline().report(finding(), finding("late_barrier_acks", "k", entity={"job_id": "k"}))
    assert [t.transition for t in timeline.transitions] == ["opened", "opened"]


def test_findings_too_far_apart_are_different_incidents() -> None:
    assert joined(finding(), finding("taskmanager_lost", at=15 * MINUTE))
    assert not joined(finding(), finding("taskmanager_lost", at=15 * MINUTE + 1))


def test_the_cause_does_not_depend_on_the_order_of_findings() -> None:
    three = [finding(), finding("late_barrier_acks", at=5), finding("taskmanager_lost", at=9)]
    assert leading(three) is leading(three[::-1]) is three[2]


def test_resolved_is_reported_only_after_the_hold_and_only_once() -> None:
    timeline = Timeline().report(finding(), finding(at=MINUTE, closed_at=MINUTE, closed_because="it completed"))
    timeline.tick(2 * MINUTE - 1).tick(2 * MINUTE).tick(3 * MINUTE)
    assert [(t.transition, t.at, t.reason) for t in timeline.transitions[1:]] == [
        ("resolved", 2 * MINUTE, "it completed")
    ]


def test_a_finding_that_comes_back_within_ten_minutes_continues_and_later_opens_again() -> None:
    timeline = Timeline().report(finding(), finding(at=1, closed_at=1)).tick(1 + MINUTE)
    timeline.report(finding(at=9 * MINUTE), finding(at=9 * MINUTE, closed_at=9 * MINUTE)).tick(10 * MINUTE)
    timeline.tick(20 * MINUTE).report(finding(at=21 * MINUTE))
    assert [t.transition for t in timeline.transitions] == ["opened", "resolved", "updated", "resolved", "opened"]
    assert [t.seq for t in timeline.transitions] == [1, 2, 3, 4, 1]


def test_silence_makes_an_incident_stale_and_the_next_record_takes_that_back() -> None:
    timeline = Timeline().report(finding()).tick(15 * MINUTE - 1, 0).tick(15 * MINUTE, 0).tick(16 * MINUTE, 0)
    assert [t.transition for t in timeline.transitions] == ["opened", "stale"]
    timeline.tick(17 * MINUTE, 17 * MINUTE)
    assert [t.transition for t in timeline.transitions] == ["opened", "stale", "updated"]


def test_the_same_finding_again_is_reported_once_a_minute_at_most() -> None:
    timeline = Timeline().report(*(finding(at=at) for at in range(0, MINUTE, 5_000)))
    assert [t.transition for t in timeline.transitions] == ["opened"]
    timeline.tick(MINUTE - 1).tick(MINUTE).tick(MINUTE + 1)
    assert [(t.transition, t.at) for t in timeline.transitions] == [("opened", 0), ("updated", MINUTE)]


def test_a_hundred_taskmanagers_lost_at_once_are_one_incident_reported_in_two_transitions() -> None:
    timeline = Timeline().report(
        *(finding("taskmanager_lost", f"tm-{n}", n, entity={"tm_id": f"tm-{n}"}) for n in range(100))
    )
    timeline.tick(2 * MINUTE)
    assert [t.transition for t in timeline.transitions] == ["opened", "updated"]
    assert len(timeline.incidents) == 1


def test_a_worse_severity_is_reported_at_once() -> None:
    timeline = Timeline().report(finding(), finding(at=1, severity="critical"))
    assert [t.severity for t in timeline.transitions] == ["warning", "critical"]


def test_incidents_are_bounded_and_what_is_resolved_goes_first() -> None:
    timeline = Timeline().report(finding(subject="old"), finding(subject="old", at=1, closed_at=1)).tick(MINUTE + 1)
    timeline.report(*(finding(subject=f"j{n}", at=n + MINUTE) for n in range(150)))
    assert len(timeline.incidents) == 100
    assert "old" not in {f.subject for i in timeline.incidents for f in i.findings}


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
    timeline, now, last_event = Timeline(), 0, 0
    for kind, subject, gap, closed, has_data in steps:
        now += gap
        if has_data:
            last_event = now
        closing = {"closed_at": now} if closed else {}
        timeline.report(finding(kind, subject, now, entity={"job_id": subject}, **closing))
        timeline.tick(now, last_event)
        deadline = next_deadline(timeline.incidents, last_event, CONFIG)
        assert deadline is None or deadline > now
    for incident in {t.incident for t in timeline.transitions}:
        own = [t for t in timeline.transitions if t.incident == incident]
        assert [t.seq for t in own] == list(range(1, len(own) + 1))


@pytest.mark.parametrize("change", [{"since": 7}, {"subject": "k"}, {"kind": "late_barrier_acks"}])
def test_the_same_finding_gives_the_same_id_and_another_gives_another(change: dict[str, object]) -> None:
    (one,), (same,) = Timeline().report(finding()).transitions, Timeline().report(finding()).transitions
    base: dict[str, object] = {"kind": "checkpoint_overdue", "subject": "j"}
    (other,) = Timeline().report(finding(**{**base, **change})).transitions  # type: ignore[arg-type]
    assert one.incident == same.incident != other.incident


def test_an_incident_is_never_dated_before_what_was_reported_of_it() -> None:
    """A partition that is read ahead dates a finding up to a minute ahead of the clock; the next one is behind it."""
    timeline = Timeline().report(
        finding(at=0), finding("late_barrier_acks", at=50_000), finding("backpressure", at=10_000)
    )
    assert [t.at for t in timeline.transitions] == [0, 50_000, 50_000]


def test_an_end_is_not_before_the_last_update() -> None:
    first, ahead = finding(at=0), finding("late_barrier_acks", at=50_000)
    timeline = Timeline().report(first, ahead)
    timeline.report(finding("late_barrier_acks", at=20_000, closed_at=20_000, closed_because="done"))
    timeline.report(finding(at=30_000, closed_at=30_000, closed_because="done")).tick(200_000)
    assert timeline.transitions[-1].transition == "resolved"
    assert timeline.transitions[-1].ended_at == 50_000
    assert [t.at for t in timeline.transitions] == sorted(t.at for t in timeline.transitions)


@pytest.mark.parametrize("ended", [False, True])
def test_after_the_clock_has_gone_back_an_incident_ends_as_soon_as_ever(ended: bool) -> None:
    """It was opened, and perhaps closed and resolved, while a wrong clock stood an hour ahead."""
    hour = 60 * MINUTE
    timeline = Timeline().report(
        finding(at=hour), finding(at=hour + 1, closed_at=hour + 1, closed_because="it completed")
    )
    if ended:
        timeline.tick(hour + 2 * MINUTE)
    go_back(timeline.incidents, MINUTE)
    (incident,) = timeline.incidents
    times = [incident.opened_at, incident.reported_at, incident.closed_at, incident.resolved_at]
    assert times == [MINUTE, MINUTE, MINUTE, MINUTE if ended else None]
    assert [(f.at, f.closed_at) for f in incident.findings] == [(MINUTE, MINUTE)]
    assert next_deadline(timeline.incidents, MINUTE, CONFIG) == MINUTE + (
        CONFIG.reopen_within if ended else CONFIG.resolve_after
    )
    before = Timeline().report(finding())
    go_back(before.incidents, MINUTE)
    (incident,) = before.incidents
    assert (incident.opened_at, incident.reported_at, incident.closed_at, incident.resolved_at) == (0, 0, None, None)
    assert [(f.at, f.closed_at) for f in incident.findings] == [(0, None)]
