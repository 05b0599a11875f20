"""What is reported in an incident's life: when, with which reason, and what a bound lets go of first."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Finding
from detectors.incidents.lifecycle import close_findings, next_deadline
from detectors.incidents.settings import IncidentConfig
from tests.unit.detectors.incidents.test_lifecycle import CONFIG, MINUTE, Timeline, finding

FAILING, OVERDUE, LATE_ACKS = "checkpoint_failing", "checkpoint_overdue", "late_barrier_acks"

LOST, OTHER = (finding("taskmanager_lost", subject, at, entity={}) for at, subject in enumerate("ab"))


def closed(at: int, kind: str = OVERDUE, subject: str = "j", **more: Any) -> Finding:
    return finding(kind, subject, at, closed_at=at, closed_because=f"{subject} is well", **more)


def reasons(timeline: Timeline) -> list[tuple[str, int, str]]:
    return [(t.transition, t.at, t.reason) for t in timeline.transitions]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([OVERDUE, LATE_ACKS, FAILING, "taskmanager_lost"]),
            st.sampled_from(["j", "k"]),
            st.integers(0, 8 * MINUTE),
            st.sampled_from(["open", "open", "closed", "info", "critical"]),
            st.booleans(),
        ),
        max_size=25,
    )
)
def test_the_deadline_is_the_first_time_at_which_the_clock_alone_changes_anything(
    steps: list[tuple[str, str, int, str, bool]],
) -> None:
    timeline, now, last_event = Timeline(), 0, 0
    for kind, subject, gap, how, has_data in steps:
        now += gap
        last_event = now if has_data else last_event
        more: dict[str, Any] = {"closed_at": now} if how == "closed" else {}
        more |= {"severity": how} if how in ("info", "critical") else {}
        timeline.report(finding(kind, subject, now, entity={"job_id": subject}, **more)).tick(now, last_event)
        deadline = next_deadline(timeline.incidents, last_event, CONFIG)
        before, count = deepcopy(timeline.incidents), len(timeline.transitions)
        if deadline is None:
            deadline = now + 10**12
            timeline.tick(deadline, last_event)
            assert (timeline.incidents, len(timeline.transitions)) == (before, count)
            continue
        timeline.tick(deadline - 1, last_event)
        assert (timeline.incidents, len(timeline.transitions)) == (before, count)
        timeline.tick(deadline, last_event)
        assert timeline.incidents != before
        assert all(t.at == deadline for t in timeline.transitions[count:])
        now = deadline


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (finding(FAILING, at=5), "new finding: checkpoint_failing"),
        (finding(LATE_ACKS, at=5), "the cause is now known to be late_barrier_acks"),
        (finding(at=5, severity="critical"), "severity is now critical"),
        (finding("taskmanager_lost", at=5), "the cause is now known to be taskmanager_lost"),
    ],
)
def test_what_is_news_is_reported_at_once_with_its_reason(then: Finding, reason: str) -> None:
    timeline = Timeline().report(finding(), then)
    assert reasons(timeline)[1:] == [("updated", 5, reason)]
    assert {t.opened_at for t in timeline.transitions} == {0}


@pytest.mark.parametrize(
    ("before", "then", "reason"),
    [
        ([finding()], finding(at=5), "new numbers of checkpoint_overdue"),
        ([LOST, OTHER], closed(5, LOST.kind, "a"), "taskmanager_lost resolved for one of several"),
        (
            [finding(), finding(FAILING, at=1, severity="info")],
            closed(5, FAILING, severity="info"),
            "checkpoint_failing resolved",
        ),
        (
            [finding(), finding(FAILING, at=1)],
            finding(FAILING, at=5, severity="info"),
            "checkpoint_failing dropped to severity info",
        ),
    ],
)
def test_numbers_alone_wait_for_a_minute_after_what_was_reported_last(
    before: list[Finding], then: Finding, reason: str
) -> None:
    timeline = Timeline().report(*before)
    first = timeline.transitions[-1].at
    already = len(timeline.transitions)
    timeline.report(then).tick(first + MINUTE - 1).tick(first + MINUTE)
    assert reasons(timeline)[already:] == [("updated", first + MINUTE, reason)]


def test_the_end_of_one_kind_of_finding_is_reported_with_its_proof() -> None:
    timeline = Timeline().report(finding(), finding(FAILING, at=1), closed(5, FAILING))
    assert reasons(timeline)[-1] == ("updated", 5, "checkpoint_failing resolved: j is well")


def test_the_end_of_the_worst_of_several_is_reported_since_the_severity_falls() -> None:
    timeline = Timeline().report(
        finding(LOST.kind, "a", severity="critical", entity={}), OTHER, closed(5, LOST.kind, "a")
    )
    assert reasons(timeline)[-1] == ("updated", 5, "taskmanager_lost resolved: a is well")
    assert timeline.transitions[-1].severity == "warning"


def test_updates_with_new_numbers_alone_come_after_1_2_4_8_and_16_minutes_then_every_half_hour() -> None:
    timeline = Timeline().report(finding())
    for at in range(0, 150 * MINUTE, MINUTE // 2):
        timeline.report(finding(at=at)).tick(at)
    times = [t.at // MINUTE for t in timeline.transitions]
    assert [b - a for a, b in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_after_news_new_numbers_are_reported_after_a_minute_again() -> None:
    timeline = Timeline().report(finding())
    for at in range(0, 10 * MINUTE, MINUTE // 2):
        timeline.report(finding(at=at)).tick(at)
    timeline.report(finding(at=10 * MINUTE, severity="critical"))
    for at in range(10 * MINUTE, 14 * MINUTE, MINUTE // 2):
        timeline.report(finding(at=at, severity="critical")).tick(at)
    assert [t.at // MINUTE for t in timeline.transitions][-3:] == [10, 11, 13]


def test_a_longest_time_below_the_smallest_gives_way_to_it() -> None:
    life = IncidentConfig.model_validate({"update_every": "10m", "max_update_interval": "1m"})
    timeline = Timeline().report(finding(), finding(at=1))
    assert next_deadline(timeline.incidents, 0, life) == 10 * MINUTE


def test_a_finding_after_silence_is_back_and_one_after_the_end_as_well() -> None:
    timeline = Timeline().report(finding()).tick(15 * MINUTE, 0).report(finding(at=16 * MINUTE))
    assert reasons(timeline)[-1] == ("updated", 16 * MINUTE, "checkpoint_overdue recurred")
    timeline = Timeline().report(finding(), closed(5)).report(finding(at=6))
    assert reasons(timeline)[-1] == ("updated", 6, "checkpoint_overdue recurred")
    assert timeline.incidents[0].closed_at is None


def test_silence_is_reported_with_how_long_it_has_lasted_and_its_end_too() -> None:
    timeline = Timeline().report(finding()).tick(15 * MINUTE, 0).tick(16 * MINUTE, 15 * MINUTE + 1)
    assert reasons(timeline)[1:] == [
        ("stale", 15 * MINUTE, "no data from this cluster for 15 min"),
        ("updated", 16 * MINUTE, "data from this cluster arrives again"),
    ]
    assert timeline.incidents[0].stale is False


def test_the_proof_of_the_end_is_that_of_the_finding_that_ended_last() -> None:
    timeline = Timeline().report(finding(), finding(FAILING, at=1), closed(5, FAILING), closed(9)).tick(9 + MINUTE)
    assert reasons(timeline)[-1] == ("resolved", 9 + MINUTE, "j is well")
    assert timeline.transitions[-1].ended_at == 9
    assert [t.ended_at for t in timeline.transitions[:-1]] == [None] * (len(timeline.transitions) - 1)


def test_a_finding_is_as_it_was_reported_last_and_began_when_it_was_first_seen() -> None:
    timeline = Timeline().report(finding(at=50, since=40), finding(at=60, since=45, summary="newest"))
    timeline.report(finding(at=55, since=30, summary="late"))
    (kept,) = timeline.incidents[0].findings
    assert (kept.summary, kept.since, kept.at) == ("newest", 30, 60)
    timeline.report(finding(at=60, summary="at the same time"))
    assert timeline.incidents[0].findings[0].summary == "at the same time"


def test_what_has_ended_before_it_was_known_is_not_reported() -> None:
    assert Timeline().report(closed(5)).transitions == []
    timeline = Timeline().report(finding(), closed(1)).tick(1 + MINUTE)
    count = len(timeline.transitions)
    timeline.report(closed(2 + MINUTE)).tick(3 * MINUTE)
    assert len(timeline.transitions) == count


def test_an_observation_that_ends_leaves_nothing_and_one_of_two_leaves_the_other() -> None:
    timeline = Timeline().report(finding("clock_skew", severity="info"))
    assert [i.seq for i in timeline.incidents] == [0]
    timeline.report(closed(5, "clock_skew", severity="info"))
    assert (timeline.incidents, timeline.transitions) == ([], [])


def test_an_observation_joins_the_incident_it_supports() -> None:
    timeline = Timeline().report(finding(), finding(LATE_ACKS, at=1, severity="info"))
    assert [[f.kind for f in i.findings] for i in timeline.incidents] == [[OVERDUE, LATE_ACKS]]


def test_an_observation_joins_no_resolved_incident_and_no_other_observation() -> None:
    timeline = Timeline().report(finding(), closed(5)).tick(5 + MINUTE)
    timeline.report(finding(LATE_ACKS, at=2 * MINUTE, since=3, severity="info"))
    timeline.report(finding("backpressure", at=3 * MINUTE, since=3, severity="info"))
    assert [[f.kind for f in i.findings] for i in timeline.incidents] == [[OVERDUE], [LATE_ACKS], ["backpressure"]]
    assert [i.seq for i in timeline.incidents] == [2, 0, 0]


def test_an_observation_beyond_what_is_kept_is_not_waited_for() -> None:
    timeline = Timeline().report(finding("slots_unavailable", "c", 0, entity={}))
    timeline.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(19)))
    timeline.report(finding("restart_loop", "late", 31, severity="info", entity={"job_id": "late"}))
    (incident,) = timeline.incidents
    assert "late" not in {f.subject for f in incident.findings}
    assert incident.more == []


def test_beyond_the_limit_an_unreported_incident_is_dropped_first_then_a_resolved_one_then_the_least_recent() -> None:
    def one(n: int, at: int, **more: Any) -> Finding:
        return finding(subject=f"j{n}", at=at, entity={"job_id": f"j{n}"}, **more)

    timeline = Timeline().report(*(one(n, n) for n in range(97)))
    timeline.report(finding(subject="gone", at=97, entity={"job_id": "gone"}))
    timeline.report(closed(97, subject="gone", entity={"job_id": "gone"})).tick(97 + MINUTE, 97 + MINUTE)
    timeline.report(one(0, 2 * MINUTE, severity="critical"))  # reported last
    timeline.report(one(200, 2 * MINUTE, severity="info"), one(201, 2 * MINUTE))
    assert len(timeline.incidents) == 100

    def subjects() -> set[str]:
        return {f.subject for i in timeline.incidents for f in i.findings}

    others = {302: "job_failed", 303: "heap_exhaustion"}
    for n, leaves in ((300, "j200"), (301, "gone"), (302, "j1"), (303, "j2")):
        before, count = subjects(), len(timeline.transitions)
        found = one(n, 3 * MINUTE)
        timeline.report(msgspec.structs.replace(found, kind=others.get(n, found.kind)))
        assert before - subjects() == {leaves}
        ended = [(t.transition, t.reason) for t in timeline.transitions[count:] if t.transition != "opened"]
        why = "no longer tracked: more than 100 incidents are open in this cluster"
        assert ended == ([("stale", why)] if n >= 302 else [])
    before = subjects()
    timeline.report(one(304, 3 * MINUTE), one(305, 3 * MINUTE))
    assert subjects() - before == {"j304", "j305"}
    assert len(timeline.incidents) == 100
    # The newest of their kind.
    assert [f.subject for f in timeline.incidents[-3].findings] == ["j301", "j304", "j305"]
    timeline.report(closed(4 * MINUTE, subject="j304", entity={"job_id": "j304"}))
    assert len(timeline.incidents) == 100


def test_beyond_twenty_findings_one_of_the_commonest_kind_gives_way_the_newest_first_and_never_the_cause() -> None:
    timeline = Timeline().report(finding("slots_unavailable", "c", 0, entity={}))
    timeline.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(25)))
    (incident,) = timeline.incidents
    assert [f.subject for f in incident.findings] == ["c", *(f"j{n:02}" for n in range(19))]
    assert incident.more == [("restart_loop", f"j{n:02}") for n in range(19, 25)]
    timeline.report(finding(FAILING, "j03", 30, entity={"job_id": "j3"}))
    assert (FAILING, "j03") in [(f.kind, f.subject) for f in incident.findings]
    assert ("restart_loop", "j18") in incident.more
    timeline.report(closed(31, "restart_loop", "j18"))
    assert ("restart_loop", "j18") not in incident.more
    assert timeline.transitions[-1].more <= 7


def test_what_gives_way_after_its_end_or_as_info_is_not_waited_for() -> None:
    timeline = Timeline().report(finding("slots_unavailable", "c", 0, entity={}))
    timeline.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(19)))
    timeline.report(closed(30, "restart_loop", "j05"), finding("restart_loop", "late", 31, entity={"job_id": "late"}))
    (incident,) = timeline.incidents
    assert "j05" not in {f.subject for f in incident.findings}
    assert incident.more == []


def test_what_is_switched_off_is_closed_with_that_reason_and_ends_what_only_it_held_open() -> None:
    timeline = Timeline().report(finding(), finding(FAILING, at=1))
    transitions = close_findings(
        timeline.incidents, lambda kind, subject: (kind, subject) == (FAILING, "j"), 9, timeline.context
    )
    assert [(t.transition, t.at, t.reason) for t in transitions] == [
        ("updated", 9, "checkpoint_failing resolved: detector checkpoint_failing was disabled")
    ]
    assert timeline.incidents[0].closed_at is None
    close_findings(timeline.incidents, lambda *_: True, 10, timeline.context)
    assert (timeline.incidents[0].closed_at, timeline.incidents[0].changed) == (10, "")
    assert all(f.closed_because.endswith("was disabled") for f in timeline.incidents[0].findings)


def test_findings_that_are_only_counted_are_let_go_when_they_are_switched_off() -> None:
    timeline = Timeline().report(finding())
    timeline.incidents[0].more = [(FAILING, "a"), (LATE_ACKS, "b")]
    timeline.report(closed(5))
    assert timeline.incidents[0].closed_at is None
    close_findings(timeline.incidents, lambda kind, _: kind == FAILING, 9, timeline.context)
    assert timeline.incidents[0].more == [(LATE_ACKS, "b")]
    assert timeline.incidents[0].closed_at is None
    close_findings(timeline.incidents, lambda kind, _: kind == LATE_ACKS, 10, timeline.context)
    assert timeline.incidents[0].closed_at == 10


def test_the_incident_that_was_reported_first_survives_a_merger_and_the_others_name_it() -> None:
    timeline = Timeline().report(
        finding(subject="a", at=1, entity={"job_id": "a"}),
        finding(subject="b", at=2, entity={"job_id": "b"}),
        finding(subject="c", at=3, entity={"job_id": "c"}),
    )
    ids = [t.incident for t in timeline.transitions]
    timeline.report(finding("jobmanager_lost", "jm", 4, entity={}))
    assert [(t.incident, t.transition, t.part_of) for t in timeline.transitions[3:]] == [
        (ids[0], "updated", ""),
        (ids[1], "resolved", ids[0]),
        (ids[2], "resolved", ids[0]),
    ]
    assert timeline.transitions[3].merged == ids[1:]
    assert timeline.transitions[3].reason == f"merged with incident {ids[1]}, {ids[2]}: jobmanager_lost connects them"
    assert [t.reason for t in timeline.transitions[4:]] == [f"merged into incident {ids[0]}"] * 2
    assert [t.ended_at for t in timeline.transitions[4:]] == [4, 4]
    assert {o.incident for o in timeline.context.past} == {ids[0]}


def test_a_resolved_incident_is_continued_and_of_several_the_one_that_ended_last() -> None:
    timeline = Timeline()
    for n, subject in enumerate("ab"):
        timeline.report(finding(subject=subject, at=n, entity={"job_id": subject}))
        timeline.report(closed(10 + n, subject=subject, entity={"job_id": subject}))
    timeline.tick(10 + MINUTE).tick(11 + MINUTE)
    timeline.report(finding("jobmanager_lost", "jm", 2 * MINUTE, since=5, entity={}))
    assert timeline.transitions[-1].incident == timeline.transitions[1].incident
    assert (timeline.transitions[-1].transition, timeline.transitions[-1].cause) == ("updated", "jobmanager_lost")
