"""What a signature asks for, one condition at a time, and which of several entries is shown."""

from typing import Any

import pytest

from detectors.flink.stack_traces import StackTrace, StackTraces
from detectors.incident import Evidence, Finding, Series
from detectors.incidents.known_issues import Affected, IssueCatalogue, IssueEntry, Signature, find
from tests.unit.detectors.incidents.test_lifecycle import finding

KIND = "heap_exhaustion"
FAILED = {"class": "com.example.Odd", "message": "no such thing", "frame": "com.example.Parse.map(Parse.java:28)"}
NEAR = StackTraces({"tm": StackTrace("", "flink.logs/0/1", 0, FAILED, "com.example.Outer: all of it")})


def entry(name: str, affected: tuple[Affected, ...] = (), **signature: Any) -> IssueEntry:
    return IssueEntry(
        id=name,
        title="Something that is long enough",
        signature=(Signature(kinds=(KIND,), **signature),),
        affected=affected,
        fixed_in="Flink 9.9",
        workaround="Do something else instead.",
        link="https://example.org/1",
    )


def found(one: Finding, throwables: StackTraces = NEAR, **signature: Any) -> bool:
    return find(IssueCatalogue((entry("FLINK-1", **signature),)), [one], "", throwables) is not None


@pytest.mark.parametrize("pattern", ["com\\.example\\.odd", "NO SUCH", "Parse\\.java", "Outer: all"])
def test_a_failure_near_the_finding_is_looked_for_in_all_that_is_known_of_it(pattern: str) -> None:
    assert found(finding(KIND), failure=pattern)
    assert found(finding(KIND), text=pattern)
    assert not found(finding(KIND), StackTraces(), failure=pattern)
    assert not found(finding(KIND), failure=f"{pattern}, but not here")


def test_a_text_is_looked_for_in_the_summary_and_in_the_evidence() -> None:
    proof = Evidence("flink.logs", 0, 1, 0, "Terminating TaskManager")
    assert found(finding(KIND, summary="the heap is full"), text="heap IS full")
    assert found(finding(KIND, evidence=[proof]), text="terminating")
    assert not found(finding(KIND), text="terminating")
    assert not found(finding(KIND, evidence=[proof]), failure="terminating")


@pytest.mark.parametrize(("field", "is_place"), [("task", True), ("operator", True), ("topic", True), ("host", False)])
def test_a_place_is_a_task_an_operator_or_a_topic(field: str, is_place: bool) -> None:
    assert found(finding(KIND, entity={field: "orders"}), place="orders") is is_place


def test_every_condition_that_is_given_must_hold() -> None:
    floor = Series("heap floor", "bytes", [(0, 1.0)])
    one = finding(KIND, series=floor, entity={"topic": "orders"}, summary="full")
    both = {"series": "floor", "place": "orders", "failure": "Odd", "text": "full"}
    assert found(one, **both)
    for name in both:
        assert not found(one, **{**both, name: "another"})
    assert not found(finding("restart_loop"))


def test_an_issue_once_shown_stays_before_others_that_match_now_unless_the_version_rules_it_out() -> None:
    first, second = entry("FLINK-1"), entry("FLINK-2", (Affected(since="1.13", before="1.17.2"),), text="never there")
    issues = IssueCatalogue((first, second))

    def shown(version: str, present: str) -> str:
        issue = find(issues, [finding(KIND)], version, StackTraces(), present)
        return issue.id if issue is not None else ""

    assert (shown("1.17.1", ""), shown("1.17.1", "FLINK-2"), shown("1.17.2", "FLINK-2")) == (
        "FLINK-1",
        "FLINK-2",
        "FLINK-1",
    )


@pytest.mark.parametrize(
    ("version", "affected"),
    [("1.12.9.9", False), ("1.13.0.1", True), ("1.17.1.9-vendor", True), ("1.17.2.0", False), ("1.17.2.1", False)],
)
def test_versions_of_four_numbers_are_those_of_their_first_three(version: str, affected: bool) -> None:
    issues = IssueCatalogue((entry("FLINK-1", (Affected(since="1.13", before="1.17.2"),)),))
    assert (find(issues, [finding(KIND)], version, StackTraces()) is not None) is affected
