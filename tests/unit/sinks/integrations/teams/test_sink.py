"""Teams through the whole of delivery: one message that is edited, threads, storms, lost answers, and workflows."""

from collections.abc import Iterator
from typing import Any

import pytest

from detectors.incident import Silenced
from sinks.contract.outcome import Refused
from sinks.contract.sink import Notification
from sinks.integrations.teams.settings import TeamsConfig
from sinks.integrations.teams.sink import TeamsBotSink, TeamsWorkflowSink
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from tests.fake_teams.cards import card_of, texts
from tests.fake_teams.server import CONVERSATION, SECRET, SIGNATURE, TeamsServer
from tests.unit.sinks.delivery.test_bootstrap import Receivers
from tests.unit.sinks.memory_kafka import MemoryKafka
from tests.unit.sinks.samples import OPENED_AT, make_transition

ONCALL = "19:oncall@thread.tacv2"
SILENCE = Silenced("a1", OPENED_AT + 3_600_000, "ann", "backfill")
OPENED = make_transition()
CRITICAL = make_transition(seq=2, transition="updated", severity="critical", reason="it grows")
NUMBERS = make_transition(seq=3, transition="updated", severity="critical", reason="97 s", summary="97 s old")
RESOLVED = make_transition(seq=4, transition="resolved", reason="done", ended_at=OPENED_AT + 1000)


@pytest.fixture
def teams(monkeypatch: pytest.MonkeyPatch) -> Iterator[TeamsServer]:
    with TeamsServer() as server:
        monkeypatch.setenv("TEAMS_CLIENT_SECRET", SECRET)
        monkeypatch.setenv("TEAMS_WORKFLOW_URL", server.workflow_url)
        yield server


def world_of(teams: TeamsServer, routing: dict[str, Any] | None = None, **changes: Any) -> Receivers:
    sinks = {"teams": teams.settings | changes, "routing": routing or {}}
    return Receivers(MemoryKafka(), Sinks.model_validate(sinks), OPENED_AT / 1000)


def say(world: Receivers, *transitions: Any) -> None:
    """One after another, each delivered before the next."""
    for one in transitions:
        world.say(one)
        world.settle(1)
        world.settle(10)


def heads(found: Any) -> list[str]:
    return [texts(card_of(one))[0] for one in found]


class TestBot:
    def test_an_incident_is_one_message_that_is_edited_with_lines_in_its_thread(self, teams: TeamsServer) -> None:
        say(world_of(teams), OPENED, CRITICAL, NUMBERS, RESOLVED)
        assert teams.methods() == ["post", "edit", "reply", "edit", "edit", "reply"]
        ((name, message),) = teams.messages.items()
        assert heads([message]) == ["✅ Resolved after 97 s: Checkpoint overdue · orders-enrichment"]
        assert message["summary"].startswith("✅ Resolved after 97 s")
        assert [one["text"] for one in teams.replies[name]] == [
            "🔴 Critical at 14:03:00 UTC: it grows",
            "✅ Resolved after 97 s at 14:03:00 UTC: done",
        ]

    def test_threads_can_be_turned_off(self, teams: TeamsServer) -> None:
        say(world_of(teams, thread_updates=False), OPENED, CRITICAL, RESOLVED)
        assert teams.methods() == ["post", "edit", "edit"]

    def test_the_end_of_a_silence_is_a_line_and_its_beginning_is_none(self, teams: TeamsServer) -> None:
        silenced = make_transition(seq=2, transition="updated", silence=SILENCE, reason="silenced")
        ended = make_transition(seq=3, transition="updated", silenced_before=SILENCE)
        say(world_of(teams), OPENED, silenced, ended)
        ((line,),) = teams.replies.values()
        assert "The silence by ann ended" in line["text"]

    @pytest.mark.parametrize("deleted", [True, False])
    def test_a_message_that_is_gone_is_replaced_by_one_that_says_so(self, teams: TeamsServer, deleted: bool) -> None:
        world = world_of(teams)
        say(world, OPENED)
        (name,) = teams.messages
        if deleted:
            teams.delete(name)
        else:
            del teams.messages[name]
        say(world, RESOLVED)
        (message,) = teams.messages.values()
        assert "this one takes its place" in texts(card_of(message))[1]

    def test_a_lost_answer_doubles_one_message_at_most(self, teams: TeamsServer) -> None:
        teams.fail_next("post", 0)
        say(world_of(teams), OPENED, RESOLVED)
        assert teams.methods() == ["post", "post", "edit", "reply"]
        assert len(teams.messages) == 2

    def test_a_pause_that_teams_asks_for_is_kept(self, teams: TeamsServer) -> None:
        teams.fail_next("post", 429, "Throttled", {"Retry-After": "60"})
        world = world_of(teams)
        say(world, OPENED)
        assert teams.methods() == ["post"]
        world.settle(50)
        assert teams.methods() == ["post", "post"]

    def test_a_card_that_is_refused_is_sent_as_text(self, teams: TeamsServer) -> None:
        teams.fail_next("post", 413, "MessageSizeTooBig")
        say(world_of(teams), OPENED)
        (message,) = teams.messages.values()
        assert message["textFormat"] == "plain"
        assert message["text"].startswith("🟠 Warning: Checkpoint overdue")

    def test_a_storm_is_a_digest(self, teams: TeamsServer) -> None:
        world = world_of(teams, digest_above=3)
        world.say(*(make_transition(incident=f"i{number}") for number in range(40)))
        for _ in range(12):
            world.settle(5)
        found = heads(teams.messages.values())
        assert sum(head.startswith("🌊 Storm of 37 incidents") for head in found) == 1
        assert len(found) == 4

    def test_routes_and_quiet_hours_hold_for_each_conversation(self, teams: TeamsServer) -> None:
        teams.conversations.add(ONCALL)
        quiet = {"begin": "14:00", "end": "15:00", "below": "critical", "to": ["teams"]}
        routing = {"routes": [{"to": ["teams", f"teams:{ONCALL}"]}], "quiet_hours": [quiet]}
        world = world_of(teams, routing)
        say(world, OPENED)
        assert teams.methods() == ["post"]
        world.settle(3_600)
        assert teams.methods() == ["post", "post"]

    def test_a_wrong_conversation_is_reported_as_the_set_up(self, teams: TeamsServer) -> None:
        config = TeamsConfig.model_validate(teams.settings | {"conversation": "19:other@thread.tacv2"})
        (receiver,) = make_receivers(Sinks(teams=config))
        assert isinstance(receiver.sink, TeamsBotSink)
        outcome = receiver.sink.send(Notification(transition=OPENED))
        assert isinstance(outcome, Refused)
        assert (outcome.code, outcome.because) == ("ConversationNotFound", "setup")
        assert CONVERSATION not in outcome.reason


