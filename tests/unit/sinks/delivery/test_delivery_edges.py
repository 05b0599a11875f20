"""Pauses, bounds, quiet hours and figures of delivery, each at its edge."""

import time
from collections.abc import Iterator
from itertools import pairwise
from threading import Event
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition
from structlog.testing import capture_logs

from detectors.incident import Silenced
from sinks.delivery.service import Delivery
from sinks.receivers import make_receivers
from sinks.settings import Sinks
from tests.fake_slack.server import TOKEN, Posted, SlackServer
from tests.unit.sinks.delivery.test_bootstrap import DAY_S, QUIET, Receivers, lose_log, receivers
from tests.unit.sinks.delivery.test_delivery import ACCESS, FIRST, OPENED, RESOLVED, UPDATED, World, metric
from tests.unit.sinks.memory_kafka import TOPICS, GroupConsumer, MemoryKafka, Producer
from tests.unit.sinks.receiver import Receiver
from tests.unit.sinks.samples import make_transition

SECOND = TopicPartition(TOPICS.incidents, 1)
CRITICAL = make_transition(seq=2, transition="updated", severity="critical")


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer(channels=("flink-alerts", "oncall")) as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)


def entry_state(world: World, incident: str = OPENED.incident) -> str:
    entry = world.log_entry(incident)
    return "" if entry is None else entry.state


