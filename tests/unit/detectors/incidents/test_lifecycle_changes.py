"""What is said in an incident's life: when, with which reason, and what a bound lets go of first."""

from copy import deepcopy
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Finding
from detectors.incidents.lifecycle import IncidentConfig, due, switched_off
from tests.unit.detectors.incidents.test_lifecycle import LIFE, MINUTE, Told, finding

FAILING, OVERDUE, LATE_ACKS = "checkpoint_failing", "checkpoint_overdue", "late_barrier_acks"

LOST, OTHER = (finding("taskmanager_lost", subject, at, entity={}) for at, subject in enumerate("ab"))


def closed(at: int, kind: str = OVERDUE, subject: str = "j", **more: Any) -> Finding:
    return finding(kind, subject, at, closed_at=at, closed_because=f"{subject} is well", **more)


def reasons(told: Told) -> list[tuple[str, int, str]]:
    return [(t.transition, t.at, t.reason) for t in told.said]


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
    told, now, last_event = Told(), 0, 0
    for kind, subject, gap, how, heard in steps:
        now += gap
        last_event = now if heard else last_event
        more: dict[str, Any] = {"closed_at": now} if how == "closed" else {}
        more |= {"severity": how} if how in ("info", "critical") else {}
        told.report(finding(kind, subject, now, entity={"job_id": subject}, **more)).tick(now, last_event)
        deadline = due(told.incidents, last_event, LIFE)
        before, said = deepcopy(told.incidents), len(told.said)
        if deadline is None:
            deadline = now + 10**12
            told.tick(deadline, last_event)
            assert (told.incidents, len(told.said)) == (before, said)
            continue
        told.tick(deadline - 1, last_event)
        assert (told.incidents, len(told.said)) == (before, said)
        told.tick(deadline, last_event)
        assert told.incidents != before
        assert all(t.at == deadline for t in told.said[said:])
        now = deadline


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        (finding(FAILING, at=5), "checkpoint_failing as well"),
        (finding(LATE_ACKS, at=5), "the cause is now known to be late_barrier_acks"),
        (finding(at=5, severity="critical"), "it is critical now"),
        (finding("taskmanager_lost", at=5), "the cause is now known to be taskmanager_lost"),
    ],
)
def test_what_is_news_is_said_at_once_with_its_reason(then: Finding, reason: str) -> None:
    told = Told().report(finding(), then)
    assert reasons(told)[1:] == [("updated", 5, reason)]
    assert {t.opened_at for t in told.said} == {0}


@pytest.mark.parametrize(
    ("before", "then", "reason"),
    [
        ([finding()], finding(at=5), "checkpoint_overdue goes on"),
        ([LOST, OTHER], closed(5, LOST.kind, "a"), "taskmanager_lost is over for one of several"),
        (
            [finding(), finding(FAILING, at=1, severity="info")],
            closed(5, FAILING, severity="info"),
            "checkpoint_failing is over",
        ),
        (
            [finding(), finding(FAILING, at=1)],
            finding(FAILING, at=5, severity="info"),
            "checkpoint_failing is no more than info",
        ),
    ],
)
def test_numbers_alone_wait_for_a_minute_after_what_was_said_last(
    before: list[Finding], then: Finding, reason: str
) -> None:
    told = Told().report(*before)
    first = told.said[-1].at
    already = len(told.said)
    told.report(then).tick(first + MINUTE - 1).tick(first + MINUTE)
    assert reasons(told)[already:] == [("updated", first + MINUTE, reason)]


def test_the_end_of_one_kind_of_finding_is_said_with_its_proof() -> None:
    told = Told().report(finding(), finding(FAILING, at=1), closed(5, FAILING))
    assert reasons(told)[-1] == ("updated", 5, "checkpoint_failing is over: j is well")


def test_the_end_of_the_worst_of_several_is_said_since_the_severity_falls() -> None:
    told = Told().report(finding(LOST.kind, "a", severity="critical", entity={}), OTHER, closed(5, LOST.kind, "a"))
    assert reasons(told)[-1] == ("updated", 5, "taskmanager_lost is over: a is well")
    assert told.said[-1].severity == "warning"


