"""What is written when, who may send, and what a crash, a rebalance or a refused write leaves behind."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import NotificationLog
from tests.fake_slack.server import TOKEN, SlackServer
from tests.unit.sinks.delivery.test_bootstrap import DAY_S, lose_log
from tests.unit.sinks.delivery.test_delivery import FIRST, OPENED, RESOLVED, UPDATED, World, metric
from tests.unit.sinks.memory_kafka import TOPICS, Kept
from tests.unit.sinks.samples import make_transition

SECOND = TopicPartition(TOPICS.incidents, 1)


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlackServer]:
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    with SlackServer() as server:
        yield server


@pytest.fixture
def world(slack: SlackServer) -> World:
    """Slack can be asked what stands in the channel."""
    return World(slack, now=time.time(), channel=slack.channel_id("flink-alerts"), thread_updates=False)


def seqs(world: World) -> list[int]:
    """The transitions that the messages show."""
    return [message.metadata["event_payload"]["seq"] for message in world.slack.parents()]


def flood(world: World, count: int = 100) -> None:
    world.say(*(make_transition(incident=f"i{number}") for number in range(count)))
    world.settle()


class TestWrites:
    def test_the_log_has_what_an_offset_stands_for_before_it_is_committed(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.kafka.slow_writes = True
        world.kafka.write(TOPICS.incidents, OPENED.incident, None)
        world.settle()
        assert world.kafka.committed[FIRST] == 2
        assert world.log_entry(OPENED.incident) is None

    def test_incidents_of_a_digest_are_in_the_log_before_their_offsets_are_committed(self, world: World) -> None:
        world.kafka.slow_writes = True
        flood(world)
        for _ in range(60):
            world.settle(1)
        lost = [n for n in range(world.kafka.committed[FIRST]) if world.log_entry(f"i{n}") is None]
        assert world.kafka.committed[FIRST] > 50
        assert lost == []

    def test_a_write_that_the_brokers_refused_is_made_again(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.kafka.write(TOPICS.incidents, OPENED.incident, None)
        world.kafka.refuse_writes = True
        world.settle()
        assert world.kafka.committed[FIRST] == 1
        world.kafka.refuse_writes = False
        world.settle(5)
        world.settle(5)
        assert world.log_entry(OPENED.incident) is None
        assert world.kafka.committed[FIRST] == 2

    def test_what_could_not_be_written_of_a_partition_is_not_written_when_it_belongs_to_another(
        self, world: World
    ) -> None:
        world.say(OPENED, partition=1)
        world.settle()
        world.kafka.refuse_writes = True
        world.kafka.write(TOPICS.incidents, OPENED.incident, None, 1)
        world.settle()
        world.consumer.revoke([SECOND])
        world.settle()
        world.kafka.refuse_writes = False
        world.say(make_transition(incident="other"))
        world.settle(5)
        world.settle(5)
        assert world.log_entry(OPENED.incident, 1) is not None
        assert world.kafka.committed[FIRST] == 1

    def test_a_change_that_comes_while_the_last_one_is_not_recorded_is_told(self, world: World) -> None:
        world.slack.on_call = lambda call: setattr(world.kafka, "refuse_writes", True)
        world.say(OPENED)
        world.settle()
        world.slack.on_call = None
        world.say(UPDATED)
        world.settle()
        world.kafka.refuse_writes = False
        world.settle(120)
        assert seqs(world) == [2]

    def test_an_intent_that_could_not_be_written_is_no_send_that_must_be_looked_up(self, world: World) -> None:
        world.kafka.refuse_writes = True
        world.say(OPENED)
        world.settle()
        world.kafka.refuse_writes = False
        world.settle(60)
        assert world.methods() == ["chat.postMessage"]


class TestOwnership:
    @pytest.fixture
    def clock(self, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
        """The worker's monotonic clock."""
        made = SimpleNamespace(now=time.monotonic() + 100)
        monkeypatch.setattr("sinks.delivery.worker.time", SimpleNamespace(monotonic=lambda: made.now, time=time.time))
        return made

    def test_a_process_that_the_group_has_given_up_sends_nothing(self, world: World, clock: SimpleNamespace) -> None:
        world.kafka.refuse_commits = True
        clock.now += 60
        world.say(OPENED)
        world.settle()
        assert world.slack.calls == []
        world.kafka.refuse_commits = False
        clock.now += 60
        world.settle(1)
        assert seqs(world) == [1]

    def test_after_a_long_pause_a_process_that_is_still_a_member_sends(
        self, world: World, clock: SimpleNamespace
    ) -> None:
        world.say(OPENED)
        world.settle()
        clock.now += 600
        world.say(UPDATED)
        world.settle()
        assert seqs(world) == [2]

    def test_the_group_is_asked_again_between_sends_once_its_word_is_old(
        self, world: World, clock: SimpleNamespace
    ) -> None:
        def pause(_: object) -> None:
            # It is frozen with the first message on its way; meanwhile the group gives its partitions away.
            clock.now += 60
            world.kafka.refuse_commits = True

        world.slack.on_call = pause
        world.say(OPENED, make_transition(incident="other"))
        world.settle()
        assert len(world.slack.calls) == 1

    def test_what_was_polled_of_a_partition_that_goes_meanwhile_is_not_sent(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.say(OPENED, partition=1)
        poll = world.consumer.poll

        def losing(*arguments: Any, **options: Any) -> dict[TopicPartition, list[Kept]]:
            found = poll(*arguments, **options)
            world.consumer.revoke([SECOND])
            return found

        with monkeypatch.context() as patched:
            patched.setattr(world.consumer, "poll", losing)
            world.worker.poll_once()
        world.settle()
        assert world.slack.calls == []
        assert world.kafka.committed.get(SECOND, 0) == 0

    def test_a_partition_that_comes_and_goes_between_two_polls_is_left_alone(self, world: World) -> None:
        world.consumer.revoke([SECOND])
        world.settle()
        world.say(OPENED, partition=1)
        # As kafka-python tells it: first that it is ours, and only at the next poll that it is gone.
        world.consumer._listener.on_partitions_assigned([SECOND])
        world.settle()
        assert world.slack.calls == []


class TestBeginnings:
    def test_a_crash_right_after_the_log_has_begun_loses_no_incident(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.say(OPENED)
        lose_log(world)
        world.kafka.committed[FIRST] = 1

        def crash(*_: object) -> None:
            raise KafkaTimeoutError("killed")

        with monkeypatch.context() as patched:
            patched.setattr(Dispatcher, "take_over", crash)
            with pytest.raises(KafkaTimeoutError):
                world.start()
        world.start()
        world.settle()
        assert seqs(world) == [1]

    def test_what_was_given_up_and_has_ended_is_kept_after_weeks_without_a_deliverer(self, world: World) -> None:
        world.say(OPENED)
        world.settle()
        world.slack.fail_next("chat.update", error="msg_too_long", times=2)
        world.say(RESOLVED)
        world.settle()
        world.settle(2)
        world.now += 20 * DAY_S
        world.start()
        world.settle()
        world.settle(3700)
        assert "Resolved" in world.slack.parents()[0].text

    def test_a_record_that_is_older_than_what_is_known_is_not_told(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """When the storm is over, Kafka gives an older record in place of the one that compaction has taken."""
        flood(world, 40)
        folded = [n for n in range(40) if (entry := world.log_entry(f"i{n}")) and entry.state == "folded"]
        world.say(*(make_transition(incident=f"i{n}", seq=2, transition="updated") for n in folded))
        world.settle()
        record = next(one for one in world.kafka.logs[FIRST] if one.key == f"i{folded[0]}".encode())
        monkeypatch.setattr(world.kafka, "read_incident", lambda partition, offset: (record.offset, record.value))
        for _ in range(90):
            world.settle(1)
        assert len(folded) > 3
        assert f"i{folded[0]}" not in {m.metadata["event_payload"]["incident"] for m in world.slack.parents()}


class TestUnclearAnswers:
    def test_a_second_lost_answer_is_looked_up_as_well(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", reset=True)
        world.slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.say(OPENED)
        world.settle()
        for _ in range(10):
            world.settle(10)
        assert len(world.slack.parents()) == 1
        assert world.methods().count("chat.postMessage") == 2

    def test_a_clock_that_is_two_minutes_ahead_of_slacks_doubles_nothing(self, slack: SlackServer) -> None:
        world = World(slack, now=time.time() + 120, channel=slack.channel_id("flink-alerts"))
        slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.say(OPENED)
        world.settle()
        world.settle(10)
        assert len(slack.parents()) == 1

    def test_what_was_given_up_after_a_day_of_lost_answers_is_looked_up_as_far_back(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", reset=True, accept=True)
        world.slack.fail_next("conversations.history", status=503, times=100_000)
        world.say(OPENED)
        for _ in range(300):
            world.settle(DAY_S / 200)
        entry = world.log_entry(OPENED.incident)
        assert entry is not None
        assert entry.state == "undelivered"
        world.slack.forgive()
        for _ in range(5):
            world.settle(3700)
        assert len(world.slack.parents()) == 1


class TestPace:
    def test_new_messages_keep_below_slacks_limit(self, slack: SlackServer) -> None:
        world = World(slack, channel=slack.channel_id("flink-alerts"), digest_above=1_000, posts_per_minute=60)
        flood(world)
        assert len(slack.parents()) == 10
        for _ in range(30):
            world.settle(1)
        assert len(slack.parents()) == 40

    def test_lines_in_threads_count_as_new_messages(self, slack: SlackServer) -> None:
        pace = {"posts_per_minute": 60, "edits_per_minute": 1_000}
        world = World(slack, channel=slack.channel_id("flink-alerts"), digest_above=1_000, **pace)
        flood(world, 20)
        for _ in range(60):
            world.settle(1)
        before = world.methods().count("chat.postMessage")
        world.say(
            *(make_transition(incident=f"i{n}", seq=2, transition="updated", severity="critical") for n in range(20))
        )
        for _ in range(3):
            world.settle(1)
        assert world.methods().count("chat.update") == 20
        assert 10 <= world.methods().count("chat.postMessage") - before <= 13

    def test_slack_that_is_away_for_one_message_is_tried_for_others(self, world: World) -> None:
        world.slack.fail_next("chat.postMessage", status=503, headers={"Retry-After": "30"}, error="x")
        world.say(OPENED)
        world.settle()
        world.say(make_transition(incident="other"))
        world.settle(1)
        assert len(world.slack.parents()) == 1
        world.settle(30)
        assert len(world.slack.parents()) == 2


class TestLoading:
    """`NotificationLog.load` of a partition that holds what it should not."""

    def test_what_is_not_ours_or_not_readable_takes_nothing_else_with_it(self) -> None:
        kept = b'{"incident":"i","seq":1,"state":"sent","at":1}'
        log = NotificationLog(None, TOPICS.deliveries, "slack")
        records = [
            (None, b"{}"),
            (b"webhook/i", kept),
            (b"slack/gone", kept),
            (b"slack/gone", None),
            (b"slack/never", None),
            (b"slack/broken", kept),
            (b"slack/broken", kept[:20]),
            (b"slack/deep", b"[" * 100_000),
            (b"slack/i", kept),
        ]
        assert log.load(0, records) == ["broken", "deep"]
        assert [entry.incident for _, entry in log.entries()] == ["i"]
        assert log.get(0, "gone") is None
        assert log.partitions() == [0]

    def test_a_partition_that_has_gone_is_forgotten(self) -> None:
        log = NotificationLog(None, TOPICS.deliveries, "slack")
        for partition in (1, 0):
            log.load(partition, [(b"slack/i", b'{"incident":"i","seq":1,"state":"sent","at":1}')])
        assert log.partitions() == [0, 1]
        log.drop(0)
        assert log.partitions() == [1]
        assert log.get(0, "i") is None
        assert log.get(1, "i") is not None


def test_undelivered_incidents_are_counted_from_the_start(world: World) -> None:
    world.slack.fail_next("chat.postMessage", error="msg_too_long", times=2)
    world.say(OPENED)
    world.settle()
    world.settle(2)
    world.start()
    world.settle(2)
    assert metric(world.board, "flinkwatch_notifications_undelivered", integration="slack") == 1
