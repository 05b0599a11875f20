"""What a new or lost log does, what cannot be delivered, receivers that do not hold up each other, quiet hours."""

import time
from collections.abc import Iterator

import msgspec
import pytest

from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.outbox import Clocks
from sinks.delivery.worker import DeliveryWorker
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.http_server import PrometheusConfig, StatusServer
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_delivery import FIRST, OPENED, RESOLVED, UPDATED, World, metric
from tests.unit.sinks.memory_kafka import TOPICS, GroupConsumer, MemoryKafka
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import make_transition

DAY_S = 86_400.0


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "oncall")) as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)


def lose_log(world: World, *, group: bool = False) -> None:
    """The topic was deleted; with `group`, the consumer group's offsets, too."""
    for partition in list(world.kafka.logs):
        if partition.topic == TOPICS.deliveries:
            world.kafka.logs[partition].clear()
    if group:
        world.kafka.committed.clear()


@pytest.mark.parametrize("group", [False, True])
def test_after_a_lost_log_messages_that_stand_are_found_and_edited(world: World, group: bool) -> None:
    world.say(OPENED, make_transition(incident="other"))
    world.settle()
    lose_log(world, group=group)
    world.start()
    world.say(UPDATED)
    world.settle()
    assert world.methods() == ["chat.postMessage", "chat.postMessage", "conversations.history", "chat.update"]
    assert len(world.slack.parents()) == 2


def test_what_was_resolved_before_the_log_began_is_not_told(world: World) -> None:
    for number in range(300):
        opened = make_transition(incident=f"old{number}")
        world.say(opened, msgspec.structs.replace(opened, seq=2, transition="resolved"))
    world.kafka.committed.clear()
    lose_log(world)
    world.start()
    world.settle()
    assert world.slack.parents() == []
    assert world.methods() == ["conversations.history"]
    assert world.kafka.committed[FIRST] == 600


def test_when_the_incidents_topic_was_made_again_nothing_in_it_is_history(world: World) -> None:
    """Its offsets are below those at which the notification log began, and yet what it holds is new."""
    for number in range(30):
        world.say(make_transition(incident=f"old{number}"))
    lose_log(world)
    world.start()
    world.settle()
    for partition in list(world.kafka.logs):
        if partition.topic == TOPICS.incidents:
            world.kafka.logs[partition].clear()
    # Kafka forgets a group's offsets with the topic.
    world.kafka.committed.clear()
    world.start()
    world.say(OPENED, RESOLVED)
    world.settle()
    assert any("Resolved" in parent.text for parent in world.slack.parents())


def test_what_was_resolved_while_nobody_delivered_ends_the_message_that_stands(world: World) -> None:
    world.say(OPENED)
    world.settle()
    lose_log(world)
    world.say(RESOLVED)
    world.start()
    world.settle()
    (parent,) = world.slack.parents()
    assert "Resolved" in parent.text


def test_old_open_incidents_without_a_message_are_told_once_in_one_message(world: World) -> None:
    for number in range(20):
        world.say(make_transition(incident=f"old{number}"))
    lose_log(world)
    world.now += 2 * 3600
    world.start()
    world.settle()
    (digest,) = world.slack.parents()
    assert "20 open" in digest.text
    world.start()
    world.settle()
    assert len(world.slack.parents()) == 1


def test_young_ones_are_told_as_ever(world: World) -> None:
    world.say(OPENED)
    lose_log(world)
    world.start()
    world.settle()
    (parent,) = world.slack.parents()
    assert parent.metadata["event_payload"]["incident"] == OPENED.incident


def test_history_is_not_read_before_the_channel_was(world: World) -> None:
    world.say(OPENED)
    world.settle()
    lose_log(world)
    world.slack.fail_next("conversations.history", status=429, headers={"Retry-After": "20"}, error="ratelimited")
    world.start()
    world.say(UPDATED)
    world.settle()
    assert len(world.slack.parents()) == 1
    world.settle(21)
    world.settle()
    assert len(world.slack.parents()) == 1
    assert world.methods()[-1] == "chat.update"


def test_without_the_right_to_read_the_channel_young_ones_are_told_anew(world: World) -> None:
    world.say(OPENED)
    world.settle()
    lose_log(world)
    world.slack.fail_next("conversations.history", error="missing_scope")
    world.start()
    world.settle()
    assert len(world.slack.parents()) == 2


