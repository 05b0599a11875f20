"""The turns of a worker, on a clock that is set by hand: when it reads, sends, commits, mends and ends."""

from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from msgspec.structs import replace
from structlog.testing import capture_logs

from sinks.contract.outcome import Found, RetryAfter
from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.worker import DeliveryWorker
from tests.unit.sinks.memory_kafka import TOPICS, GroupConsumer, Kept
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.scripted import EDITS, Bench

FIRST = TopicPartition(TOPICS.incidents, 0)
SECOND = TopicPartition(TOPICS.incidents, 1)


class Round(Bench):
    """A bench with a worker that reads from Kafka in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, with_log: bool = True) -> None:
        super().__init__(EDITS)
        monkeypatch.setattr("sinks.delivery.worker.time", SimpleNamespace(monotonic=lambda: self.now, time=self.wall))
        if not with_log:
            self.log._producer = None
        self.kafka.wall = self.wall
        self.consumer = GroupConsumer(self.kafka)
        self.worker = DeliveryWorker(self.consumer, self.kafka, self.dispatcher)

    def begin(self) -> None:
        """The group has given us our partitions, and they are read."""
        self.consumer.subscribe([TOPICS.incidents], self.worker.ownership)
        while self.worker.poll_once():
            pass

    def wall(self) -> float:
        return self.now + self.wall_s

    def write(self, *incidents: str, value: bytes | None = None) -> None:
        for name in incidents:
            text = value if value is not None else msgspec.json.encode(make_transition(incident=name))
            self.kafka.write(TOPICS.incidents, name, text)

    def sent(self) -> list[str]:
        return [incident for _, incident, *_ in self.sink.sent]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Round]:
    with capture_logs():
        yield Round(monkeypatch)


def stopped() -> Event:
    stop = Event()
    stop.set()
    return stop


@pytest.mark.parametrize(("kafka_answers", "drain_s", "sent"), [(True, 30.0, 1), (True, 0.0, 0), (False, 30.0, 0)])
def test_a_worker_that_is_stopped_sends_what_is_due_if_there_is_time_and_kafka_answers(
    world: Round, kafka_answers: bool, drain_s: float, sent: int
) -> None:
    if not kafka_answers:
        world.begin()
        world.kafka.refuse_commits = True
        world.write("before")
        world.worker.poll_once()
        world.sink.sent.clear()
    else:
        world.consumer.subscribe([TOPICS.incidents], world.worker.ownership)
    world.write("i")
    world.worker.run(stopped(), drain_s)
    assert len(world.sent()) == sent


def test_a_worker_reads_and_sends_until_it_is_stopped(world: Round) -> None:
    stop = Event()
    world.sink.on_send = stop.set
    world.consumer.subscribe([TOPICS.incidents], world.worker.ownership)
    world.write("a")
    world.worker.run(stop, 0.0)
    assert world.sent() == ["a"]


def test_after_a_full_poll_the_rest_is_read_before_anything_is_sent(
    world: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.delivery.worker._BATCH", 2)
    world.begin()
    world.write("a", "a", "a", "b", "c")
    turns = [(world.worker.poll_once(), len(world.sent())) for _ in range(4)]
    assert turns == [(True, 0), (True, 0), (True, 3), (False, 3)]


def test_a_record_that_needs_nothing_is_work_all_the_same(world: Round) -> None:
    world.begin()
    world.write("bad", value=b"{")
    assert [world.worker.poll_once() for _ in range(2)] == [True, False]
    assert world.kafka.committed[FIRST] == 1


def test_what_the_group_has_not_confirmed_for_three_seconds_is_not_sent(world: Round) -> None:
    world.begin()
    world.write("first")
    world.worker.poll_once()
    world.kafka.refuse_commits = True
    for later, name, sent in ((2.9, "second", 2), (0.1, "third", 2)):
        world.now += later
        world.write(name)
        world.worker.poll_once()
        assert len(world.sent()) == sent
    world.kafka.refuse_commits = False
    world.worker.poll_once()
    assert world.sent() == ["first", "second", "third"]


def test_while_nothing_is_due_the_group_is_not_asked(world: Round) -> None:
    world.begin()
    world.kafka.refuse_commits = True
    world.now += 60
    with capture_logs() as lines:
        assert not world.worker.poll_once()
    assert lines == []


def test_a_poll_waits_until_something_is_due(world: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []
    poll = world.consumer.poll
    monkeypatch.setattr(
        world.consumer, "poll", lambda timeout_ms, max_records: (waits.append(timeout_ms), poll(timeout_ms))[1]
    )
    world.begin()
    world.sink.answers.append(RetryAfter(0.75, "away", "serverError"))
    world.write("a")
    world.worker.poll_once()
    waits.clear()
    for _ in range(4):
        world.worker.poll_once()
        world.now += 0.25
    world.worker.poll_once()
    assert waits == [500, 500, 250, 10, 500]


def test_records_that_cannot_be_decoded_are_counted_in_the_log(world: Round) -> None:
    world.begin()
    world.write("a", "b", value=b"{")
    world.kafka.logs[FIRST].append(Kept(TOPICS.incidents, 0, 2, None, None))
    with capture_logs() as lines:
        world.worker.poll_once()
        world.write("c")
        world.worker.poll_once()
    skipped = [line["count"] for line in lines if line["event"].startswith("incidents skipped")]
    assert skipped == [2]
    assert world.sent() == ["c"]


def test_a_consumer_that_the_group_gives_nothing_for_a_minute_is_replaced(
    world: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty share is a decision, too: the group may have more members than partitions."""

    def poll_once() -> bool:
        world.now += 10
        return False

    monkeypatch.setattr(world.worker, "poll_once", poll_once)
    world.worker.ownership.on_partitions_assigned([])
    world.now += 3_600
    assert world.worker.ownership.undecided_s() == 0
    world.worker.ownership.on_partitions_revoked([FIRST])
    began = world.now
    with pytest.raises(KafkaTimeoutError, match="has not assigned partitions for 60 s"):
        world.worker.run(Event(), 0.0)
    assert world.now - began == 70


