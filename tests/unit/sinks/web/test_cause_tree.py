"""The tree of an incident's findings: each is shown once, below what explains it most closely."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors import DETECTORS
from detectors.incident import Finding
from detectors.incidents.cause_graph import explains
from sinks.web.cause_tree import CauseNode, cause_tree, in_order
from tests.unit.sinks.samples import SINCE, make_transition

KINDS = sorted(detector.kind for detector in DETECTORS)


def finding(kind: str, subject: str = "a", since: int = SINCE, **entity: str) -> Finding:
    fields: dict[str, Any] = {"job_id": "a"} | entity
    return Finding(
        kind=kind,
        subject=subject,
        entity=fields,
        since=since,
        at=since,
        severity="critical",
        summary=f"{kind} {subject}",
    )


def shape(nodes: list[CauseNode]) -> list[Any]:
    """The kinds of the tree, as nested lists."""
    return [[node.finding.kind, *shape(node.effects)] for node in nodes]


def everyone(nodes: list[CauseNode]) -> list[CauseNode]:
    return [one for node in nodes for one in (node, *everyone(node.effects))]


def test_each_finding_is_below_the_one_that_explains_it_most_closely() -> None:
    chain = [finding("late_barrier_acks"), finding("checkpoint_failing"), finding("checkpoint_overdue")]
    assert shape(cause_tree(chain)) == [["late_barrier_acks", ["checkpoint_overdue", ["checkpoint_failing"]]]]


def test_two_symptoms_of_one_cause_are_next_to_each_other() -> None:
    found = [finding("taskmanager_lost", tm_id="t"), finding("checkpoint_overdue"), finding("slots_unavailable")]
    assert shape(cause_tree(found)) == [["taskmanager_lost", ["checkpoint_overdue"], ["slots_unavailable"]]]


def test_findings_that_explain_each_other_are_shown_as_simultaneous() -> None:
    lost = [finding("taskmanager_lost", subject, tm_id=subject) for subject in "abc"]
    (first,) = cause_tree(lost)
    assert [node.finding.subject for node in everyone([first])] == ["a", "b", "c"]
    assert [node.together for node in everyone([first])] == [False, True, True]


def test_what_the_cause_does_not_explain_begins_a_tree_of_its_own() -> None:
    found = [finding("node_lost", host="h"), finding("clock_skew", host="other")]
    assert shape(cause_tree(found)) == [["node_lost"], ["clock_skew"]]


def test_the_cause_comes_first_and_the_others_by_their_first_symptom() -> None:
    found = [finding("backpressure", since=SINCE + 5), finding("checkpoint_overdue"), finding("late_barrier_acks")]
    ordered = in_order(make_transition(findings=found, cause="late_barrier_acks", summary="late_barrier_acks a"))
    assert [one.kind for one in ordered] == ["late_barrier_acks", "checkpoint_overdue", "backpressure"]


def test_a_cause_that_is_not_listed_leaves_the_others() -> None:
    assert [f.kind for f in in_order(make_transition(cause="node_lost"))] == ["checkpoint_overdue"]


FOUND = st.lists(
    st.builds(
        finding,
        st.sampled_from(KINDS),
        st.sampled_from("abc"),
        st.integers(SINCE, SINCE + 600_000),
        tm_id=st.sampled_from(["", "t1", "t2"]),
        host=st.sampled_from(["", "h1"]),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None)
@given(FOUND)
def test_every_finding_is_shown_once_and_only_below_one_that_explains_it(found: list[Finding]) -> None:
    trees = cause_tree(found)
    nodes = everyone(trees)
    assert sorted(node.number for node in nodes) == list(range(1, len(found) + 1))
    assert trees[0].number == 1
    assert all(explains(node.finding, below.finding) for node in nodes for below in node.effects)
