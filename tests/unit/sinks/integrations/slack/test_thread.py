"""What goes into a thread, and when: a thread notifies all who follow it."""

from typing import Any

import msgspec
import pytest

from detectors.incident import KnownIssue, Series
from sinks.integrations.slack.settings import SlackConfig
from sinks.integrations.slack.thread import ThreadPlan, plan
from tests.unit.sinks.samples import OPENED_AT, adjustment, late_acks_finding, make_transition, overdue_finding

MINUTE = 60_000
CONFIG = SlackConfig()
SERIES = Series("checkpoint duration", "s", [(OPENED_AT + 1000 * n, float(n)) for n in range(10)])


def posted(**changes: Any) -> ThreadPlan:
    """What follows from the first message."""
    return plan(None, make_transition(**changes), OPENED_AT, CONFIG, edited=False)


def after(before: ThreadPlan, minutes: float, config: SlackConfig = CONFIG, **changes: Any) -> ThreadPlan:
    """What follows from an edit some minutes after the first message."""
    fields = {"seq": 2, "transition": "updated"} | changes
    return plan(before.notified, make_transition(**fields), OPENED_AT + int(minutes * MINUTE), config, edited=True)


def test_a_new_message_has_nothing_in_its_thread() -> None:
    assert not posted(severity="critical").reply


def test_newer_numbers_alone_are_reported_after_ten_minutes_and_then_ever_more_rarely() -> None:
    last, said = posted(), []
    for minute in range(1, 61):
        last = after(last, minute, summary=f"Checkpoint 4711 is {minute} min old.")
        said += [minute] if last.reply else []
    assert said == [10, 20, 40]


@pytest.mark.parametrize(
    "change",
    [
        {"cause": "late_barrier_acks"},
        {"severity": "critical"},
        {"severity": "info"},
        {"transition": "resolved", "ended_at": OPENED_AT + 1},
        {"transition": "stale"},
        {"findings": [overdue_finding(), late_acks_finding()]},
        {"more": 3},
        {"merged": ["77aa88bb99cc"]},
        {"known_issue": KnownIssue("FLINK-1", "", "", "", "", "")},
        {"adjustments": [adjustment()]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_that_matters_is_reported_at_once_and_once(change: dict[str, Any]) -> None:
    first = after(posted(), 0.1, **change)
    assert first.reply
    assert not after(first, 0.2, **change).reply


def test_a_change_in_flink_is_reported_once_and_once_more_when_enough_was_seen_of_it() -> None:
    changed = after(posted(), 1, adjustments=[adjustment()])
    more = after(changed, 2, adjustments=[adjustment(effect="1 of 1 checkpoints completed since")])
    judged = after(more, 3, adjustments=[adjustment(effect="9 of 9 checkpoints completed since", judged=True)])
    assert [changed.reply, more.reply, judged.reply] == [True, False, True]


def test_a_change_after_the_end_is_reported_without_another_chart() -> None:
    ended = after(posted(series=SERIES), 1, transition="resolved", ended_at=1, series=SERIES)
    later = after(ended, 300, transition="resolved", ended_at=1, series=SERIES, adjustments=[adjustment()])
    assert (ended.reply, ended.chart) == (True, True)
    assert (later.reply, later.chart) == (True, False)


def test_an_incident_that_is_known_again_after_silence_is_reported() -> None:
    stale = after(posted(), 1, transition="stale")
    assert after(stale, 2).reply


def test_only_what_becomes_critical_is_shown_in_the_channel_and_only_then() -> None:
    worse = after(posted(), 1, severity="critical")
    assert worse.broadcast
    assert not after(worse, 2, severity="critical", cause="late_barrier_acks").broadcast
    better = after(worse, 3, severity="warning")
    assert not better.broadcast
    assert after(better, 4, severity="critical").broadcast
    assert not after(better, 4, severity="critical", transition="resolved", ended_at=1).broadcast


def test_without_what_was_reported_before_a_change_is_reported_but_not_in_the_channel() -> None:
    """A log of an older version does not say what was reported."""
    found = plan(None, make_transition(severity="critical", seq=2, transition="updated"), 0, CONFIG, edited=True)
    assert found.reply
    assert not found.broadcast


def test_a_setting_turns_threads_off() -> None:
    off = SlackConfig(thread_updates=False)
    found = after(posted(), 1, off, severity="critical", series=SERIES)
    assert not found.reply
    assert not found.broadcast
    assert not found.chart


def test_a_setting_turns_the_broadcast_off_and_not_the_line() -> None:
    found = after(posted(), 1, SlackConfig(broadcast_critical=False), severity="critical")
    assert found.reply
    assert not found.broadcast


def test_a_chart_is_drawn_at_first_then_at_most_every_hour_and_at_the_end() -> None:
    last = posted(series=SERIES)
    drawn = [0] if last.chart else []
    for minute in range(1, 150):
        last = after(last, minute, series=SERIES)
        drawn += [minute] if last.chart else []
    assert drawn == [0, 60, 120]
    assert after(last, 150, series=SERIES, transition="resolved", ended_at=1).chart


def test_without_numbers_or_with_charts_off_nothing_is_drawn() -> None:
    short = Series("n", "s", SERIES.points[:2])
    assert not posted().chart
    assert not posted(series=short).chart
    assert not posted(series=SERIES, part_of="77aa88bb99cc").chart
    assert not after(posted(), 90, SlackConfig(charts=False), series=SERIES).chart


def test_what_was_reported_survives_bytes_and_back() -> None:
    """A restart in between changes nothing: the log has everything that is needed."""
    notified = after(posted(series=SERIES), 1, severity="critical").notified
    assert msgspec.json.decode(msgspec.json.encode(notified), type=type(notified)) == notified
