"""Records of the notification log that are damaged, and its topic deleted under a running deliverer."""

import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.incident import Transition
from sinks.delivery.notification_log import Entry
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_bootstrap import receivers
from tests.unit.sinks.delivery.test_delivery import FIRST, OPENED, RESOLVED, UPDATED, World, metric
from tests.unit.sinks.memory_kafka import TOPICS
from tests.unit.sinks.samples import make_transition


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "oncall")) as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)


def entry(world: World) -> bytes:
    """What the log has of OPENED."""
    found = world.log_entry(OPENED.incident)
    assert found is not None
    return msgspec.json.encode(found)


def damage(world: World, value: bytes) -> None:
    """This is what is read of OPENED after a restart."""
    world.kafka.write(TOPICS.deliveries, f"slack/{OPENED.incident}", value)
    world.start()
    world.settle()


DAMAGES = {
    "empty": lambda value: b"",
    "cut in half": lambda value: value[: len(value) // 2],
    "a bit of its state flipped": lambda value: value.replace(b"sent", b"sunt"),
    "a bit of a text flipped, no UTF-8": lambda value: value.replace(b"incident", b"incid\xe5nt", 1),
    "of another type": lambda value: b'["sent"]',
    "a number that no computer has": lambda value: value.replace(b'"seq":1', b'"seq":' + b"9" * 400),
    "nested too deep": lambda value: b"[" * 500_000,
    "a megabyte of nothing": lambda value: b"\x00" * 1_000_000,
    "of another incident": lambda value: value.replace(OPENED.incident.encode(), b"another"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_an_incident_whose_record_is_damaged_is_looked_up_and_not_told_twice(world: World, kind: str) -> None:
    world.say(OPENED, make_transition(incident="other"))
    world.settle()
    damage(world, DAMAGES[kind](entry(world)))
    world.say(UPDATED, make_transition(incident="other", seq=2, transition="updated"))
    world.settle()
    assert sorted(m.metadata["event_payload"]["seq"] for m in world.slack.parents()) == [2, 2]
    skipped = {"topic": TOPICS.deliveries, "reason": "not readable"}
    assert metric(world.board, "flinkwatch_delivery_records_skipped_total", **skipped) == 1
    assert msgspec.json.decode(entry(world), type=Entry).state == "sent"


def test_the_end_of_an_incident_whose_record_is_damaged_is_told_in_its_message(world: World) -> None:
    world.say(OPENED)
    world.settle()
    damage(world, b"{")
    world.say(RESOLVED)
    world.settle()
    (parent,) = world.slack.parents()
    assert "Resolved" in parent.text


def test_a_damaged_record_without_a_message_is_told(world: World) -> None:
    damage(world, b"{")
    world.say(OPENED)
    world.settle()
    assert len(world.slack.parents()) == 1


def test_a_damaged_record_that_was_replaced_since_is_no_damage(world: World) -> None:
    world.say(OPENED)
    world.settle()
    good = entry(world)
    world.kafka.write(TOPICS.deliveries, f"slack/{OPENED.incident}", b"{")
    damage(world, good)
    world.say(UPDATED)
    world.settle()
    assert "conversations.history" not in world.methods()
    assert len(world.slack.parents()) == 1


def test_doubt_is_no_message_whose_fate_is_unknown(world: World) -> None:
    damage(world, b"{")
    world.settle(5)
    assert (
        metric(world.board, "flinkwatch_notification_log_oldest_unsettled_timestamp_seconds", integration="slack")
        is None
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_a_record_of_the_log_holds_other_incidents_are_told(slack: SlackServer, data: st.DataObject) -> None:
    world = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)
    before = len(slack.parents())
    good = msgspec.json.encode(Entry(incident=OPENED.incident, seq=1, state="sent", at=1, channel="C1", ts="1.1"))
    at = data.draw(st.integers(0, len(good) - 1))
    value = data.draw(
        st.one_of(
            st.binary(max_size=40),
            st.just(good[:at]),
            st.integers(0, 7).map(lambda bit: good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :]),
        )
    )
    names = st.sampled_from([OPENED.incident, "~start", "~digest/1", "~digest/x", ""])
    world.kafka.write(TOPICS.deliveries, f"slack/{data.draw(names)}", value)
    world.start()
    world.say(UPDATED, make_transition(incident="other"))
    world.settle()
    world.settle(10)
    told = [message.metadata["event_payload"]["incident"] for message in slack.parents()[before:]]
    assert told.count("other") == 1
    assert world.kafka.committed[FIRST] == 2


def test_a_log_that_was_deleted_is_made_again_and_nothing_is_lost_or_doubled(world: World) -> None:
    world.say(OPENED, make_transition(incident="other"))
    world.settle()
    world.kafka.delete_notification_log()
    world.say(UPDATED, make_transition(incident="third"))
    world.settle()
    for _ in range(10):
        world.settle(10)
    # All that is known is in it again: the next start need not look anything up.
    world.start()
    world.say(make_transition(incident="other", seq=2, transition="updated"))
    world.settle()
    assert sorted(m.metadata["event_payload"]["seq"] for m in world.slack.parents()) == [1, 2, 2]
    assert world.methods().count("chat.postMessage") == 3
    assert "conversations.history" not in world.methods()


def test_every_receiver_writes_into_the_log_that_one_has_made_again(slack: SlackServer) -> None:
    world = receivers(slack, routing={"routes": [{"to": ["slack:oncall"], "severity": "critical"}, {"to": ["slack"]}]})
    world.say(OPENED, make_transition(incident="bad", severity="critical"))
    world.settle()
    world.kafka.delete_notification_log()
    world.say(UPDATED)
    for _ in range(10):
        world.settle(10)
    names = {(key or b"").decode() for key, _ in world.kafka.read_notification_log(0)}
    assert {"slack/" + OPENED.incident, "slack:oncall/bad", "slack/~start", "slack:oncall/~start"} <= names


@pytest.mark.parametrize("change", [UPDATED, RESOLVED])
def test_all_that_kafka_kept_is_lost_and_the_message_of_an_open_incident_is_found(
    slack: SlackServer, change: Transition
) -> None:
    """An empty broker: neither the log nor the incidents' topic knows it. It was told with a second message, before."""
    told = {"now": time.time(), "channel": slack.channel_id("flink-alerts"), "thread_updates": False}
    before = World(slack, **told)
    before.say(OPENED)
    before.settle()
    after = World(slack, **told)
    after.settle()
    after.say(change)
    after.settle()
    (message,) = slack.parents()
    assert message.metadata["event_payload"]["seq"] == change.seq