def test_a_crash_while_the_log_begins_loses_nothing(world: World) -> None:
    world.say(OPENED)
    lose_log(world)
    world.kafka.committed[FIRST] = 1
    world.kafka.refuse_writes = True
    with pytest.raises(Exception, match="no broker"):
        world.start()
    world.kafka.refuse_writes = False
    world.start()
    world.settle()
    assert len(world.slack.parents()) == 1


def test_what_is_refused_for_good_is_kept_counted_and_tried_again(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
    world.say(OPENED)
    world.settle()
    world.settle(2)
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert (entry.state, entry.reason.split(":")[0]) == ("undelivered", "msg_too_long")
    assert metric(world.board, "flinkwatch_notifications_undelivered", integration="slack") == 1
    assert world.kafka.committed[FIRST] == 1
    assert world.board.delivery.undelivered_words() == "undelivered incidents, which are kept and retried: 1 on slack"
    world.settle(3700)
    world.settle(3700)
    assert len(world.slack.parents()) == 1
    assert world.board.delivery.undelivered_words() is None


def test_what_could_not_be_delivered_for_a_day_is_put_aside_and_told_when_it_can_be(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="channel_not_found", times=100_000)
    world.say(OPENED, make_transition(incident="other"))
    for _ in range(200):
        world.settle(DAY_S / 180)
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "undelivered"
    assert world.kafka.committed[FIRST] == 2
    # Over a restart, too.
    world.start()
    world.settle()
    assert metric(world.board, "flinkwatch_notifications_undelivered", integration="slack") == 2
    world.slack.forgive()
    for _ in range(10):
        world.settle(3700)
    assert len(world.slack.parents()) == 2


def test_a_thread_line_that_fails_after_a_long_outage_is_tried_again_and_the_told_message_is_not_put_aside(
    slack: SlackServer,
) -> None:
    world = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"))
    world.say(OPENED)
    world.settle()
    world.slack.fail_next("chat.update", status=503, times=100_000)
    world.say(msgspec.structs.replace(UPDATED, severity="critical"))
    for _ in range(60):
        world.settle(DAY_S / 65)
    world.slack.forgive()
    # The message can be edited again, the line in its thread cannot be written yet, and meanwhile the day is over.
    world.slack.fail_next("chat.postMessage", status=503, times=7)
    for _ in range(20):
        world.settle(DAY_S / 65)
    (parent,) = world.slack.parents()
    assert len(world.slack.replies(parent.ts)) == 1
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "sent"


def test_a_change_of_what_was_put_aside_is_told_at_once(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
    world.say(OPENED)
    world.settle()
    world.say(UPDATED)
    world.settle(60)
    (parent,) = world.slack.parents()
    assert parent.metadata["event_payload"]["seq"] == 2


class Receivers:
    """Every receiver of a configuration, polled one after another."""

    def __init__(self, kafka: MemoryKafka, sinks: Sinks, now: float) -> None:
        self.kafka, self.now = kafka, now
        kafka.wall = lambda: self.now
        self.workers: dict[str, DeliveryWorker] = {}
        for receiver in make_receivers(sinks):
            producer = kafka.producer() if receiver.sink.traits.keeps_log else None
            log = NotificationLog(producer, TOPICS.deliveries, receiver.name)
            dispatcher = Dispatcher(receiver, log, IncidentCollector(), Clocks(lambda: self.now, lambda: self.now))
            consumer = GroupConsumer(kafka, receiver.name)
            worker = DeliveryWorker(consumer, kafka, dispatcher)
            consumer.subscribe([TOPICS.incidents], worker.ownership)
            worker.poll_once()
            self.workers[receiver.name] = worker

    def say(self, *transitions: object) -> None:
        for one in transitions:
            self.kafka.write(TOPICS.incidents, one.incident, msgspec.json.encode(one))  # type: ignore[attr-defined]

    def settle(self, seconds: float = 0.0) -> None:
        self.now += seconds
        for worker in self.workers.values():
            for _ in range(100):
                if not worker.poll_once():
                    break


def receivers(server: SlackServer, **changes: object) -> Receivers:
    config = {"enabled": True, "channel": "flink-alerts", "base_url": server.base_url, "timeout": "3s"}
    sinks = Sinks.model_validate({"slack": config, "prometheus": {"enabled": False}, **changes})
    return Receivers(MemoryKafka(), sinks, 1_772_373_780.0)


def test_a_channel_that_fails_holds_up_no_other_and_no_other_sink(slack: SlackServer) -> None:
    with Receiver() as receiver:
        world = receivers(
            slack,
            webhook={"enabled": True, "url": receiver.url},
            routing={"routes": [{"to": ["slack:nowhere", "slack:oncall", "webhook"]}]},
        )
        world.say(OPENED)
        world.settle()
        assert [message.channel for message in slack.parents()] == [slack.channel_id("oncall")]
        assert len(receiver.received) == 1
        assert (world.kafka.group("slack:oncall")[FIRST], world.kafka.group("webhook")[FIRST]) == (1, 1)
        assert world.kafka.group("slack:nowhere").get(FIRST, 0) == 0


def test_a_channel_that_is_limited_holds_up_no_other(slack: SlackServer) -> None:
    world = receivers(slack, routing={"routes": [{"to": ["slack", "slack:oncall"]}]})
    slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "300"}, error="ratelimited")
    world.say(OPENED)
    world.settle()
    assert [message.channel for message in slack.parents()] == [slack.channel_id("oncall")]
    world.settle(301)
    assert len(slack.parents()) == 2