def test_between_two_slow_calls_the_group_hears_from_us(world: Round) -> None:
    world.begin()
    world.sink.on_send = lambda: setattr(world, "now", world.now + 1)
    world.write("a", "b")
    for sent in (1, 2):
        world.worker.poll_once()
        assert len(world.sent()) == sent


def test_what_was_polled_before_a_partition_moved_is_left_to_its_owner(world: Round) -> None:
    world.begin()
    world.write("a")
    world.consumer.revoke([FIRST])
    world.consumer._positions[FIRST] = 0
    poll = world.consumer.poll
    polled = poll(0)
    assert polled
    del world.consumer._positions[FIRST]
    world.consumer.poll = lambda timeout_ms, max_records: polled
    world.worker.poll_once()
    world.consumer.poll = poll
    world.worker.poll_once()
    assert world.sent() == []
    assert world.kafka.committed.get(FIRST, 0) == 0


@pytest.mark.parametrize("offsets_are_lost", [False, True])
def test_while_the_group_rebalances_nothing_of_a_partition_that_may_go_is_sent_and_afterwards_nothing_is_lost(
    world: Round, offsets_are_lost: bool
) -> None:
    world.begin()
    world.sink.answers.append(RetryAfter(1.0, "away", "serverError"))
    world.write("a")
    world.worker.poll_once()
    # The consumer lists it as assigned until the group has decided.
    world.consumer.lose_for_now([FIRST])
    assert FIRST in world.consumer.assignment()
    world.now += 60
    for _ in range(3):
        world.worker.poll_once()
    assert world.sent() == ["a"]
    if offsets_are_lost:
        world.kafka.committed.clear()
    world.consumer.assign([FIRST])
    while world.worker.poll_once():
        pass
    assert world.sent() == ["a", "a"]


def test_an_incident_whose_entry_in_the_log_is_damaged_is_looked_up_and_its_message_edited(world: Round) -> None:
    world.begin()
    world.write("a")
    world.worker.poll_once()
    world.kafka.write(TOPICS.deliveries, "slack/a", b"{")
    world.consumer.lose_for_now([FIRST])
    world.consumer.assign([FIRST])
    world.sink.finds.append(Found("C1", "7.7", 1))
    newer = make_transition(incident="a", seq=2, transition="updated")
    world.write("a", value=msgspec.json.encode(newer))
    while world.worker.poll_once():
        pass
    assert [ts for *_, ts in world.sink.sent] == ["", "7.7"]


def test_records_of_a_topic_that_was_created_again_are_no_history(world: Round) -> None:
    world.write("a", "b")
    world.begin()
    world.kafka.logs[FIRST].clear()
    world.kafka.committed.clear()
    world.write("new")
    # History of that age would go into a digest.
    world.now += 7_200
    world.consumer.lose_for_now([FIRST])
    world.consumer.assign([FIRST])
    while world.worker.poll_once():
        pass
    assert world.sent() == ["a", "b", "new"]


def test_a_channel_that_cannot_be_read_is_asked_again_when_it_says_and_records_wait_for_it(world: Round) -> None:
    world.sink.stands = RetryAfter(20.0, "limited", "rateLimited")
    world.write("a")
    world.begin()
    for _ in range(80):
        world.worker.poll_once()
        world.now += 0.25
    assert (len(world.sink.looked), world.sent()) == (1, [])
    world.sink.stands = {}
    for _ in range(3):
        world.worker.poll_once()
    assert (len(world.sink.looked), world.sent()) == (2, ["a"])


