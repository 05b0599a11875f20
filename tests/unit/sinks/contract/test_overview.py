"""The incidents of a period: what counts, what recurs, what an upgrade would have avoided."""

from typing import Any

from detectors.incident import KnownIssue, Recurrence, Silenced, Transition
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry
from sinks.contract.feedback import Answer, Feedback
from sinks.contract.overview import Overview, Period, overview
from tests.unit.sinks.samples import make_transition

HOUR = 3_600_000
SINCE, UNTIL = 100 * HOUR, 112 * HOUR


def change(incident: str, at: int, **fields: Any) -> Transition:
    return make_transition(incident=incident, at=at, **{"opened_at": at} | fields)


def over(*records: Transition | Feedback, issues: tuple[IssueEntry, ...] = (), cluster: str = "") -> Overview:
    period = Period(SINCE, UNTIL, cluster)
    for one in records:
        if isinstance(one, Feedback):
            period.add_feedback(one)
        else:
            period.add(one)
    return overview(period, IssueCatalogue(issues))


def answer(incident: str, given: Answer, at: int, **more: Any) -> Feedback:
    return Feedback(incident=incident, answer=given, person="ann", user="U0ANN", at=at, **more)


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


def test_an_overview_lists_the_worst_of_many_open_incidents_and_counts_all() -> None:
    found = over(*(change(str(n), SINCE, severity="critical" if n == 700 else "info") for n in range(1000)))
    assert (found.still_open, len(found.open), found.open[0].incident) == (1000, 500, "700")


def test_an_empty_period_is_empty() -> None:
    assert over().is_empty
    assert not over(change("a", SINCE - 1)).is_empty


def test_incidents_that_opened_in_the_period_count_as_acknowledged_with_their_median_time() -> None:
    found = over(
        *(change(name, SINCE) for name in "abcd"),
        change("before", SINCE - HOUR),
        *(answer(name, "acknowledged", SINCE + n * HOUR) for n, name in ((1, "a"), (2, "b"), (9, "c"), (1, "before"))),
    )
    assert (found.feedback.acknowledged, found.feedback.median_ms) == (3, 2 * HOUR)


def test_an_acknowledgement_after_the_period_or_withdrawn_does_not_count() -> None:
    withdrawn = answer("b", "acknowledged", SINCE + HOUR, withdrawn=True)
    answers = answer("a", "acknowledged", UNTIL), answer("b", "acknowledged", SINCE + 1), withdrawn
    found = over(change("a", SINCE), change("b", SINCE), *answers).feedback
    assert (found.acknowledged, found.median_ms) == (0, None)


def test_labels_are_counted_by_kind_also_of_incidents_that_opened_before() -> None:
    given = [answer(name, "not_an_incident", SINCE + 1, kind="restart_loop") for name in "ab"]
    too_early = answer("c", "not_an_incident", SINCE - 1, kind="restart_loop")
    assert over(*given, too_early).feedback.not_an_incident == [("Restart loop", 2)]


def test_one_cluster_has_its_own_incidents_and_feedback_only() -> None:
    labels = [answer(name, "not_an_incident", SINCE + 1, kind="job_failed", cluster=name) for name in ("prod", "test")]
    found = over(*(change(name, SINCE, cluster=name) for name in ("prod", "test")), *labels, cluster="prod")
    assert (found.opened, found.feedback.not_an_incident) == (1, [("Job failed", 1)])


def test_an_incident_whose_record_was_deleted_does_not_count() -> None:
    period = Period(SINCE, UNTIL)
    period.add(change("a", SINCE))
    period.remove("a")
    assert overview(period, IssueCatalogue()).is_empty


def test_a_period_keeps_nothing_of_incidents_that_ended_before_it_and_little_of_the_others() -> None:
    period = Period(SINCE, UNTIL)
    period.add(change("ended", SINCE - 2 * HOUR))
    period.add(resolved("ended", SINCE - 2 * HOUR, SINCE - HOUR))
    period.add(change("long", SINCE, summary="x" * 100_000))
    (kept,) = period.incidents()
    assert (kept.findings, kept.evidence, kept.series, len(kept.summary)) == ([], [], None, 500)
