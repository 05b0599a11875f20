"""One incident for a chain, whatever the order in which its findings come, and when it ends."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Finding
from detectors.incidents.cause_graph import explains, leading
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, Timeline, finding

TM = {"tm_id": "tm-1", "host": "h1"}


def overdue(job: str, at: int = 0, **more: object) -> Finding:
    return finding("checkpoint_overdue", job, at, entity={"job_id": job}, **more)


def lost(tm: str = "tm-1", at: int = 0, **more: object) -> Finding:
    return finding(
        "taskmanager_lost", tm, at, **{"entity": {"tm_id": tm, "host": "h1"}, "severity": "critical", **more}
    )


def closed(one: Finding, at: int) -> Finding:
    return finding(
        one.kind, one.subject, at, since=one.since, entity=one.entity, closed_at=at, closed_because=f"{one.kind} ended"
    )


def test_two_incidents_that_a_later_finding_explains_become_the_older_one() -> None:
    timeline = Timeline().report(overdue("a"), overdue("b", 10), lost(at=20))
    assert timeline.words() == [
        ("opened", "checkpoint_overdue"),
        ("opened", "checkpoint_overdue"),
        ("updated", "taskmanager_lost"),
        ("resolved", "checkpoint_overdue"),
    ]
    first, second, joined, ended = timeline.transitions
    assert (joined.incident, joined.merged) == (first.incident, [second.incident])
    assert {f.subject for f in joined.findings} == {"a", "b", "tm-1"}
    assert (ended.incident, ended.part_of) == (second.incident, first.incident)
    assert ended.reason == f"merged into incident {first.incident}"
    assert [i.id for i in timeline.incidents] == [first.incident]


def test_checkpoints_that_fail_and_the_restore_that_the_restart_then_fails_are_one_storage() -> None:
    entity = {"job_id": "a"}
    failing = finding("checkpoint_failing", "a", 0, entity=entity, severity="critical")
    restore = finding("restore_failed", "a", 10_000, entity=entity, severity="critical")
    timeline = Timeline().report(failing, restore)
    assert [(t.incident, t.cause) for t in timeline.transitions] == [
        (timeline.transitions[0].incident, "checkpoint_failing")
    ] * 2


def test_what_begins_after_an_effect_has_ended_is_not_its_cause() -> None:
    hung = overdue("a")
    timeline = Timeline().report(hung, closed(hung, MINUTE), lost(at=2 * MINUTE))
    assert timeline.words() == [("opened", "checkpoint_overdue"), ("opened", "taskmanager_lost")]
    timeline = Timeline().report(hung, closed(hung, MINUTE), lost(at=2 * MINUTE, since=MINUTE - 1))
    assert timeline.words() == [("opened", "checkpoint_overdue"), ("updated", "taskmanager_lost")]


def test_a_merged_incident_needs_the_proofs_of_both() -> None:
    a, b, tm = overdue("a"), overdue("b", 10), lost(at=20)
    timeline = Timeline().report(a, b, tm, closed(a, 100), closed(tm, 200)).tick(10 * MINUTE)
    assert not timeline.incidents[0].closed_at
    timeline.report(closed(b, 11 * MINUTE)).tick(12 * MINUTE)
    assert (timeline.transitions[-1].transition, timeline.transitions[-1].part_of) == ("resolved", "")


def test_what_is_merged_reports_no_more_under_its_own_id() -> None:
    timeline = Timeline().report(overdue("a"), overdue("b", 10), lost(at=20))
    after = timeline.transitions[3].incident
    count = len(timeline.transitions)
    timeline.report(overdue("b", 30, severity="critical"), closed(overdue("b", 10), 40)).tick(20 * MINUTE)
    assert after not in {t.incident for t in timeline.transitions[count:]}


def test_a_chain_is_one_incident_though_its_ends_have_no_link() -> None:
    chain = [
        finding("node_lost", "h1", 0, entity={"host": "h1"}),
        finding("taskmanager_lost", "tm-1", 1, entity={"tm_id": "tm-1", "host": "h1"}),
        finding("slots_unavailable", "a", 2, entity={"job_id": "a"}),
    ]
    assert not explains(chain[0], chain[2])
    for order in itertools.permutations(chain):
        timeline = Timeline().report(*(finding(f.kind, f.subject, 5, since=f.since, entity=f.entity) for f in order))
        assert len(timeline.incidents) == 1
        assert timeline.transitions[-1].cause == "node_lost" or timeline.transitions[-1].part_of


def test_a_finding_of_severity_info_alone_reports_nothing_and_supports_what_comes() -> None:
    slow = finding("backpressure", "a", 0, entity={"job_id": "a"}, severity="info")
    timeline = Timeline().report(slow).tick(30 * MINUTE)
    assert timeline.transitions == []
    timeline.report(overdue("a", 31 * MINUTE))
    assert timeline.words() == [("opened", "checkpoint_overdue")]
    assert {f.kind for f in timeline.transitions[0].findings} == {"backpressure", "checkpoint_overdue"}


def test_a_finding_of_severity_info_holds_no_incident_open_and_joins_no_two() -> None:
    slow = finding("backpressure", "a", 0, entity={}, severity="info")
    timeline = Timeline().report(overdue("a"), overdue("b"), slow)
    assert [t.transition for t in timeline.transitions] == ["opened", "opened"]
    timeline.report(closed(overdue("a"), 1), closed(overdue("b"), 1)).tick(2 * MINUTE)
    assert [t.transition for t in timeline.transitions] == ["opened", "opened", "resolved", "resolved"]


def test_an_observation_that_becomes_worse_opens_its_incident_then() -> None:
    slow = finding("backpressure", "a", 0, entity={"job_id": "a"}, severity="info")
    timeline = Timeline().report(slow, finding("backpressure", "a", MINUTE, since=0, entity={"job_id": "a"}))
    assert [(t.transition, t.at) for t in timeline.transitions] == [("opened", MINUTE)]


def test_an_incident_whose_findings_are_no_more_than_info_is_resolved() -> None:
    slow = {"entity": {"job_id": "a"}, "since": 0}
    timeline = Timeline().report(
        finding("backpressure", "a", 0, **slow), finding("backpressure", "a", 5, severity="info", **slow)
    )
    timeline.tick(2 * MINUTE)
    assert [t.transition for t in timeline.transitions] == ["opened", "resolved"]
    assert timeline.transitions[-1].severity == "warning"


def test_taskmanagers_lost_together_are_explained_together() -> None:
    """One host died and took one of the two; what they share is above both."""
    node = finding("node_lost", "h1", 5, entity={"host": "h1"}, severity="critical")
    other = lost("tm-2", 1, entity={"tm_id": "tm-2", "host": "h2"})
    assert leading([lost("tm-1", 2), other, node]) is node


def test_findings_beyond_what_is_kept_still_hold_the_end() -> None:
    many = [lost(f"tm-{n}", n) for n in range(50)]
    timeline = Timeline().report(*many)
    assert timeline.incidents[0].more
    timeline.report(*(closed(f, 100) for f in many[:-1])).tick(2 * MINUTE)
    assert timeline.incidents[0].closed_at is None
    timeline.report(closed(many[-1], 3 * MINUTE)).tick(5 * MINUTE)
    assert timeline.transitions[-1].transition == "resolved"


def test_a_deeper_cause_is_kept_though_there_are_many_findings() -> None:
    timeline = Timeline().report(*(lost(f"tm-{n}", n) for n in range(50)))
    timeline.report(finding("ha_connection_lost", "zk", 60, entity={}, severity="critical"))
    assert timeline.transitions[-1].cause == "ha_connection_lost"
    assert len(timeline.transitions[-1].findings) == 20


KINDS = (
    "backpressure",
    "late_barrier_acks",
    "checkpoint_overdue",
    "checkpoint_failing",
    "restart_loop",
    "heap_exhaustion",
    "taskmanager_lost",
    "node_lost",
    "jobmanager_lost",
    "slots_unavailable",
    "job_failed",
)
made_up = st.lists(
    st.builds(
        lambda kind, job, tm, at, severity: finding(
            kind,
            f"{job}{tm}",
            at,
            entity={"job_id": job, "tm_id": tm},
            severity=severity,
            summary=f"{kind} {job}{tm}",
        ),
        st.sampled_from(KINDS),
        st.sampled_from(["a", "b", ""]),
        st.sampled_from(["t", "u", ""]),
        st.integers(0, 5 * MINUTE),
        st.sampled_from(["info", "warning", "critical"]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda f: (f.kind, f.subject),
)


@settings(max_examples=300, deadline=None)
@given(made_up)
def test_a_cause_that_was_left_for_another_leads_again_only_if_it_explains_that(findings: list[Finding]) -> None:
    """A message whose title swings to and fro is not believed."""
    timeline = Timeline().report(*sorted(findings, key=lambda f: f.at))
    for incident in {t.incident for t in timeline.transitions}:
        own = [t for t in timeline.transitions if t.incident == incident]
        led: list[str] = []
        for transition in own:
            if led and transition.summary in led[:-1]:
                assert led[-1] in _explained(transition.summary, transition.findings)
            if transition.summary not in led[-1:]:
                led.append(transition.summary)


def _explained(cause: str, findings: list[Finding]) -> set[str]:
    """The findings of weight that the one with this summary explains, directly or through others."""
    weighty = [f for f in findings if f.severity != "info"]
    found = {cause}
    for _ in weighty:
        found |= {g.summary for f in weighty for g in weighty if f.summary in found and explains(f, g)}
    return found


@settings(max_examples=200, deadline=None)
@given(made_up, st.randoms(use_true_random=False))
def test_the_leading_finding_does_not_depend_on_order(findings: list[Finding], chance: object) -> None:
    shuffled = list(findings)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert leading(shuffled) is leading(findings)


@settings(max_examples=200, deadline=None)
@given(made_up)
def test_the_leading_finding_is_explained_by_none_of_weight_that_it_does_not_explain_itself(
    findings: list[Finding],
) -> None:
    cause = leading(findings)
    weighty = [f for f in findings if f.severity != "info"]
    assert not weighty or cause.severity != "info"
    above = {id(cause)}
    for _ in weighty:
        above |= {id(f) for f in weighty for g in weighty if id(g) in above and explains(f, g)}
    below = {id(cause)}
    for _ in weighty:
        below |= {id(g) for f in weighty for g in weighty if id(f) in below and explains(f, g)}
    assert above <= below


@settings(max_examples=200, deadline=None)
@given(made_up, st.randoms(use_true_random=False))
def test_findings_in_any_order_give_the_same_partition_into_incidents(findings: list[Finding], chance: object) -> None:
    def partition(order: list[Finding]) -> list[list[tuple[str, str]]]:
        # All are timeline at one moment: what was found when does not matter here.
        timeline = Timeline().report(
            *(finding(f.kind, f.subject, 9 * MINUTE, since=f.since, entity=f.entity) for f in order)
        )
        return sorted(sorted((f.kind, f.subject) for f in i.findings) for i in timeline.incidents)

    shuffled = list(findings)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert partition(shuffled) == partition(findings)


def _kills(gaps: list[int]) -> Timeline:
    timeline, at = Timeline(), 0
    for n, gap in enumerate([0, *gaps]):
        at += gap
        kill = lost(f"tm-{n}", at, entity={"tm_id": f"tm-{n}", "job_id": f"id-{n}", "job_name": "orders"})
        timeline.report(kill, closed(kill, at + 1_000)).tick(at + 2 * MINUTE).tick(at + 12 * MINUTE)
    return timeline


def test_the_third_incident_of_a_kind_on_a_job_is_a_recurrence_with_its_period() -> None:
    opened = [t for t in _kills([120 * MINUTE, 123 * MINUTE]).transitions if t.transition == "opened"]
    assert [t.recurrence for t in opened[:2]] == [None, None]
    third = opened[2].recurrence
    assert third is not None
    assert (third.count, third.first, third.steady) == (3, 0, True)
    assert 120 * MINUTE <= third.period <= 123 * MINUTE
    assert (
        opened[2].reason
        == "recurring: 3rd occurrence, every 2 h 1 min (a constant period suggests a leak or a schedule)"
    )


def test_an_uneven_recurrence_is_not_called_constant() -> None:
    last = _kills([60 * MINUTE, 300 * MINUTE]).transitions[-1]
    assert last.recurrence is not None
    assert not last.recurrence.steady


def test_an_incident_that_reopens_counts_once_however_often_it_does() -> None:
    timeline = Timeline()
    for hour in range(3):
        for minute in (0, 8, 16, 24):
            at = (60 * hour + minute) * MINUTE
            timeline.report(lost(at=at), closed(lost(at=at), at + 1)).tick(at + 2 * MINUTE)
        found = timeline.transitions[-1].recurrence
        assert len({t.incident for t in timeline.transitions}) == hour + 1
        assert (found and (found.count, found.period)) == (None if hour < 2 else (3, 60 * MINUTE))
        timeline.tick((60 * hour + 40) * MINUTE)


@pytest.mark.parametrize("gap", [15 * 24 * 60 * MINUTE])
def test_what_is_long_past_does_not_count(gap: int) -> None:
    assert all(t.recurrence is None for t in _kills([gap, gap]).transitions)


def test_the_past_is_bounded() -> None:
    timeline = _kills([20 * MINUTE] * 150)
    assert len(timeline.context.past) <= 100
