"""The timeline: what happened when, and what was known when."""

from itertools import pairwise

from sinks.contract.feedback import Mark, Marks
from sinks.web.page_context import SentNotification
from sinks.web.timeline import timeline
from tests.unit.sinks.samples import OPENED_AT, adjustment, make_transition, overdue_finding
from tests.unit.sinks.web.page_samples import chain, many

SENT = SentNotification("slack", OPENED_AT + 2_000, 1, "sent")


def test_symptoms_reports_and_notifications_are_one_list_in_order_of_time() -> None:
    rows = [(row.clock, row.what, row.words) for row in timeline(chain(), [SENT])]
    assert rows == [
        ("14:01:24", "symptom", "Checkpoint overdue began"),
        ("14:01:28", "symptom", "Late barrier acks on container_e21_1772_0001_01_000007 began"),
        ("14:03:00", "report", "Opened as Checkpoint overdue"),
        ("14:03:02", "notification", "slack notified of change 1"),
        ("14:04:00", "report", "The cause is now known to be late barrier acks"),
        ("14:04:30", "symptom", "Checkpoint overdue ended"),
        ("14:05:00", "report", "Resolved: checkpoint 4713 completed in 9.8 s"),
    ]


def test_a_symptom_names_the_time_at_which_it_was_known() -> None:
    details = {row.words: row.detail for row in timeline(chain())}
    assert details["Checkpoint overdue began"] == "known 96 s later, at 14:03:00"


def test_a_change_in_flink_has_a_row_at_its_own_time() -> None:
    found = [make_transition(), make_transition(seq=2, at=OPENED_AT + 900_000, adjustments=[adjustment(effect="x")])]
    rows = [(row.clock, row.what, row.words, row.detail) for row in timeline(found)]
    what = "Changed in Flink: execution.checkpointing.timeout 10 min → 20 min"
    assert ("14:13:00", "adjustment", what, "x") in rows


def test_what_people_have_answered_has_a_row_with_their_name() -> None:
    marks = Marks(acknowledged=Mark("ann", OPENED_AT + 60_000), not_an_incident=Mark("bob", OPENED_AT + 120_000))
    rows = [(row.clock, row.words) for row in timeline([make_transition()], marks=marks) if row.what == "answer"]
    assert rows == [("14:04:00", "Acknowledged by ann"), ("14:05:00", "Marked as not an incident by bob")]


def test_an_end_that_a_change_reports_is_not_repeated() -> None:
    closed = overdue_finding(closed_at=OPENED_AT + 60_000, closed_because="it completed")
    end = make_transition(seq=2, transition="resolved", at=OPENED_AT + 60_000, reason="it completed", findings=[closed])
    assert [row.words for row in timeline([make_transition(), end])][-1] == "Resolved: it completed"


def test_a_merged_incident_names_the_other() -> None:
    end = make_transition(seq=2, transition="resolved", part_of="123456abcdef", reason="merged")
    assert timeline([make_transition(), end])[-1].words == "Merged into incident 123456abcdef"


def test_new_numbers_are_marked_as_such() -> None:
    update = make_transition(seq=2, transition="updated", reason="new numbers of checkpoint_overdue")
    marked = [row.step.only_numbers for row in timeline([make_transition(), update]) if row.step]
    assert marked == [False, True]


def test_a_step_lists_the_cause_first_and_counts_what_it_leaves_out() -> None:
    step = timeline(many(1))[-1].step
    assert step is not None
    assert step.findings[0].summary == step.transition.summary
    assert len(step.findings) + step.more == len(step.transition.findings) + step.transition.more


def test_rows_are_in_order_whatever_their_kind() -> None:
    rows = timeline(many(30), [SENT])
    assert all(a.at <= b.at for a, b in pairwise(rows))
