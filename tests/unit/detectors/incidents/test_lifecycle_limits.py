"""What an incident keeps apart: what holds updates back, what keeps it open, and what ends it and when."""

from itertools import pairwise

import pytest

from detectors.incident import SEVERITIES, Finding
from detectors.incidents.lifecycle import close_findings, next_deadline
from detectors.incidents.settings import IncidentConfig
from detectors.incidents.transitions import Incident
from tests.unit.detectors.incidents.test_lifecycle import CONFIG, MINUTE, Timeline, finding
from tests.unit.detectors.incidents.test_lifecycle_changes import FAILING, LATE_ACKS, OVERDUE, closed, reasons

LOST = "taskmanager_lost"


def flapping(times: int, kind: str = FAILING) -> tuple[Timeline, int]:
    """An open incident in which another kind of finding has begun and ended so often; the time after it."""
    timeline, at = Timeline().report(finding()), 0
    for _ in range(times):
        timeline.report(finding(kind, at=at + 1), closed(at + 2, kind))
        at += 2
    return timeline, at


def test_after_fifty_transitions_news_waits_for_the_next_update_and_the_last_reason_is_given() -> None:
    timeline, at = flapping(30)
    assert [t.seq for t in timeline.transitions] == list(range(1, 51))
    assert timeline.transitions[-1].at == 49
    timeline.tick(49 + MINUTE - 1).tick(49 + MINUTE)
    assert reasons(timeline)[50:] == [("updated", 49 + MINUTE, "checkpoint_failing resolved: j is well")]
    assert at == 60


def test_a_worse_severity_is_news_until_there_are_five_hundred_transitions() -> None:
    """Each rise from warning to critical is reported at once; each fall waits, as everything does by then."""
    timeline, at = flapping(30)
    for n in range(10):
        timeline.report(finding(at=at + n, severity=SEVERITIES[2 - n % 2]))
    assert [r[2] for r in reasons(timeline)[50:]] == ["severity is now critical"] * 5
    for n in range(10, 1_200):
        timeline.report(finding(at=at + n, severity=SEVERITIES[2 - n % 2]))
    assert len(timeline.transitions) == 500


def test_an_end_that_leaves_the_severity_as_it_was_waits_after_fifty_transitions_and_a_merger_never_does() -> None:
    timeline, at = flapping(30)
    timeline.report(finding(subject="k", at=at, entity={"job_id": "k"}))
    timeline.report(finding("jobmanager_lost", "jm", at + 1, entity={}))
    assert [t.transition for t in timeline.transitions[50:]] == ["opened", "updated", "resolved"]


def test_the_intervals_of_updates_double_up_to_the_longest_also_where_they_begin_at_a_second() -> None:
    config = IncidentConfig.model_validate({"update_every": "1s", "max_update_interval": "1h", "stale_after": "1d"})
    due = []
    for repeats in (0, 1, 11, 12, 1_000):
        incident = Incident("i", 0, [finding()], seq=1, changed="x", repeats=repeats)
        due.append(next_deadline([incident], 0, config))
    assert due == [1_000, 2_000, 2_048_000, 3_600_000, 3_600_000]


def test_an_incident_that_was_not_reported_has_no_deadline_and_hides_none() -> None:
    unreported, config = Incident("", 0, [finding("clock_skew", severity="info")]), CONFIG
    opened = Incident("i", 0, [finding()], seq=1)
    assert next_deadline([unreported], 5, config) is None
    assert next_deadline([unreported, opened], 5, config) == 5 + config.stale_after
    timeline = Timeline()
    timeline.incidents = [unreported, opened]
    timeline.tick(config.stale_after, 0)
    assert [t.transition for t in timeline.transitions] == ["stale"]


def test_a_resolved_incident_is_continued_up_to_the_end_of_its_time_and_forgotten_then() -> None:
    timeline = Timeline().report(finding(), closed(5)).tick(5 + MINUTE)
    end = 5 + MINUTE + CONFIG.reopen_within
    timeline.tick(5 + MINUTE + 1_000).tick(end - 1)
    assert len(timeline.incidents) == 1
    timeline.tick(end)
    assert timeline.incidents == []


def test_an_end_stays_when_it_was_whatever_comes_after_it() -> None:
    timeline = Timeline().report(finding(), closed(5))
    assert close_findings(timeline.incidents, lambda *_: False, 50, timeline.context) == []
    timeline.report(finding(FAILING, at=60, severity="info"), closed(61, FAILING, severity="info"))
    timeline.tick(5 + MINUTE)
    assert [(t.transition, t.at, t.ended_at) for t in timeline.transitions[1:]] == [("resolved", 5 + MINUTE, 5)]
    # Nor does it begin again with what is known only later.
    timeline.report(finding(FAILING, at=6 + MINUTE, severity="info")).tick(7 + MINUTE)
    assert len(timeline.transitions) == 2