def test_a_message_that_stands_is_changed_whatever_the_rules_say_by_then(slack: SlackServer) -> None:
    rules = [
        {"severity": "critical", "to": ["slack:oncall"], "continue": True},
        {"severity": "warning", "to": ["slack"]},
    ]
    world = receivers(slack, routing={"routes": rules})
    world.say(make_transition(severity="critical"))
    world.settle()
    assert len(slack.parents()) == 2
    world.say(make_transition(seq=2, transition="resolved", severity="info"))
    world.settle()
    assert all("Resolved" in message.text for message in slack.parents())


QUIET = {"quiet_hours": [{"begin": "14:00", "end": "15:00", "below": "critical"}]}


def test_quiet_hours_hold_what_is_not_critical_and_tell_it_afterwards(slack: SlackServer) -> None:
    world = receivers(slack, routing=QUIET)
    world.say(OPENED, make_transition(incident="bad", severity="critical"))
    world.settle()
    assert [m.metadata["event_payload"]["incident"] for m in slack.parents()] == ["bad"]
    world.settle(3600)
    assert len(slack.parents()) == 2


def test_what_is_over_when_quiet_hours_end_is_not_told(slack: SlackServer) -> None:
    world = receivers(slack, routing=QUIET)
    world.say(OPENED, RESOLVED)
    world.settle()
    world.say(make_transition(incident="other"))
    world.settle()
    world.say(make_transition(incident="other", seq=2, transition="resolved"))
    world.settle()
    world.settle(3600)
    assert slack.calls == []
    assert world.kafka.group("slack")[FIRST] == 4


def test_what_becomes_critical_in_quiet_hours_is_told_at_once(slack: SlackServer) -> None:
    world = receivers(slack, routing=QUIET)
    world.say(OPENED)
    world.settle()
    world.say(make_transition(seq=2, transition="updated", severity="critical"))
    world.settle()
    assert len(slack.parents()) == 1


def test_alertmanager_hears_of_everything_open_after_a_restart(slack: SlackServer) -> None:
    with Receiver() as receiver:
        settings = {
            "slack": {"enabled": False},
            "alertmanager": {"enabled": True, "urls": [receiver.url]},
        }
        first = receivers(slack, **settings)
        first.say(
            OPENED, make_transition(incident="other"), make_transition(incident="other", seq=2, transition="resolved")
        )
        first.settle()
        receiver.received.clear()
        again = Receivers(first.kafka, Sinks.model_validate(settings), first.now + 3600)
        again.settle()
        sent = [one["labels"]["incident"] for received in receiver.received for one in received.json()]
        assert sent == [OPENED.incident]
        receiver.received.clear()
        again.settle(61)
        assert len(receiver.received) == 1


def test_ready_tells_of_undelivered_incidents_and_is_ready(world: World) -> None:
    page = StatusServer(PrometheusConfig())
    page.add_remark("delivery", world.board.delivery.undelivered_words)
    world.board.delivery.undelivered.labels("slack").set(3)
    status, _, body = page.answer("/-/ready", "")
    assert (status, body.decode().splitlines()) == (
        200,
        ["flinkwatch is ready", "delivery: undelivered incidents, which are kept and retried: 3 on slack"],
    )