class TestPauses:
    def test_pauses_double_from_a_second_to_a_minute(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", status=503, error="x", times=9)
        world.say(OPENED)
        world.settle()
        tried = [world.now]
        for _ in range(800):
            before = len(world.slack.calls)
            world.settle(0.5)
            if len(world.slack.calls) > before:
                tried.append(world.now)
        pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
        assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
        assert len(world.slack.parents()) == 1

    def test_a_line_in_a_thread_that_never_succeeds_is_given_up_and_holds_no_offset(self, slack: SlackServer) -> None:
        world = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"))
        world.say(OPENED)
        world.settle()
        slack.fail_next("chat.postMessage", status=503, error="x", times=1_000)
        world.say(CRITICAL)
        for _ in range(12):
            world.settle(61)
        assert world.kafka.committed[FIRST] == 2
        assert 5 <= world.methods().count("chat.postMessage") <= 12

    def test_a_look_that_slack_refuses_for_now_is_made_again_and_settles_the_message(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.slack.fail_next("conversations.history", status=429, headers={"Retry-After": "20"}, error="ratelimited")
        world.say(OPENED)
        world.settle()
        for _ in range(5):
            world.settle(10)
        assert entry_state(world) == "sent"
        assert world.kafka.committed[FIRST] == 1


class TestBounds:
    def test_with_a_full_outbox_nothing_more_is_read_and_later_all_is_told(
        self, slack: SlackServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sinks.delivery.worker._OUTBOX_LIMIT", 5)
        monkeypatch.setattr("sinks.delivery.worker._BATCH", 2)
        world = World(slack, channel=slack.channel_id("flink-alerts"), digest_above=1_000)
        slack.fail_next("chat.postMessage", status=429, headers={"Retry-After": "60"}, error="ratelimited")
        world.say(*(make_transition(incident=f"i{number}") for number in range(20)))
        world.settle()
        assert 5 <= len(world.dispatcher.outbox) <= 6
        assert world.consumer.paused()
        for _ in range(40):
            world.settle(5)
        assert len(slack.parents()) == 20
        assert not world.consumer.paused()

    def test_stop_tells_what_is_due_after_an_outage_that_is_over(self, world: World) -> None:
        world.kafka.refuse_commits = True
        world.say(OPENED)
        world.settle()
        world.kafka.refuse_commits = False
        world.settle()
        world.say(make_transition(incident="other"))
        stop = Event()
        stop.set()
        world.worker.run(stop, 30.0)
        assert len(world.slack.parents()) == 2

    def test_stop_does_not_wait_for_kafka(self, world: World) -> None:
        world.kafka.refuse_commits = True
        world.say(*(make_transition(incident=f"i{number}") for number in range(100)))
        world.worker.poll_once()
        stop = Event()
        stop.set()
        began = time.monotonic()
        world.worker.run(stop, 3_600.0)
        assert time.monotonic() - began < 60

    def test_a_receiver_that_ends_closes_its_clients(self, slack: SlackServer, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[str] = []
        kafka = MemoryKafka()
        monkeypatch.setattr(GroupConsumer, "close", lambda *_, **__: closed.append("consumer"))
        monkeypatch.setattr(Producer, "close", lambda *_, **__: closed.append("producer"))
        config = {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url}
        sinks = Sinks.model_validate({"slack": config, "prometheus": {"enabled": False}})
        delivery = Delivery(ACCESS, TOPICS, sinks, clients=kafka)
        delivery.start()
        delivery.stop()
        assert sorted(closed) == ["consumer", "producer"]


class TestMemory:
    def test_an_incident_that_has_been_open_for_weeks_keeps_its_message(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.settle(20 * DAY_S)
        world.start()
        world.say(UPDATED)
        world.settle()
        assert world.methods() == ["chat.postMessage", "chat.update"]

    def test_what_ended_weeks_ago_is_forgotten_and_not_told_again(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.say(RESOLVED)
        world.settle()
        world.settle(13 * DAY_S)
        world.settle(0.1)
        assert entry_state(world) == "sent"
        world.settle(2 * DAY_S)
        world.settle(0.1)
        assert entry_state(world) == ""
        world.kafka.committed.clear()
        world.start()
        world.settle()
        assert world.methods().count("chat.postMessage") == 1

    def test_a_channel_known_by_its_name_alone_can_be_looked_into_after_the_first_message(
        self, slack: SlackServer
    ) -> None:
        world = World(slack, now=time.time(), thread_updates=False)
        world.say(OPENED)
        world.settle()
        slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.say(make_transition(incident="other"))
        world.settle()
        world.settle(10)
        assert len(slack.parents()) == 2

    def test_a_message_of_unknown_fate_is_looked_up_in_a_storm_and_not_put_into_the_digest(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.slack.fail_next("conversations.history", status=503, error="x")
        world.say(OPENED)
        world.settle()
        world.start()
        world.say(*(make_transition(incident=f"i{number}") for number in range(100)), UPDATED)
        for _ in range(60):
            world.settle(2)
        shown = [m.metadata["event_payload"] for m in world.slack.parents()]
        assert [one["seq"] for one in shown if one["incident"] == OPENED.incident] == [2]
        assert entry_state(world) == "sent"

    @pytest.mark.parametrize("code", ["is_archived", "channel_not_found", "not_in_channel"])
    def test_a_message_in_a_channel_that_is_gone_is_replaced_in_the_new_one(self, world: World, code: str) -> None:
        world.say(OPENED)
        world.settle()
        world.slack.fail_next("chat.update", error=code)
        world.say(UPDATED)
        world.settle()
        assert [m.metadata["event_payload"]["seq"] for m in world.slack.parents()] == [1, 2]
        assert "takes its place" in world.slack.parents()[1].blocks[1]["text"]["text"]


class TestQuietHours:
    def test_a_change_in_quiet_hours_waits_as_well(self, slack: SlackServer) -> None:
        world = receivers(slack, routing=QUIET)
        world.say(OPENED)
        world.settle()
        world.say(UPDATED)
        world.settle(60)
        assert slack.calls == []
        world.settle(3600)
        assert [m.metadata["event_payload"]["seq"] for m in slack.parents()] == [2]

    def test_what_waits_for_the_end_of_quiet_hours_is_told_when_a_change_comes_after_it(
        self, slack: SlackServer
    ) -> None:
        world = receivers(slack, routing=QUIET)
        world.say(OPENED)
        world.settle()
        world.now += 3600
        world.say(UPDATED)
        world.settle()
        assert [m.metadata["event_payload"]["seq"] for m in slack.parents()] == [2]


def test_alertmanager_hears_the_end_of_what_was_resolved_while_nobody_delivered(slack: SlackServer) -> None:
    with Receiver() as receiver:
        settings = {"slack": {"enabled": False}, "alertmanager": {"enabled": True, "urls": [receiver.url]}}
        first = receivers(slack, **settings)
        # Compaction has taken its beginning.
        first.say(RESOLVED)
        for later, expected in ((600, [OPENED.incident]), (3600, [])):
            receiver.received.clear()
            Receivers(first.kafka, Sinks.model_validate(settings), first.now + later).settle()
            alerts = [one for received in receiver.received for one in received.json()]
            assert [one["labels"]["incident"] for one in alerts] == expected


class TestFigures:
    def test_what_waits_and_since_when(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", status=503, error="x", times=100)
        world.say(OPENED, make_transition(incident="other"))
        said = world.now
        world.settle()
        world.settle(10)
        labels = {"integration": "slack"}
        assert metric(world.board, "flinkwatch_notifications_queue_length", **labels) == 2
        oldest = metric(world.board, "flinkwatch_notifications_oldest_waiting_timestamp_seconds", **labels)
        assert oldest == pytest.approx(said, abs=0.01)
        assert metric(world.board, "flinkwatch_notification_log_oldest_unsettled_timestamp_seconds", **labels) is None

    def test_a_message_of_unknown_fate_is_unsettled_since_it_was_sent(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", reset=True)
        world.slack.fail_next("conversations.history", status=503, times=100)
        world.say(OPENED)
        sent = world.now
        world.settle()
        world.settle(1.5)
        labels = {"integration": "slack"}
        since = metric(world.board, "flinkwatch_notification_log_oldest_unsettled_timestamp_seconds", **labels)
        assert since == pytest.approx(sent, abs=0.01)
        assert metric(world.board, "flinkwatch_notification_log_entries", **labels) == 1

    def test_the_delay_runs_from_the_record_in_kafka_to_the_answer(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", status=503, headers={"Retry-After": "30"}, error="x")
        world.say(OPENED)
        world.settle()
        world.settle(30)
        delay = metric(world.board, "flinkwatch_notification_delay_seconds_sum", integration="slack")
        assert delay == pytest.approx(30, abs=0.1)

    def test_a_call_takes_as_long_as_the_clock_says(self, world: World) -> None:
        world.slack.on_call = lambda call: setattr(world, "now", world.now + 3)
        world.say(OPENED)
        world.settle()
        latency = metric(world.board, "flinkwatch_notification_latency_seconds_sum", integration="slack")
        assert latency == pytest.approx(3, abs=0.01)

    def test_a_defect_and_a_silence_are_counted(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sinks.integrations.slack.sink.render", lambda *_: 1 / 0)
        world.say(OPENED)
        world.settle()
        failed = metric(world.board, "flinkwatch_notifications_failed_total", integration="slack", reason="other")
        assert failed == 1


class TestLog:
    def test_the_log_reads_as_the_history_of_an_incident(self, world: World) -> None:
        with capture_logs() as lines:
            for one in (OPENED, CRITICAL, msgspec.structs.replace(RESOLVED, severity="critical")):
                world.say(one)
                world.settle()
        about = {"incident": OPENED.incident, "receiver": "slack", "cluster": "prod-eu", "job": "orders-enrichment"}
        expected = [(1, "opened", "warning"), (2, "updated", "critical"), (3, "resolved", "critical")]
        assert [line for line in lines if line["event"] == "incident notified"] == [
            {
                **about,
                "event": "incident notified",
                "log_level": "info",
                "kind": "checkpoint_overdue",
                "seq": seq,
                "change": change,
                "severity": severity,
            }
            for seq, change, severity in expected
        ]

    def test_a_postponed_notification_names_its_incident_and_the_reason(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", status=503, error="x")
        world.say(OPENED)
        with capture_logs() as lines:
            world.settle()
        (line,) = [line for line in lines if line["event"] == "notification postponed"]
        assert (line["kind"], line["job"], line["reason"], line["retry_in_s"]) == (
            "checkpoint_overdue",
            "orders-enrichment",
            "Slack is not available",
            1.0,
        )

    def test_a_digest_is_logged_as_one(self, world: World) -> None:
        world.say(*(make_transition(incident=f"i{number}") for number in range(100)))
        with capture_logs() as lines:
            for _ in range(60):
                world.settle(1)
        kinds = {line["kind"] for line in lines if line["event"] == "incident notified"}
        assert kinds == {"checkpoint_overdue", "digest"}


class TestStorms:
    def test_fifty_critical_incidents_at_once_get_messages_of_their_own_and_a_hundred_do_not(
        self, slack: SlackServer
    ) -> None:
        for count, folds in ((50, False), (100, True)):
            world = World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"))
            world.say(*(make_transition(incident=f"i{count}.{n}", severity="critical") for n in range(count)))
            world.settle()
            digests = metric(
                world.board, "flinkwatch_notifications_suppressed_total", integration="slack", reason="digest"
            )
            assert bool(digests) == folds

    def test_after_a_minute_of_calm_and_not_before_open_incidents_get_their_own_message(self, world: World) -> None:
        opened = [make_transition(incident=f"i{number}") for number in range(40)]
        world.say(*opened)
        world.settle()
        folded = [one for one in opened if entry_state(world, one.incident) == "folded"]
        assert folded
        world.say(*(msgspec.structs.replace(one, seq=2, transition="resolved") for one in folded[2:]))
        for _ in range(58):
            world.settle(1)
        assert entry_state(world, folded[0].incident) == "folded"
        for _ in range(20):
            world.settle(1)
        assert [entry_state(world, one.incident) for one in folded[:2]] == ["sent", "sent"]

    def test_who_takes_over_a_part_of_a_storm_tells_it_in_a_digest_of_its_own(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(100):
            world.say(make_transition(incident=f"i{number}"), partition=number % 2)
        run(world, 60)
        assert len(digests(world)) == 1
        second = [number for number in range(1, 100, 2) if state_in(world, number, 1) == "folded"]
        world.consumer.revoke([SECOND])
        world.settle()

        def subscribe(self: GroupConsumer, topics: list[str], listener: Any) -> None:
            self._listener = listener
            self.assign([SECOND])

        with monkeypatch.context() as patched:
            patched.setattr(GroupConsumer, "subscribe", subscribe)
            world.start()
        run(world, 30)
        assert len(digests(world)) == 2
        assert f"{len(second)} open" in digests(world)[1].text

    def test_a_storm_an_hour_after_the_last_gets_a_new_message(self, world: World) -> None:
        for first, begin in enumerate((0, 1_000)):
            opened = [make_transition(incident=f"i{number}") for number in range(begin, begin + 100)]
            world.say(*opened)
            run(world, 60)
            assert len(digests(world)) == first + 1
            world.say(*(msgspec.structs.replace(one, seq=2, transition="resolved") for one in opened))
            run(world, 120)
            assert len(digests(world)) == first + 1
            world.settle(3_600)
        assert all(": 0 open, " in digest.text for digest in digests(world))

    def test_old_incidents_of_a_digest_get_no_message_of_their_own_when_it_is_calm(self, world: World) -> None:
        world.say(*(make_transition(incident=f"old{number}") for number in range(5)))
        lose_log(world)
        world.now += 2 * 3_600
        world.start()
        run(world, 200)
        assert len(world.slack.parents()) == len(digests(world)) == 1
        world.say(make_transition(incident="old1", seq=2, transition="updated", severity="critical"))
        run(world, 20)
        assert len(world.slack.parents()) == 2

    def test_the_digest_follows_its_incidents_a_few_seconds_later(self, world: World) -> None:
        world.say(*(make_transition(incident=f"i{number}") for number in range(100)))
        run(world, 60)
        before = world.methods().count("chat.update")
        folded = [number for number in range(100) if state_in(world, number, 0) == "folded"]
        for number in folded[:10]:
            world.say(make_transition(incident=f"i{number}", seq=2, transition="resolved"))
            world.settle(0.1)
        world.settle(1)
        assert world.methods().count("chat.update") == before
        run(world, 6)
        assert world.methods().count("chat.update") == before + 1
        assert f"{len(folded) - 10} open" in digests(world)[0].text

    def test_an_older_change_of_an_incident_of_a_digest_changes_nothing(self, world: World) -> None:
        world.say(*(make_transition(incident=f"i{number}") for number in range(100)))
        run(world, 60)
        number = next(number for number in range(100) if state_in(world, number, 0) == "folded")
        world.say(make_transition(incident=f"i{number}", seq=3, transition="resolved"))
        world.say(make_transition(incident=f"i{number}", seq=2, transition="updated", severity="critical"))
        run(world, 10)
        entry = world.log_entry(f"i{number}")
        assert entry is not None
        assert (entry.seq, entry.resolved, entry.state) == (3, True, "folded")

    def test_after_a_restart_a_digest_counts_the_incidents_of_every_partition(self, world: World) -> None:
        for number in range(100):
            world.say(make_transition(incident=f"i{number}"), partition=number % 2)
        run(world, 60)
        folded = [number for number in range(100) if state_in(world, number, number % 2) == "folded"]
        world.start()
        world.say(make_transition(incident=f"i{folded[0]}", seq=2, transition="resolved"), partition=folded[0] % 2)
        run(world, 20)
        (digest,) = digests(world)
        assert f"{len(folded) - 1} open" in digest.text

    def test_a_change_hours_after_a_storm_leaves_the_counts_of_its_digest(self, world: World) -> None:
        """That of an incident which has had its own message since the storm ended."""
        for number in range(100):
            world.say(make_transition(incident=f"i{number}"))
        run(world, 60)
        folded = [number for number in range(100) if state_in(world, number, 0) == "folded"]
        for number in folded[1:]:
            world.say(make_transition(incident=f"i{number}", seq=2, transition="resolved"))
        run(world, 120)
        world.settle(2 * 3_600)
        run(world, 20)
        world.say(make_transition(incident=f"i{folded[0]}", seq=2, transition="resolved"))
        run(world, 20)
        (digest,) = digests(world)
        assert f"Storm of {len(folded)} incidents: 0 open, {len(folded)} over" in digest.text


def digests(world: World) -> list[Posted]:
    return [m for m in world.slack.parents() if m.metadata["event_payload"]["incident"].startswith("~")]


def state_in(world: World, number: int, partition: int) -> str:
    entry = world.log_entry(f"i{number}", partition)
    return "" if entry is None else entry.state


def run(world: World, seconds: int) -> None:
    for _ in range(seconds):
        world.settle(1)


class TestGivenUp:
    def test_what_is_refused_for_good_is_tried_each_hour_and_not_more_often(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", error="msg_too_long", times=1_000)
        world.say(OPENED)
        world.settle()
        calls = []
        for _ in range(5 * 12):
            before = len(world.slack.calls)
            world.settle(300)
            calls.append(len(world.slack.calls) - before)
        assert 4 <= sum(count > 0 for count in calls) <= 5

    def test_of_several_the_one_that_has_waited_longest_is_tried_first(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", error="msg_too_long", times=4)
        for number in range(2):
            world.say(make_transition(incident=f"i{number}"))
            world.settle()
            world.settle(60)
        world.settle(3_600)
        world.settle(1)
        first = world.slack.parents()[0].metadata["event_payload"]["incident"]
        assert first == "i0"
        # The receiver takes messages again: the other need not wait for the next hour.
        run(world, 120)
        assert len(world.slack.parents()) == 2

    def test_a_muted_one_is_neither_counted_nor_tried(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
        world.say(OPENED)
        world.settle()
        world.settle(2)
        world.say(make_transition(seq=2, transition="updated", silence=Silenced("a1", 1 << 42, "ann", "backfill")))
        world.settle(2)
        calls = len(world.slack.calls)
        for _ in range(3):
            world.settle(3_700)
        assert len([c for c in world.slack.calls[calls:] if c.method == "chat.postMessage"]) == 0
        assert metric(world.board, "flinkwatch_notifications_undelivered", integration="slack") == 0


def test_each_receiver_has_the_channel_in_which_it_looks(slack: SlackServer) -> None:
    config = {"enabled": True, "channel": "C0123456789"}
    (receiver,) = make_receivers(Sinks.model_validate({"slack": config}))
    assert receiver.channel == "C0123456789"