def test_offsets_are_committed_once_and_up_to_what_waits(world: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[dict[int, int]] = []
    commit = world.consumer.commit

    def note(offsets: dict[TopicPartition, Any], timeout_ms: int) -> None:
        commits.append({one.partition: offset.offset for one, offset in offsets.items()})
        commit(offsets, timeout_ms)

    world.begin()
    monkeypatch.setattr(world.consumer, "commit", note)
    world.sink.answers.append(RetryAfter(2.0, "away", "serverError"))
    world.write("a", "b")
    for _ in range(4):
        world.worker.poll_once()
    assert commits == []
    assert world.sent() == ["a", "b"]
    world.now += 2
    for _ in range(4):
        world.worker.poll_once()
    assert commits == [{0: 2}]


class TestLostLog:
    @pytest.fixture
    def made(self, world: Round, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        """When it was tried to make the log again; no broker takes it."""
        tried: list[float] = []

        def create_notification_log() -> None:
            tried.append(world.now)
            raise KafkaTimeoutError

        monkeypatch.setattr(world.kafka, "create_notification_log", create_notification_log)
        return tried

    def test_it_is_made_again_every_ten_seconds(self, world: Round, made: list[float]) -> None:
        world.begin()
        assert made == []
        world.kafka.notification_log_is_gone = True
        world.write("a")
        for _ in range(201):
            world.worker.poll_once()
            world.now += 0.125
        assert made == [1000, 1010, 1020]
        assert world.sent() == []

    def test_what_keeps_no_log_writes_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = Round(monkeypatch, with_log=False)
        world.begin()
        world.kafka.notification_logs_created += 1
        world.worker.poll_once()
        assert not world.log.is_kept

    def test_what_was_known_is_written_once_into_the_new_one(self, world: Round) -> None:
        world.begin()
        world.write("a")
        world.worker.poll_once()
        world.kafka.delete_notification_log()
        world.write("b")
        for _ in range(40):
            world.worker.poll_once()
            world.now += 0.5
        again = NotificationLog(None, TOPICS.deliveries, "slack")
        again.load(0, world.kafka.read_notification_log(0))
        assert [(one.incident, one.state) for _, one in again.entries() if one.incident in "ab"] == [
            ("a", "sent"),
            ("b", "sent"),
        ]
        keys = [key for key, _ in world.kafka.read_notification_log(0)]
        assert keys.count(b"slack/a") == 1


def test_with_a_full_outbox_nothing_is_read_until_there_is_room(world: Round, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinks.delivery.worker._OUTBOX_LIMIT", 2)
    world.begin()
    world.sink.answers.append(RetryAfter(60.0, "limited", "rateLimited"))
    world.write("a", "b")
    world.worker.poll_once()
    world.write("c")
    assert not world.worker.poll_once()
    assert len(world.dispatcher.outbox) == 2
    world.now += 60
    while world.worker.poll_once():
        pass
    assert world.sent() == ["a", "b", "a", "c"]


def test_a_partition_that_comes_while_the_outbox_is_full_is_not_read_either(
    world: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinks.delivery.worker._OUTBOX_LIMIT", 2)
    world.begin()
    world.consumer.revoke([SECOND])
    world.sink.answers.append(RetryAfter(60.0, "limited", "rateLimited"))
    world.write("a", "b")
    world.worker.poll_once()
    for name in ("c", "d"):
        world.kafka.write(TOPICS.incidents, name, msgspec.json.encode(make_transition(incident=name)), 1)
    world.consumer._positions[SECOND] = 0
    world.worker.ownership.on_partitions_assigned([SECOND])
    for _ in range(3):
        world.worker.poll_once()
    assert "c" not in world.dispatcher.outbox
    world.now += 60
    while world.worker.poll_once():
        pass
    assert sorted(set(world.sent())) == ["a", "b", "c", "d"]


def test_what_was_put_aside_is_read_again_also_after_a_record_that_could_not_be_read(world: Round) -> None:
    world.begin()
    world.write("a")
    world.worker.poll_once()
    entry = world.log.get(0, "a")
    assert entry is not None
    world.log.set(0, "a", replace(entry, state="undelivered", at=0, ts=""))
    whole = world.kafka.logs[FIRST][0]
    for value, sent in ((None, 1), (b"{", 1), (whole.value, 2)):
        world.kafka.logs[FIRST][0] = whole._replace(value=value)
        world.now += 3_600
        world.worker.poll_once()
        assert len(world.sent()) == sent
