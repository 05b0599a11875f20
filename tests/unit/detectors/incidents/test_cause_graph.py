"""The cause graph: its links as a table, and what each of them asks for."""

from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from detectors.incident import SEVERITIES, Finding
from detectors.incidents.cause_graph import FIELD, KINDS, LINKS, Link, explains, joined, leading
from tests.unit.detectors.incidents.test_lifecycle import MINUTE, finding

TABLE = Path(__file__).with_name("golden") / "cause_graph.txt"
LATE = 10**10
"""Later than any link reaches."""
each_link = pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link.cause}-{link.effect}")


def a(kind: str, since: int = 0, **more: Any) -> Finding:
    return finding(kind, more.pop("subject", "s"), since, **{"entity": {}, **more})


def cause_of(link: Link, since: int = LATE, **more: Any) -> Finding:
    return a(link.cause, since, **{"severity": "critical", **more})


def test_the_links_are_those_of_the_table(request: pytest.FixtureRequest) -> None:
    """`pytest … --regenerate` writes it; a link more or less is one line of its diff."""
    rows = [
        f"{link.cause} -> {link.effect}: same {link.relation}, {link.within // MINUTE} min"
        + (", critical" if link.critical else "")
        for link in LINKS
    ]
    text = "".join(f"{row}\n" for row in sorted(rows))
    if request.config.getoption("--regenerate"):
        TABLE.write_text(text, encoding="utf-8")
    assert text.splitlines() == TABLE.read_text(encoding="utf-8").splitlines()
    assert all(link.within % MINUTE == 0 for link in LINKS)


def test_two_kinds_have_one_link_at_most_in_each_direction() -> None:
    pairs = [(link.cause, link.effect) for link in LINKS]
    assert len(set(pairs)) == len(pairs)
    assert frozenset(kind for pair in pairs for kind in pair) == KINDS


@each_link
def test_a_link_reaches_as_far_as_it_is_declared_in_either_order(link: Link) -> None:
    for sign in (1, -1):
        assert explains(cause_of(link), a(link.effect, LATE + sign * link.within))
        assert not explains(cause_of(link), a(link.effect, LATE + sign * (link.within + 1)))


@each_link
def test_a_cause_begins_before_its_effect_has_ended(link: Link) -> None:
    assert explains(cause_of(link), a(link.effect, LATE - 5, closed_at=LATE))
    assert not explains(cause_of(link), a(link.effect, LATE - 5, closed_at=LATE - 1))


@each_link
def test_only_a_link_that_demands_it_needs_a_critical_cause(link: Link) -> None:
    assert explains(cause_of(link, severity="warning"), a(link.effect, LATE, severity="critical")) != link.critical


@each_link
def test_both_share_the_job_taskmanager_or_host_unless_one_does_not_know_it(link: Link) -> None:
    for field, one, other in product(("job_id", "tm_id", "host"), ("", "x"), ("", "x", "y")):
        same = not one or not other or one == other or FIELD.get(link.relation) != field
        assert explains(cause_of(link, entity={field: one}), a(link.effect, LATE, entity={field: other})) == same


def test_a_host_is_the_same_with_port_and_domain() -> None:
    node = a("node_lost", entity={"host": "Worker-7.example.com:45454"})
    assert explains(node, a("taskmanager_lost", entity={"host": "worker-7"}))
    assert not explains(node, a("taskmanager_lost", entity={"host": "worker-8"}))


def test_kinds_without_a_link_never_belong_together() -> None:
    linked = {(link.cause, link.effect) for link in LINKS}
    for one, other in product(sorted(KINDS), repeat=2):
        assert explains(a(one, severity="critical"), a(other)) == ((one, other) in linked)


def test_it_does_not_matter_for_belonging_together_which_of_two_is_the_cause() -> None:
    linked = {(link.cause, link.effect) for link in LINKS}
    for one, other in product(sorted(KINDS), repeat=2):
        together = bool({(one, other), (other, one)} & linked)
        assert joined(a(one, severity="critical"), a(other, severity="critical")) == together


# Of findings that nothing explains: first the one that explains more, then the worse, then the earlier, then by name.
PRECEDENCE: list[tuple[str, Finding, list[Finding]]] = [
    (
        "explains two, one of them through the other",
        a("late_barrier_acks", 9, entity={"job_id": "j"}),
        [
            a("node_lost", 0, severity="critical"),
            a("checkpoint_overdue", 9, entity={"job_id": "j"}),
            a("checkpoint_failing", 9, entity={"job_id": "j"}),
        ],
    ),
    ("worse", a("node_lost", 9, severity="critical", subject="b"), [a("unread_records_lost", 0, subject="a")]),
    ("earlier", a("zero_input_leak", 1, subject="b"), [a("unread_records_lost", 2, subject="a")]),
    ("first by kind", a("clock_skew", 1, subject="b"), [a("unread_records_lost", 1, subject="a")]),
    (
        "first by subject",
        a("unread_records_lost", 1, subject="a", summary="one"),
        [a("unread_records_lost", 1, subject="b", summary="two")],
    ),
    ("of weight", a("node_lost", 9, subject="b"), [a("clock_skew", 0, subject="a", severity="info")]),
]


@pytest.mark.parametrize(("why", "first", "others"), PRECEDENCE, ids=lambda x: x if isinstance(x, str) else "")
def test_the_cause_is_the_one_that(why: str, first: Finding, others: list[Finding]) -> None:
    for order in permutations([first, *others]):
        assert leading(list(order)) is first


def test_severities_are_in_order_of_weight() -> None:
    findings = [a("unread_records_lost", severity=severity, subject=severity) for severity in SEVERITIES]
    assert [leading(findings[: n + 1]).severity for n in range(3)] == ["info", "warning", "critical"]


def test_a_cause_that_was_left_does_not_lead_again_and_one_that_explains_the_present_does() -> None:
    left, present = a("checkpoint_failing", 0, subject="a"), a("unread_records_lost", 5, subject="b")
    assert leading([left, present], present, [left]) is present
    assert leading([left, present], None, [left]) is present
    deeper = a("checkpoint_overdue", 1, subject="c")
    failing = a("checkpoint_failing", 2, subject="d")
    assert leading([deeper, failing], failing, [deeper]) is deeper
    assert leading([left], None, [left]) is left