def test_a_kind_is_news_where_another_one_is_open_or_its_own_has_closed_and_not_where_it_is_open() -> None:
    lost = [finding(LOST, subject, n, entity={}) for n, subject in enumerate("abc")]
    timeline = Timeline().report(lost[0], finding(FAILING, at=1), finding(LOST, "b", 2, entity={}))
    assert [r[2] for r in reasons(timeline)] == ["", "new finding: checkpoint_failing"]
    timeline = Timeline().report(lost[0], finding(FAILING, at=1), closed(2, FAILING))
    timeline.report(finding(FAILING, "k", 3, entity={"job_id": "k"}))
    assert reasons(timeline)[-1] == ("updated", 3, "new finding: checkpoint_failing")


def test_a_finding_of_a_stale_incident_makes_it_known_again_and_a_second_silence_is_reported_too() -> None:
    timeline = Timeline().report(finding()).tick(15 * MINUTE, 0).report(finding(at=16 * MINUTE))
    timeline.tick(17 * MINUTE, 16 * MINUTE + 1)
    assert [t.transition for t in timeline.transitions] == ["opened", "stale", "updated"]
    timeline.tick(31 * MINUTE, 16 * MINUTE)
    assert [t.transition for t in timeline.transitions] == ["opened", "stale", "updated", "stale"]


def test_of_several_ends_the_last_one_is_given() -> None:
    timeline = Timeline().report(finding(LOST, "a", entity={}), finding(LOST, "b", 1, entity={}))
    timeline.report(closed(5, LOST, "b"), closed(9, LOST, "a")).tick(9 + MINUTE)
    assert reasons(timeline)[-1] == ("resolved", 9 + MINUTE, "a is well")
    timeline = Timeline().report(finding(), finding(at=7, severity="info")).tick(7 + MINUTE)
    assert reasons(timeline)[-1] == ("resolved", 7 + MINUTE, "checkpoint_overdue dropped to severity info")


def test_five_hundred_findings_beyond_the_kept_ones_are_counted() -> None:
    timeline = Timeline().report(*(finding(LOST, f"tm-{n:03}", n, entity={}) for n in range(600)))
    timeline.tick(10 * MINUTE)
    last = timeline.transitions[-1]
    assert (len(last.findings), last.more) == (20, 500)


@pytest.mark.parametrize("spare", [finding("clock_skew", "x", severity="info"), None])
def test_a_new_incident_takes_the_place_of_one_that_no_one_waits_for_before_findings_are_put_together(
    spare: Finding | None,
) -> None:
    timeline = Timeline()
    if spare is not None:
        timeline.report(spare)
    else:
        timeline.report(finding(subject="old", entity={"job_id": "old"}))
        timeline.report(closed(1, subject="old", entity={"job_id": "old"})).tick(1 + MINUTE)
    timeline.report(*(finding(subject=f"j{n}", at=2 * MINUTE + n, entity={"job_id": f"j{n}"}) for n in range(99)))
    assert len(timeline.incidents) == 100
    timeline.report(finding(subject="new", at=3 * MINUTE, entity={"job_id": "new"}))
    assert reasons(timeline)[-1] == ("opened", 3 * MINUTE, "")
    assert len(timeline.incidents) == 100


def test_an_incident_is_resolved_once_and_its_numbers_have_no_gap() -> None:
    timeline = Timeline().report(finding(), finding(LATE_ACKS, at=1), closed(5, LATE_ACKS), closed(6, OVERDUE))
    for at in range(6, 5 * MINUTE, 1_000):
        timeline.tick(at)
    assert [b.seq - a.seq for a, b in pairwise(timeline.transitions)] == [1] * (len(timeline.transitions) - 1)
    assert [t.transition for t in timeline.transitions].count("resolved") == 1


def test_a_finding_that_comes_again_continues_its_own_incident_before_one_that_ended_later() -> None:
    lost = "jobmanager_lost"
    timeline = Timeline().report(finding(lost, "jm", 20 * MINUTE, entity={}), closed(20 * MINUTE + 1, lost, "jm"))
    timeline.tick(21 * MINUTE + 1)
    timeline.report(finding(at=22 * MINUTE, since=0), closed(22 * MINUTE + 1)).tick(23 * MINUTE + 1)
    own, other = (i.id for i in timeline.incidents)
    timeline.report(finding(lost, "jm", 24 * MINUTE, since=10 * MINUTE, entity={}))
    assert own != other
    assert (timeline.transitions[-1].incident, timeline.transitions[-1].reason) == (own, "jobmanager_lost recurred")


def test_the_incident_that_was_opened_first_survives_a_merger_whatever_has_been_reported_of_the_others() -> None:
    timeline = Timeline().report(
        finding(subject="a", at=1, entity={"job_id": "a"}),
        finding(subject="b", at=2, entity={"job_id": "b"}),
        finding(subject="b", at=3, severity="critical", entity={"job_id": "b"}),
    )
    first, second = (t.incident for t in timeline.transitions[:2])
    timeline.report(finding("jobmanager_lost", "jm", 4, entity={}))
    assert [(t.incident, t.part_of) for t in timeline.transitions[3:]] == [(first, ""), (second, first)]
