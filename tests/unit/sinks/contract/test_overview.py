"""The incidents of a period: what counts, what recurs, what an upgrade would have avoided."""

from typing import Any

from detectors.incident import KnownIssue, Recurrence, Silenced, Transition
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry
from sinks.contract.overview import Overview, overview
from tests.unit.sinks.samples import make_transition

HOUR = 3_600_000
SINCE, UNTIL = 100 * HOUR, 112 * HOUR


def change(incident: str, at: int, **fields: Any) -> Transition:
    return make_transition(incident=incident, at=at, **{"opened_at": at} | fields)


def over(*transitions: Transition, issues: tuple[IssueEntry, ...] = ()) -> Overview:
    histories: dict[str, list[Transition]] = {}
    for one in transitions:
        histories.setdefault(one.incident, []).append(one)
    return overview(histories, SINCE, UNTIL, IssueCatalogue(issues))


def resolved(incident: str, opened: int, ended: int, **fields: Any) -> Transition:
    return change(incident, ended, transition="resolved", opened_at=opened, ended_at=ended, **fields)


def issue(name: str, since: str, before: str, certainty: str = "likely") -> IssueEntry:
    return IssueEntry.model_validate(
        {
            "id": name,
            "title": "An issue for a test",
            "signature": [{"kinds": ["restart_loop"]}],
            "affected": [{"since": since, "before": before}],
            "certainty": certainty,
            "fixed_in": before,
            "workaround": "None is known.",
            "link": "https://issues.example/1",
        }
    )


def with_issue(incident: str, name: str) -> Transition:
    return change(incident, SINCE + HOUR, known_issue=KnownIssue(name, "title", "1.20", "workaround", "link", "yes"))


def test_an_incident_counts_as_opened_and_as_resolved_only_within_the_period() -> None:
    found = over(
        resolved("before", SINCE - 2 * HOUR, SINCE - HOUR),
        resolved("ends in it", SINCE - HOUR, SINCE + HOUR),
        resolved("in it", SINCE, UNTIL - HOUR),
        change("after", UNTIL),
    )
    assert (found.opened, found.resolved, found.open) == (1, 2, [])


def test_an_incident_is_as_it_was_at_the_end_of_the_period() -> None:
    found = over(change("a", SINCE + HOUR, severity="warning"), resolved("a", SINCE + HOUR, UNTIL + HOUR))
    assert [(row.incident, row.severity, row.ended) for row in found.open] == [("a", "warning", None)]


def test_the_worst_open_incident_is_first_and_then_the_oldest() -> None:
    found = over(
        change("new", UNTIL - 1, severity="critical"),
        change("old", SINCE - 1, severity="critical"),
        change("mild", SINCE - 2, severity="warning"),
    )
    assert [row.incident for row in found.open] == ["old", "new", "mild"]


def test_a_merged_incident_does_not_count() -> None:
    assert over(resolved("a", SINCE, SINCE + 1, part_of="b")).opened == 0


def test_kinds_and_jobs_are_counted_by_what_opened() -> None:
    found = over(*(change(name, SINCE, cause="restart_loop", cluster="prod", job_name="orders") for name in "abc"))
    assert (found.kinds, found.jobs) == ([("Restart loop", 3)], [("prod/orders", 3)])


def test_a_recurring_incident_is_listed_once_with_its_newest_count() -> None:
    first, second = (
        change(name, SINCE + n, recurrence=Recurrence(n, SINCE, HOUR, False)) for n, name in ((3, "a"), (4, "b"))
    )
    assert [row.recurs[:3] for row in over(second, first).recurring] == ["4th"]


def test_silences_that_end_within_the_next_period_are_listed() -> None:
    soon, later = Silenced("s", UNTIL + HOUR, "ann", "deploy"), Silenced("l", UNTIL + 13 * HOUR, "bob", "backfill")
    found = over(change("a", SINCE, silence=soon), change("b", SINCE, silence=soon), change("c", SINCE, silence=later))
    assert found.silences_ending == [soon]


def test_the_upgrade_is_the_lowest_version_that_avoids_most() -> None:
    issues = issue("FLINK-1", "1.15", "1.18"), issue("FLINK-2", "1.16", "1.20.1"), issue("FLINK-3", "1.13", "1.17")
    found = over(with_issue("a", "FLINK-1"), with_issue("b", "FLINK-1"), with_issue("c", "FLINK-3"), issues=issues)
    assert found.upgrade is not None
    assert (found.upgrade.version, found.upgrade.avoided, found.upgrade.incidents) == ("1.18", 3, 3)


def test_an_issue_that_is_only_possible_or_unknown_avoids_nothing() -> None:
    issues = (issue("FLINK-1", "1.15", "1.18", certainty="possible"),)
    assert over(with_issue("a", "FLINK-1"), with_issue("b", "FLINK-9"), issues=issues).upgrade is None


def test_an_empty_period_is_empty() -> None:
    assert over().opened == 0
