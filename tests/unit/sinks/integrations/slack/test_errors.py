"""Every way in which Slack or the network can fail, and what delivery does about it: the whole loop with Kafka in
memory and a clock that is set by hand, against the stand-in.

Never lost; at most one message doubled, and that only when the answer was lost and Slack does not let us look.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_delivery import World
from tests.unit.sinks.samples import make_transition

OPENED = make_transition()
OTHER = make_transition(incident="0ther0ther00")
WORSE = make_transition(seq=2, transition="updated", severity="critical", reason="it grows")
RESOLVED = make_transition(seq=3, transition="resolved", reason="done", ended_at=OPENED.at + 1000)


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "other")) as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    # Slack's stand-in counts real seconds: what it says is newer than what the log does.
    return World(slack, now=1.0, channel=slack.channel_id("flink-alerts"))


def posted(world: World) -> list[tuple[str, int]]:
    """Incident and number of each message in the channel."""
    payloads = [message.metadata["event_payload"] for message in world.slack.parents()]
    return [(payload["incident"], payload["seq"]) for payload in payloads]


def notify(world: World, *transitions: Any) -> None:
    """The job says something, and delivery does what it can at once."""
    world.say(*transitions)
    world.settle()


# 429


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "1"}, 1),
        ({"Retry-After": "30"}, 30),
        ({"Retry-After": "300"}, 300),
        ({}, 30),
        ({"Retry-After": "soon"}, 30),
    ],
    ids=["1", "30", "300", "missing", "not a number"],
)
def test_after_429_slack_is_not_called_before_retry_after_and_nothing_is_lost(
    world: World, headers: dict[str, str], seconds: int
) -> None:
    world.slack.fail_next("chat.postMessage", status=429, headers=headers, error="ratelimited")
    notify(world, OPENED, OTHER)
    for _ in range(9):
        world.settle(seconds / 10)
    assert world.methods() == ["chat.postMessage"]
    world.settle(seconds / 10 + 1)
    world.settle(2)
    assert sorted(posted(world)) == sorted([(OPENED.incident, 1), (OTHER.incident, 1)])
    assert len(world.slack.calls) == 3


def test_ratelimited_posts_do_not_hold_edits(world: World) -> None:
    notify(world, OPENED)
    world.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "300"}, error="ratelimited")
    notify(world, OTHER)
    notify(world, RESOLVED)
    assert world.methods() == ["chat.postMessage", "chat.postMessage", "chat.update"]
    assert posted(world) == [(OPENED.incident, 3)]


def test_ratelimited_edits_do_not_hold_posts(world: World) -> None:
    notify(world, OPENED)
    world.slack.fail_next("chat.update", status=429, headers={"Retry-After": "300"}, error="ratelimited")
    notify(world, RESOLVED)
    notify(world, OTHER)
    assert sorted(posted(world)) == sorted([(OPENED.incident, 1), (OTHER.incident, 1)])
    world.settle(301)
    assert (OPENED.incident, 3) in posted(world)


def test_ratelimited_without_a_429_waits_as_well(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="ratelimited")
    notify(world, OPENED)
    world.settle(29)
    assert len(world.slack.calls) == 1
    world.settle(2)
    assert posted(world) == [(OPENED.incident, 1)]


def test_a_line_that_was_ratelimited_is_reported_in_the_thread_later(world: World) -> None:
    notify(world, OPENED)
    world.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "30"}, error="ratelimited")
    notify(world, WORSE)
    (parent,) = world.slack.parents()
    assert world.slack.replies(parent.ts) == []
    world.settle(31)
    (line,) = world.slack.replies(parent.ts)
    assert line.broadcast
    assert "Critical" in line.text


# Slack or the network fails

NOT_ACCEPTED: dict[str, dict[str, Any]] = {
    "500": {"status": 500},
    "reset": {"reset": True},
    "timeout": {"silent_s": 4},
    "fatal_error": {"error": "fatal_error"},
}
ACCEPTED = {f"{name} after acceptance": {**fault, "accept": True} for name, fault in NOT_ACCEPTED.items()}


@pytest.mark.parametrize("fault", [*NOT_ACCEPTED.values(), *ACCEPTED.values()], ids=[*NOT_ACCEPTED, *ACCEPTED])
def test_after_a_lost_answer_the_message_is_looked_up_and_stands_once(world: World, fault: dict[str, Any]) -> None:
    world.slack.fail_next("chat.postMessage", **fault)
    notify(world, OPENED)
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "unknown"
    world.settle(2)
    assert posted(world) == [(OPENED.incident, 1)]
    posts = ["chat.postMessage"] * (1 if fault.get("accept") else 2)
    assert sorted(world.methods()) == sorted([*posts, "conversations.history"])


@pytest.mark.parametrize("fault", [*NOT_ACCEPTED.values(), *ACCEPTED.values()], ids=[*NOT_ACCEPTED, *ACCEPTED])
def test_without_the_right_to_look_at_most_one_message_is_doubled(world: World, fault: dict[str, Any]) -> None:
    world.slack.take_scope("channels:history")
    world.slack.fail_next("chat.postMessage", **fault)
    notify(world, OPENED)
    world.settle(2)
    assert posted(world) in ([(OPENED.incident, 1)], [(OPENED.incident, 1)] * 2)
    notify(world, RESOLVED)
    assert posted(world)[-1] == (OPENED.incident, 3)


@pytest.mark.parametrize("fault", [*NOT_ACCEPTED.values(), *ACCEPTED.values()], ids=[*NOT_ACCEPTED, *ACCEPTED])
def test_an_edit_whose_answer_was_lost_is_sent_again_and_changes_nothing_twice(
    world: World, fault: dict[str, Any]
) -> None:
    notify(world, OPENED)
    world.slack.fail_next("chat.update", **fault)
    notify(world, RESOLVED)
    world.settle(2)
    assert posted(world) == [(OPENED.incident, 3)]
    assert world.methods().count("chat.update") == 2


def test_503_is_tried_again_with_growing_pauses_and_holds_no_other_incident(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable", times=3)
    notify(world, OPENED)
    world.say(OTHER)
    tried = []
    for _ in range(60):
        before = len(world.slack.calls)
        world.settle(0.5)
        tried += [world.now] * (len(world.slack.calls) - before)
    assert sorted(posted(world)) == sorted([(OPENED.incident, 1), (OTHER.incident, 1)])
    assert len(world.slack.calls) == 5
    assert tried[-1] - tried[0] < 15


# Set-up


@pytest.mark.parametrize(
    "error", ["invalid_auth", "token_revoked", "account_inactive", "missing_scope", "channel_not_found", "is_archived"]
)
def test_what_a_person_must_mend_is_tried_once_a_minute_and_nothing_is_lost(world: World, error: str) -> None:
    """Not once a minute for each of twenty incidents."""
    incidents = [make_transition(incident=f"incident{number}") for number in range(20)]
    world.slack.fail_next("chat.postMessage", error=error, times=3)
    notify(world, *incidents)
    for _ in range(12):
        world.settle(10)
    assert len(world.slack.calls) == 3
    for _ in range(10):
        world.settle(61)
    assert sorted(name for name, _ in posted(world)) == sorted(one.incident for one in incidents)


def test_a_revoked_token_is_read_again_once_it_was_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-revoked")
    notify(world, OPENED)
    assert posted(world) == []
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    world.settle(61)
    assert posted(world) == [(OPENED.incident, 1)]


def test_not_in_channel_is_mended_by_an_invitation(world: World) -> None:
    world.slack.remove_bot("flink-alerts")
    notify(world, OPENED)
    world.settle(61)
    assert posted(world) == []
    world.slack.invite_bot("flink-alerts")
    world.settle(61)
    assert posted(world) == [(OPENED.incident, 1)]


def test_a_channel_that_fails_does_not_hold_another(slack: SlackServer) -> None:
    """Each has its own outbox, log and waiting times."""
    failing = World(slack, now=1.0, channel=slack.channel_id("flink-alerts"))
    flowing = World(slack, now=1.0, channel=slack.channel_id("other"))
    slack.remove_bot("flink-alerts")
    notify(failing, OPENED)
    notify(flowing, OPENED, OTHER)
    parents = slack.parents()
    assert {message.channel for message in parents} == {slack.channel_id("other")}
    assert len(parents) == 2


# The message that exists


@pytest.mark.parametrize("error", ["message_not_found", "edit_window_closed", "cant_update_message"])
def test_a_message_that_can_no_longer_be_edited_is_replaced_by_one_that_says_so(world: World, error: str) -> None:
    notify(world, OPENED)
    world.slack.fail_next("chat.update", error=error)
    notify(world, WORSE)
    first, second = world.slack.parents()
    assert "takes its place" in second.blocks[1]["text"]["text"]
    assert first.edited_ts is None
    notify(world, RESOLVED)
    assert posted(world) == [(OPENED.incident, 1), (OPENED.incident, 3)]
    # The thread continues under the message that exists.
    assert world.slack.replies(first.ts) == []
    assert len(world.slack.replies(second.ts)) == 1


def test_an_edit_names_the_channel_by_its_id_though_the_setting_is_a_name(slack: SlackServer) -> None:
    world = World(slack, now=1.0, channel="#flink-alerts")
    notify(world, OPENED)
    notify(world, RESOLVED)
    channels = {call.method: call.body["channel"] for call in slack.calls if "thread_ts" not in call.body}
    assert channels == {"chat.postMessage": "#flink-alerts", "chat.update": slack.channel_id("flink-alerts")}
    assert posted(world) == [(OPENED.incident, 3)]


# The message itself

TOO_MUCH = ["msg_too_long", "msg_blocks_too_long", "invalid_blocks", "some_error_of_tomorrow"]


@pytest.mark.parametrize("error", TOO_MUCH)
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
def test_a_message_that_is_too_much_for_slack_is_sent_as_plain_text(world: World, error: str, method: str) -> None:
    if method == "chat.update":
        notify(world, OPENED)
    world.slack.fail_next(method, error=error)
    notify(world, WORSE)
    (parent,) = world.slack.parents()
    assert parent.blocks == []
    assert "96 s old" in parent.text


@pytest.mark.parametrize("error", TOO_MUCH)
def test_a_message_refused_even_as_plain_text_is_kept_and_holds_no_other(world: World, error: str) -> None:
    world.slack.fail_next("chat.postMessage", error=error, times=2)
    notify(world, OPENED, OTHER)
    assert posted(world) == [(OTHER.incident, 1)]
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "undelivered"
    assert error in entry.reason
