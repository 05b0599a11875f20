"""The loop from incidents to Slack, with Kafka in memory, a clock that is set by hand, and the local Slack stand-in."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition

from detectors.incident import Reading, Transition
from sinks.contract.receiver import Receiver
from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks
from sinks.delivery.service import Delivery
from sinks.delivery.worker import DeliveryWorker
from sinks.integrations.slack.message.message import Message, render
from sinks.integrations.slack.settings import SlackConfig
from sinks.kafka.access import KafkaAccess
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.http_server import PrometheusConfig
from sinks.receivers import make_receivers
from sinks.secret import SecretError
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.memory_kafka import TOPICS, GroupConsumer, MemoryKafka
from tests.unit.sinks.samples import make_transition

FIRST = TopicPartition(TOPICS.incidents, 0)


class World:
    """One deliverer, its surroundings, and a clock."""

    def __init__(self, slack: SlackServer, now: float = 1000.0, **config: Any) -> None:
        self.slack = slack
        self.kafka = MemoryKafka()
        self.now = now
        self.kafka.wall = lambda: self.now
        self.board = IncidentCollector()
        self.config = SlackConfig(
            enabled=True, timeout="3s", **{"channel": "flink-alerts", "base_url": slack.base_url, **config}
        )
        self.start()

    def start(self) -> None:
        """A new deliverer, as after a restart; what the old one held in memory is gone."""
        self.consumer = GroupConsumer(self.kafka)
        log = NotificationLog(self.kafka.producer(), TOPICS.deliveries, "slack")
        self.dispatcher = Dispatcher(self.receiver(), log, self.board, Clocks(lambda: self.now, lambda: self.now))
        self.worker = DeliveryWorker(self.consumer, self.kafka, self.dispatcher)
        self.consumer.subscribe([TOPICS.incidents], self.worker.ownership)
        self.worker.poll_once()

    def receiver(self) -> Receiver:
        (receiver,) = make_receivers(Sinks(slack=self.config))
        return receiver

    def say(self, *transitions: Transition, partition: int = 0) -> None:
        """The job writes transitions."""
        for one in transitions:
            self.kafka.write(TOPICS.incidents, one.incident, msgspec.json.encode(one), partition)

    def settle(self, seconds: float = 0.0) -> None:
        """Lets time pass and works until nothing is due."""
        self.now += seconds
        for _ in range(200):
            if not self.worker.poll_once():
                return
        raise AssertionError("the worker does not come to rest")

    def log_entry(self, incident: str, partition: int = 0) -> Entry | None:
        """What the topic holds last for an incident."""
        values = dict(self.kafka.read_notification_log(partition))
        value = values.get(f"slack/{incident}".encode())
        return None if value is None else msgspec.json.decode(value, type=Entry)

    def methods(self) -> list[str]:
        """The calls Slack got."""
        return [call.method for call in self.slack.calls]


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack)


OPENED = make_transition()
UPDATED = make_transition(seq=2, transition="updated", reason="it grows")
RESOLVED = make_transition(seq=3, transition="resolved", reason="done", ended_at=OPENED.at + 1000)


def metric(board: IncidentCollector, name: str, **labels: str) -> float | None:
    samples = [sample for family in board.collect() for sample in family.samples]
    return next((s.value for s in samples if s.name == name and s.labels == labels), None)


def test_opened_is_posted_and_changes_edit_the_same_message(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.say(UPDATED)
    world.settle()
    world.say(RESOLVED)
    world.settle()
    (parent,) = world.slack.parents()
    assert "Resolved" in parent.blocks[0]["text"]["text"]
    assert parent.metadata["event_payload"] == {"incident": OPENED.incident, "seq": 3}
    assert [reply.text.split(":")[0] for reply in world.slack.replies(parent.ts)] == [
        "✅ Resolved after 97 s at 14",
    ]
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert (entry.seq, entry.state, entry.ts) == (3, "sent", parent.ts)
    assert world.kafka.committed[FIRST] == 3


def test_without_thread_updates_nothing_but_the_parent_changes(slack: SlackServer) -> None:
    world = World(slack, thread_updates=False)
    world.say(OPENED)
    world.settle()
    world.say(UPDATED)
    world.settle()
    assert world.methods() == ["chat.postMessage", "chat.update"]


def test_the_intent_is_written_before_the_send(world: World) -> None:
    seen: list[Entry | None] = []
    world.slack.on_call = lambda call: seen.append(world.log_entry(OPENED.incident))
    world.say(OPENED)
    world.settle()
    (during,) = seen
    assert during is not None
    assert (during.state, during.seq, during.ts) == ("intent", 1, "")


def test_only_the_newest_of_several_waiting_changes_is_sent(world: World) -> None:
    world.say(OPENED, UPDATED, RESOLVED)
    world.settle()
    assert world.methods() == ["chat.postMessage"]
    assert world.kafka.committed[FIRST] == 3


def test_a_replayed_topic_sends_nothing(world: World) -> None:
    world.say(OPENED, UPDATED)
    world.settle()
    calls = len(world.slack.calls)
    world.kafka.committed.clear()
    world.start()
    world.settle()
    assert len(world.slack.calls) == calls
    assert world.kafka.committed[FIRST] == 2


def test_a_restart_goes_on_editing_the_message_of_before(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.start()
    world.say(UPDATED)
    world.settle()
    assert len(world.slack.parents()) == 1
    assert "chat.update" in world.methods()


def test_rate_limited_waits_as_long_as_slack_says_and_loses_nothing(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "30"}, error="ratelimited")
    other = make_transition(incident="other")
    world.say(OPENED)
    world.settle()
    world.say(other)
    world.settle(29)
    assert len(world.slack.calls) == 1
    assert world.kafka.committed.get(FIRST, 0) == 0
    world.settle(2)
    assert len(world.slack.parents()) == 2
    assert world.kafka.committed[FIRST] == 2
    assert metric(world.board, "flinkwatch_notifications_failed_total", integration="slack", reason="rateLimited") == 1


def test_posts_that_are_limited_do_not_hold_up_edits(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "30"}, error="ratelimited")
    world.say(make_transition(incident="other"))
    world.settle()
    world.say(UPDATED)
    world.settle()
    assert world.methods().count("chat.update") == 1


def test_a_failing_incident_is_retried_with_growing_pauses_while_others_go_out(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable", times=3)
    world.say(OPENED)
    world.settle()
    world.say(make_transition(incident="other"))
    tried_at = []
    for _ in range(80):
        before = len(world.slack.calls)
        world.settle(0.5)
        if len(world.slack.calls) > before:
            tried_at.append(world.now)
    assert len(world.slack.parents()) == 2
    assert len(world.slack.calls) == 5
    assert tried_at[-1] - tried_at[0] < 10


def test_a_newer_change_that_comes_while_waiting_is_what_is_sent(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable")
    world.say(OPENED)
    world.settle()
    world.say(UPDATED)
    world.settle()
    assert len(world.slack.calls) == 1
    world.settle(5)
    (parent,) = world.slack.parents()
    assert parent.metadata["event_payload"]["seq"] == 2


def test_an_answer_that_is_lost_is_looked_up_and_the_message_not_doubled(slack: SlackServer) -> None:
    # Slack's stand-in counts real seconds.
    world = World(slack, now=1.0, channel=slack.channel_id("flink-alerts"))
    slack.fail_next("chat.postMessage", status=500, accept=True)
    world.say(OPENED)
    world.settle()
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "unknown"
    world.settle(2)
    assert len(slack.parents()) == 1
    assert world.methods() == ["chat.postMessage", "conversations.history"]
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert (entry.state, entry.ts) == ("sent", slack.parents()[0].ts)


def test_a_lost_message_is_sent_again_after_the_look(slack: SlackServer) -> None:
    world = World(slack, channel=slack.channel_id("flink-alerts"))
    slack.fail_next("chat.postMessage", reset=True)
    world.say(OPENED)
    world.settle()
    world.settle(2)
    assert world.methods() == ["chat.postMessage", "conversations.history", "chat.postMessage"]
    assert len(slack.parents()) == 1


def test_a_crash_between_intent_and_answer_is_looked_up_after_the_restart(slack: SlackServer) -> None:
    world = World(slack, now=1.0, channel=slack.channel_id("flink-alerts"))

    def crash(_: object) -> None:
        world.kafka.refuse_writes = True

    slack.on_call = crash
    world.say(OPENED)
    world.settle()
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "intent"
    slack.on_call = None
    world.kafka.refuse_writes = False
    world.start()
    world.settle()
    assert len(slack.parents()) == 1
    assert world.methods().count("chat.postMessage") == 1


def test_while_the_log_cannot_be_written_nothing_is_sent(world: World) -> None:
    world.kafka.refuse_writes = True
    world.say(OPENED)
    world.settle()
    world.settle(5)
    assert world.slack.calls == []
    world.kafka.refuse_writes = False
    world.settle(60)
    assert world.methods() == ["chat.postMessage"]


def test_a_sent_message_that_could_not_be_recorded_is_recorded_later_and_not_sent_again(world: World) -> None:
    world.slack.on_call = lambda call: setattr(world.kafka, "refuse_writes", True)
    world.say(OPENED)
    world.settle()
    assert world.kafka.committed.get(FIRST, 0) == 0
    world.kafka.refuse_writes = False
    world.settle(5)
    entry = world.log_entry(OPENED.incident)
    assert entry is not None
    assert entry.state == "sent"
    assert world.methods() == ["chat.postMessage"]
    assert world.kafka.committed[FIRST] == 1


def test_a_deleted_message_gives_a_new_one_that_says_so(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.slack.delete(world.slack.parents()[0].ts)
    world.say(UPDATED)
    world.settle()
    (parent,) = world.slack.parents()
    assert "takes its place" in parent.blocks[1]["text"]["text"]


def test_a_closed_edit_window_gives_a_new_message(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.slack.fail_next("chat.update", error="edit_window_closed")
    world.say(UPDATED)
    world.settle()
    assert len(world.slack.parents()) == 2


def test_refused_blocks_are_sent_as_plain_text(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_blocks_too_long")
    world.say(OPENED)
    world.settle()
    (parent,) = world.slack.parents()
    assert parent.blocks == []
    assert "96 s old" in parent.text


def test_a_message_refused_for_good_holds_nobody_up(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
    world.say(OPENED, make_transition(incident="other"))
    world.settle()
    assert len(world.slack.parents()) == 1
    assert world.kafka.committed[FIRST] == 2


def test_a_wrong_token_is_retried_slowly_until_it_is_mended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-wrong")
    world.say(OPENED)
    world.settle()
    world.settle(30)
    assert len(world.slack.calls) == 1
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    world.settle(31)
    assert len(world.slack.parents()) == 1
    assert metric(world.board, "flinkwatch_notifications_failed_total", integration="slack", reason="authError") == 1


def test_incidents_below_min_severity_are_not_posted_until_they_grow(world: World) -> None:
    world.say(make_transition(severity="info"))
    world.settle()
    assert world.slack.calls == []
    assert world.kafka.committed[FIRST] == 1
    world.say(make_transition(seq=2, transition="updated", severity="critical"))
    world.settle()
    assert len(world.slack.parents()) == 1
    world.say(make_transition(seq=3, transition="updated", severity="info"))
    world.settle()
    assert world.methods().count("chat.update") == 1


def test_bad_records_are_skipped(world: World) -> None:
    for value in (b"", b"\xff\xfe", b"{}", b'{"seq": "one"}', b'{"x":' + b"[" * 100_000):
        world.kafka.write(TOPICS.incidents, "bad", value)
    world.say(OPENED)
    world.settle()
    assert len(world.slack.parents()) == 1
    assert world.kafka.committed[FIRST] == 6


def test_a_defect_in_rendering_one_incident_holds_up_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_on_first(transition: Transition, *_: str) -> Message:
        if transition.incident == OPENED.incident:
            raise ZeroDivisionError
        return render(transition)

    monkeypatch.setattr("sinks.integrations.slack.sink.render", break_on_first)
    world.say(OPENED, make_transition(incident="other"))
    world.settle()
    assert len(world.slack.parents()) == 1
    for _ in range(20):
        world.settle(60)
    assert world.kafka.committed[FIRST] == 2


def test_a_tombstone_clears_the_log(world: World) -> None:
    world.say(OPENED)
    world.settle()
    world.kafka.write(TOPICS.incidents, OPENED.incident, None)
    world.settle()
    assert world.log_entry(OPENED.incident) is None


def test_a_partition_that_goes_away_is_no_longer_delivered(world: World) -> None:
    world.slack.fail_next("chat.postMessage", status=503, error="service_unavailable")
    world.say(OPENED)
    world.settle()
    world.consumer.revoke([FIRST])
    world.settle(60)
    assert len(world.slack.calls) == 1
    assert world.kafka.committed.get(FIRST, 0) == 0
    world.consumer.assign([FIRST])
    world.settle()
    assert len(world.slack.parents()) == 1


def test_a_new_owner_reads_the_log_before_it_sends(world: World) -> None:
    world.say(OPENED, partition=1)
    world.settle()
    second = TopicPartition(TOPICS.incidents, 1)
    world.consumer.revoke([second])
    world.settle()
    world.kafka.committed.pop(second)
    world.consumer.assign([second])
    world.settle()
    assert world.methods() == ["chat.postMessage"]


def test_an_unreadable_log_entry_is_as_none(world: World) -> None:
    world.kafka.write(TOPICS.deliveries, f"slack/{OPENED.incident}", b"{")
    world.kafka.write(TOPICS.deliveries, f"pager/{OPENED.incident}", b'{"other": "sink"}')
    world.start()
    world.say(OPENED)
    world.settle()
    assert len(world.slack.parents()) == 1


ACCESS = KafkaAccess(bootstrap_servers="localhost:9092")
NO_PAGE = PrometheusConfig(enabled=False)


def test_the_whole_of_delivery_starts_delivers_and_stops(slack: SlackServer) -> None:
    kafka = MemoryKafka()
    config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url)
    page = PrometheusConfig(address="127.0.0.1", port=0)
    delivery = Delivery(ACCESS, TOPICS, Sinks(slack=config, prometheus=page), clients=kafka)
    reading = Reading(name="checkpoint_duration_last_seconds", labels={"cluster": "prod-eu"}, value=2.5, at=1)
    kafka.write(TOPICS.readings, reading.key(), msgspec.json.encode(reading))
    kafka.write(TOPICS.incidents, OPENED.incident, msgspec.json.encode(OPENED))
    delivery.start()
    try:
        assert delivery.page.port > 0
    finally:
        delivery.stop()
    assert len(slack.parents()) == 1
    assert metric(delivery.board, "flinkwatch_checkpoint_duration_last_seconds", cluster="prod-eu") == 2.5
    assert metric(delivery.board, "flinkwatch_notifications_total", integration="slack") == 1


def test_stop_sends_what_has_just_been_written(slack: SlackServer) -> None:
    kafka = MemoryKafka()
    config = SlackConfig(enabled=True, channel="flink-alerts", base_url=slack.base_url)
    delivery = Delivery(ACCESS, TOPICS, Sinks(slack=config, prometheus=NO_PAGE), clients=kafka)
    delivery.start()
    for number in range(10):
        kafka.write(TOPICS.incidents, "x", msgspec.json.encode(make_transition(incident=f"incident {number}")))
    delivery.stop()
    assert len(slack.parents()) == 10


def test_delivery_does_not_start_without_slacks_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_BOT_TOKEN", raising=False)
    config = SlackConfig(enabled=True, channel="flink-alerts")
    delivery = Delivery(ACCESS, TOPICS, Sinks(slack=config, prometheus=NO_PAGE), clients=MemoryKafka())
    with pytest.raises(SecretError, match="SLACK_BOT_TOKEN"):
        delivery.start()
    delivery.stop()