class TestWorkflow:
    def test_each_change_that_matters_is_a_message(self, teams: TeamsServer) -> None:
        say(world_of(teams, mode="workflow"), OPENED, CRITICAL, NUMBERS, RESOLVED)
        assert [head[:10] for head in heads(teams.workflow)] == ["🟠 Warning:", "🔴 Critical", "✅ Resolved"]
        assert all(set(one) == {"type", "attachments"} for one in teams.workflow)

    def test_newer_numbers_are_posted_after_a_pause(self, teams: TeamsServer) -> None:
        world = world_of(teams, mode="workflow")
        say(world, OPENED, CRITICAL)
        world.settle(600)
        say(world, NUMBERS)
        assert len(teams.workflow) == 3

    def test_newer_numbers_do_not_delay_what_matters(self, teams: TeamsServer) -> None:
        world = world_of(teams, mode="workflow", posts_per_minute=1)
        say(world, OPENED)
        world.settle(60)
        world.say(*(make_transition(seq=number, transition="updated", summary=f"{number}") for number in range(2, 40)))
        world.settle()
        world.say(make_transition(seq=40, transition="resolved", ended_at=OPENED_AT + 1000))
        world.settle()
        assert heads(teams.workflow)[1].startswith("✅ Resolved")

    def test_a_silenced_change_is_not_posted_and_its_end_is(self, teams: TeamsServer) -> None:
        world = world_of(teams, mode="workflow")
        say(world, OPENED, make_transition(seq=2, transition="updated", silence=SILENCE, severity="critical"))
        assert len(teams.workflow) == 1
        say(world, make_transition(seq=3, transition="resolved", silence=SILENCE, ended_at=OPENED_AT))
        assert len(teams.workflow) == 2

    def test_a_refused_card_is_sent_once_more_as_a_plain_card(self, teams: TeamsServer) -> None:
        teams.fail_next("workflow", 400, "InvalidTemplate")
        say(world_of(teams, mode="workflow"), OPENED)
        (message,) = teams.workflow
        assert texts(card_of(message))[0].startswith("🟠 Warning: Checkpoint overdue")

    @pytest.mark.parametrize(
        ("status", "headers"), [(401, {}), (404, {}), (302, {"Location": f"https://x.example/?sig={SIGNATURE}"})]
    )
    def test_a_refusal_never_shows_the_address(self, teams: TeamsServer, status: int, headers: Any) -> None:
        teams.fail_next("workflow", status, f"bad sig={SIGNATURE}", headers)
        sink = TeamsWorkflowSink(TeamsConfig(enabled=True, mode="workflow"))
        outcome = sink.send(Notification(transition=OPENED))
        assert isinstance(outcome, Refused)
        assert outcome.because == "setup"
        assert SIGNATURE not in repr(outcome)
