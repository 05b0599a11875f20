"""Messages show what people answered, through the ordinary delivery policy, once, and also after a restart."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from detectors.incident import Silenced
from sinks.contract.feedback import Feedback, FeedbackState
from sinks.integrations.slack.actions.settings import SlackActionsConfig
from tests.fake_slack.objects import buttons
from tests.fake_slack.server import TOKEN, Call, SlackServer
from tests.unit.sinks.delivery.test_delivery import OPENED, RESOLVED, UPDATED, World, metric
from tests.unit.sinks.samples import OPENED_AT, make_transition

CRITICAL = make_transition(severity="critical")
MINUTE_S = 60.0


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


def new_world(slack: SlackServer, **actions: Any) -> World:
    config = SlackActionsConfig(enabled=True, allowed=("*",), **actions)
    made = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), actions=config)
    made.board.feedback.finish_start()
    return made


@pytest.fixture
def world(slack: SlackServer) -> World:
    return new_world(slack)


def acknowledgement(**changes: Any) -> Feedback:
    fields: dict[str, Any] = {"incident": OPENED.incident, "answer": "acknowledged", "person": "ann", "user": "U0ANN"}
    return Feedback(**fields | {"at": OPENED_AT} | changes)


def shown(slack: SlackServer) -> str:
    (parent,) = slack.parents()
    return str(parent.blocks)


def wishes(slack: SlackServer) -> list[str]:
    (parent,) = slack.parents()
    return [element["action_id"].removeprefix("flinkwatch_") for element in buttons(parent.blocks)]


def test_without_the_setting_no_message_has_a_button_and_an_answer_changes_nothing(slack: SlackServer) -> None:
    world = World(slack)
    world.board.feedback.finish_start()
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement())
    world.settle(60)
    assert wishes(slack) == []
    assert world.methods() == ["chat.postMessage"]


def test_an_acknowledgement_shows_in_the_message_without_a_line_in_the_thread(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement())
    world.settle(3600)
    assert "Acknowledged by ann at 14:03:00 UTC" in shown(world.slack)
    assert wishes(world.slack) == ["silence", "not_an_incident"]
    assert world.methods() == ["chat.postMessage", "chat.update"]


def test_an_acknowledgement_that_came_while_the_deliverer_was_away_is_shown_after_its_start(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement())
    world.start()
    world.settle()
    assert "Acknowledged by ann" in shown(world.slack)
    world.start()
    world.settle()
    assert world.methods() == ["chat.postMessage", "chat.update"]


def test_a_crash_between_the_edit_and_the_log_loses_no_acknowledgement(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement())
    world.slack.on_call = lambda _: setattr(world.kafka, "refuse_writes", True)
    world.settle()
    world.slack.on_call = None
    world.kafka.refuse_writes = False
    world.start()
    world.settle()
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.marks.acknowledged is not None
    assert entry.state == "sent"
    assert "Acknowledged by ann" in shown(world.slack)


def test_a_message_keeps_its_acknowledgement_while_the_topic_has_not_been_read_after_a_start(world: World) -> None:
    world.say(OPENED)
    world.board.feedback.add(acknowledgement())
    world.settle()
    world.board.feedback = FeedbackState()
    world.start()
    world.say(UPDATED)
    world.settle()
    assert "Acknowledged by ann" in shown(world.slack)


def test_an_answer_that_is_withdrawn_vanishes_from_the_message(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement(answer="not_an_incident"))
    world.settle()
    assert wishes(world.slack) == ["acknowledge", "silence", "withdraw"]
    world.board.feedback.add(acknowledgement(answer="not_an_incident", withdrawn=True))
    world.settle()
    assert "Marked as not" not in shown(world.slack)


def test_an_answer_that_comes_while_its_message_is_sent_is_shown_afterwards(world: World) -> None:
    def answer(call: Call) -> None:
        world.slack.on_call = None
        world.board.feedback.add(acknowledgement())

    world.slack.on_call = answer
    world.say(OPENED)
    world.settle()
    world.settle(1)
    assert "Acknowledged by ann" in shown(world.slack)


def test_a_message_whose_answer_was_lost_shows_what_was_answered_meanwhile(world: World) -> None:
    world.slack.fail_next("chat.postMessage", reset=True, accept=True)
    world.say(OPENED)
    world.settle()
    world.board.feedback.add(acknowledgement())
    world.settle(60)
    world.settle(60)
    assert "Acknowledged by ann" in shown(world.slack)


def test_a_resolved_incident_has_no_buttons_and_still_shows_who_acknowledged_it(world: World) -> None:
    world.say(OPENED)
    world.board.feedback.add(acknowledgement())
    world.settle()
    world.say(RESOLVED)
    world.settle()
    assert wishes(world.slack) == []
    assert "Acknowledged by ann" in shown(world.slack)


def test_metrics_show_who_has_acknowledged_an_open_incident_and_when(world: World) -> None:
    labels = {"incident": OPENED.incident, "cluster": OPENED.cluster, "person": "ann"}
    name = "flinkwatch_incident_acknowledged_timestamp_seconds"
    world.board.show_incident(OPENED.incident, OPENED)
    world.board.feedback.add(acknowledgement())
    assert metric(world.board, name, **labels) == OPENED_AT / 1000
    world.board.show_incident(OPENED.incident, RESOLVED)
    assert metric(world.board, name, **labels) is None


class TestReminder:
    @pytest.fixture
    def world(self, slack: SlackServer) -> World:
        return new_world(slack, remind_after="15m", mention=("S0ONCALL1", "U0BOSS01"))

    def reminders(self, world: World) -> list[str]:
        (parent,) = world.slack.parents()
        return [one.text for one in world.slack.replies(parent.ts) if one.broadcast]

    def test_a_critical_incident_that_no_one_acknowledges_gets_one_reminder_with_its_mentions(
        self, world: World
    ) -> None:
        world.say(CRITICAL)
        world.settle()
        world.settle(14 * MINUTE_S)
        assert self.reminders(world) == []
        world.settle(2 * MINUTE_S)
        (reminder,) = self.reminders(world)
        assert reminder.startswith("<!subteam^S0ONCALL1> <@U0BOSS01> Not acknowledged for 15 min:")
        world.settle(60 * MINUTE_S)
        assert len(self.reminders(world)) == 1

    def test_a_restart_repeats_no_reminder(self, world: World) -> None:
        world.say(CRITICAL)
        world.settle()
        world.settle(16 * MINUTE_S)
        world.start()
        world.settle(60 * MINUTE_S)
        assert len(self.reminders(world)) == 1

    def test_a_crash_between_the_log_and_the_reminder_repeats_none(self, world: World) -> None:
        world.say(CRITICAL)
        world.settle()
        world.slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.settle(16 * MINUTE_S)
        world.start()
        world.settle(60 * MINUTE_S)
        assert len(self.reminders(world)) == 1

    def test_an_acknowledgement_stops_it(self, world: World) -> None:
        world.say(CRITICAL)
        world.settle()
        world.board.feedback.add(acknowledgement())
        world.settle(60 * MINUTE_S)
        assert self.reminders(world) == []

    def test_a_warning_a_silenced_and_a_resolved_incident_get_none(self, world: World) -> None:
        silence = Silenced("s", OPENED_AT * 2, "ann", "x")
        world.say(OPENED)
        world.settle()
        world.say(make_transition(seq=2, transition="updated", severity="critical", silence=silence))
        world.settle(16 * MINUTE_S)
        world.settle(16 * MINUTE_S)
        world.say(RESOLVED)
        world.settle(16 * MINUTE_S)
        assert self.reminders(world) == []

    def test_the_time_counts_from_when_it_became_critical(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.settle(60 * MINUTE_S)
        world.say(make_transition(seq=2, transition="updated", severity="critical", reason="worse"))
        world.settle()
        before = self.reminders(world)
        world.settle(14 * MINUTE_S)
        assert self.reminders(world) == before
        world.settle(2 * MINUTE_S)
        assert len(self.reminders(world)) == len(before) + 1