def test_updates_with_new_numbers_alone_come_after_1_2_4_8_and_16_minutes_then_every_half_hour() -> None:
    told = Told().report(finding())
    for at in range(0, 150 * MINUTE, MINUTE // 2):
        told.report(finding(at=at)).tick(at)
    times = [t.at // MINUTE for t in told.said]
    assert [b - a for a, b in pairwise(times)] == [1, 2, 4, 8, 16, 30, 30, 30]


def test_after_news_new_numbers_are_told_after_a_minute_again() -> None:
    told = Told().report(finding())
    for at in range(0, 10 * MINUTE, MINUTE // 2):
        told.report(finding(at=at)).tick(at)
    told.report(finding(at=10 * MINUTE, severity="critical"))
    for at in range(10 * MINUTE, 14 * MINUTE, MINUTE // 2):
        told.report(finding(at=at, severity="critical")).tick(at)
    assert [t.at // MINUTE for t in told.said][-3:] == [10, 11, 13]


def test_a_longest_time_below_the_smallest_gives_way_to_it() -> None:
    life = IncidentConfig.model_validate({"update_every": "10m", "max_update_interval": "1m"})
    told = Told().report(finding(), finding(at=1))
    assert due(told.incidents, 0, life) == 10 * MINUTE


def test_a_finding_after_silence_is_back_and_one_after_the_end_as_well() -> None:
    told = Told().report(finding()).tick(15 * MINUTE, 0).report(finding(at=16 * MINUTE))
    assert reasons(told)[-1] == ("updated", 16 * MINUTE, "checkpoint_overdue is back")
    told = Told().report(finding(), closed(5)).report(finding(at=6))
    assert reasons(told)[-1] == ("updated", 6, "checkpoint_overdue is back")
    assert told.incidents[0].closed_at is None


def test_silence_is_told_with_how_long_it_has_lasted_and_its_end_too() -> None:
    told = Told().report(finding()).tick(15 * MINUTE, 0).tick(16 * MINUTE, 15 * MINUTE + 1)
    assert reasons(told)[1:] == [
        ("stale", 15 * MINUTE, "for 15 min nothing that tells of this cluster has arrived"),
        ("updated", 16 * MINUTE, "records of this cluster arrive again"),
    ]
    assert told.incidents[0].stale is False


def test_the_proof_of_the_end_is_that_of_the_finding_that_ended_last() -> None:
    told = Told().report(finding(), finding(FAILING, at=1), closed(5, FAILING), closed(9)).tick(9 + MINUTE)
    assert reasons(told)[-1] == ("resolved", 9 + MINUTE, "j is well")
    assert told.said[-1].ended_at == 9
    assert [t.ended_at for t in told.said[:-1]] == [None] * (len(told.said) - 1)


def test_a_finding_is_as_it_was_reported_last_and_began_when_it_was_first_seen() -> None:
    told = Told().report(finding(at=50, since=40), finding(at=60, since=45, summary="newest"))
    told.report(finding(at=55, since=30, summary="late"))
    (kept,) = told.incidents[0].findings
    assert (kept.summary, kept.since, kept.at) == ("newest", 30, 60)
    told.report(finding(at=60, summary="at the same time"))
    assert told.incidents[0].findings[0].summary == "at the same time"


def test_what_has_ended_before_it_was_known_is_not_said() -> None:
    assert Told().report(closed(5)).said == []
    told = Told().report(finding(), closed(1)).tick(1 + MINUTE)
    said = len(told.said)
    told.report(closed(2 + MINUTE)).tick(3 * MINUTE)
    assert len(told.said) == said


def test_an_observation_that_ends_leaves_nothing_and_one_of_two_leaves_the_other() -> None:
    told = Told().report(finding("clock_skew", severity="info"))
    assert [i.seq for i in told.incidents] == [0]
    told.report(closed(5, "clock_skew", severity="info"))
    assert (told.incidents, told.said) == ([], [])


def test_an_observation_joins_the_incident_it_supports() -> None:
    told = Told().report(finding(), finding(LATE_ACKS, at=1, severity="info"))
    assert [[f.kind for f in i.findings] for i in told.incidents] == [[OVERDUE, LATE_ACKS]]


def test_an_observation_joins_no_resolved_incident_and_no_other_observation() -> None:
    told = Told().report(finding(), closed(5)).tick(5 + MINUTE)
    told.report(finding(LATE_ACKS, at=2 * MINUTE, since=3, severity="info"))
    told.report(finding("backpressure", at=3 * MINUTE, since=3, severity="info"))
    assert [[f.kind for f in i.findings] for i in told.incidents] == [[OVERDUE], [LATE_ACKS], ["backpressure"]]
    assert [i.seq for i in told.incidents] == [2, 0, 0]


def test_an_observation_beyond_what_is_kept_is_not_waited_for() -> None:
    told = Told().report(finding("slots_unavailable", "c", 0, entity={}))
    told.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(19)))
    told.report(finding("restart_loop", "late", 31, severity="info", entity={"job_id": "late"}))
    (incident,) = told.incidents
    assert "late" not in {f.subject for f in incident.findings}
    assert incident.more == []


def test_of_too_many_incidents_the_one_that_says_nothing_goes_first_then_a_resolved_then_the_one_said_longest_ago() -> (
    None
):
    def one(n: int, at: int, **more: Any) -> Finding:
        return finding(subject=f"j{n}", at=at, entity={"job_id": f"j{n}"}, **more)

    told = Told().report(*(one(n, n) for n in range(97)))
    told.report(finding(subject="gone", at=97, entity={"job_id": "gone"}))
    told.report(closed(97, subject="gone", entity={"job_id": "gone"})).tick(97 + MINUTE, 97 + MINUTE)
    told.report(one(0, 2 * MINUTE, severity="critical"))  # said of it last
    told.report(one(200, 2 * MINUTE, severity="info"), one(201, 2 * MINUTE))
    assert len(told.incidents) == 100

    def subjects() -> set[str]:
        return {f.subject for i in told.incidents for f in i.findings}

    others = {302: "job_failed", 303: "heap_exhaustion"}
    for n, leaves in ((300, "j200"), (301, "gone"), (302, "j1"), (303, "j2")):
        before, said = subjects(), len(told.said)
        found = one(n, 3 * MINUTE)
        told.report(msgspec.structs.replace(found, kind=others.get(n, found.kind)))
        assert before - subjects() == {leaves}
        ended = [(t.transition, t.reason) for t in told.said[said:] if t.transition != "opened"]
        why = "no longer followed: more than 100 incidents are open in this cluster"
        assert ended == ([("stale", why)] if n >= 302 else [])
    before = subjects()
    told.report(one(304, 3 * MINUTE), one(305, 3 * MINUTE))
    assert subjects() - before == {"j304", "j305"}
    assert len(told.incidents) == 100
    # The newest of their kind.
    assert [f.subject for f in told.incidents[-3].findings] == ["j301", "j304", "j305"]
    told.report(closed(4 * MINUTE, subject="j304", entity={"job_id": "j304"}))
    assert len(told.incidents) == 100


def test_beyond_twenty_findings_one_of_the_commonest_kind_gives_way_the_newest_first_and_never_the_cause() -> None:
    told = Told().report(finding("slots_unavailable", "c", 0, entity={}))
    told.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(25)))
    (incident,) = told.incidents
    assert [f.subject for f in incident.findings] == ["c", *(f"j{n:02}" for n in range(19))]
    assert incident.more == [("restart_loop", f"j{n:02}") for n in range(19, 25)]
    told.report(finding(FAILING, "j03", 30, entity={"job_id": "j3"}))
    assert (FAILING, "j03") in [(f.kind, f.subject) for f in incident.findings]
    assert ("restart_loop", "j18") in incident.more
    told.report(closed(31, "restart_loop", "j18"))
    assert ("restart_loop", "j18") not in incident.more
    assert told.said[-1].more <= 7


def test_what_gives_way_after_its_end_or_as_info_is_not_waited_for() -> None:
    told = Told().report(finding("slots_unavailable", "c", 0, entity={}))
    told.report(*(finding("restart_loop", f"j{n:02}", n, entity={"job_id": f"j{n}"}) for n in range(19)))
    told.report(closed(30, "restart_loop", "j05"), finding("restart_loop", "late", 31, entity={"job_id": "late"}))
    (incident,) = told.incidents
    assert "j05" not in {f.subject for f in incident.findings}
    assert incident.more == []


def test_what_is_switched_off_is_closed_with_that_reason_and_ends_what_only_it_held_open() -> None:
    told = Told().report(finding(), finding(FAILING, at=1))
    said = switched_off(told.incidents, lambda kind, subject: (kind, subject) == (FAILING, "j"), 9, told.scene)
    assert [(t.transition, t.at, t.reason) for t in said] == [
        ("updated", 9, "checkpoint_failing is over: checkpoint_failing is switched off")
    ]
    assert told.incidents[0].closed_at is None
    switched_off(told.incidents, lambda *_: True, 10, told.scene)
    assert (told.incidents[0].closed_at, told.incidents[0].changed) == (10, "")
    assert all(f.closed_because.endswith("is switched off") for f in told.incidents[0].findings)


def test_findings_that_are_only_counted_are_let_go_when_they_are_switched_off() -> None:
    told = Told().report(finding())
    told.incidents[0].more = [(FAILING, "a"), (LATE_ACKS, "b")]
    told.report(closed(5))
    assert told.incidents[0].closed_at is None
    switched_off(told.incidents, lambda kind, _: kind == FAILING, 9, told.scene)
    assert told.incidents[0].more == [(LATE_ACKS, "b")]
    assert told.incidents[0].closed_at is None
    switched_off(told.incidents, lambda kind, _: kind == LATE_ACKS, 10, told.scene)
    assert told.incidents[0].closed_at == 10


def test_the_incident_that_was_said_first_survives_a_merger_and_the_others_say_of_which_they_are_part() -> None:
    told = Told().report(
        finding(subject="a", at=1, entity={"job_id": "a"}),
        finding(subject="b", at=2, entity={"job_id": "b"}),
        finding(subject="c", at=3, entity={"job_id": "c"}),
    )
    ids = [t.incident for t in told.said]
    told.report(finding("jobmanager_lost", "jm", 4, entity={}))
    assert [(t.incident, t.transition, t.part_of) for t in told.said[3:]] == [
        (ids[0], "updated", ""),
        (ids[1], "resolved", ids[0]),
        (ids[2], "resolved", ids[0]),
    ]
    assert told.said[3].merged == ids[1:]
    assert told.said[3].reason == f"jobmanager_lost joins this and {ids[1]}, {ids[2]} into one"
    assert [t.reason for t in told.said[4:]] == [f"part of {ids[0]}"] * 2
    assert [t.ended_at for t in told.said[4:]] == [4, 4]
    assert {o.incident for o in told.scene.past} == {ids[0]}


def test_a_resolved_incident_is_continued_and_of_several_the_one_that_ended_last() -> None:
    told = Told()
    for n, subject in enumerate("ab"):
        told.report(finding(subject=subject, at=n, entity={"job_id": subject}))
        told.report(closed(10 + n, subject=subject, entity={"job_id": subject}))
    told.tick(10 + MINUTE).tick(11 + MINUTE)
    told.report(finding("jobmanager_lost", "jm", 2 * MINUTE, since=5, entity={}))
    assert told.said[-1].incident == told.said[1].incident
    assert (told.said[-1].transition, told.said[-1].cause) == ("updated", "jobmanager_lost")
