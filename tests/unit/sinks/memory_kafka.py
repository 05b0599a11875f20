"""Kafka in memory: what delivery asks of it, one process, no time. Stands in for `sinks.kafka.clients.Clients`."""

import time
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import CommitFailedError, KafkaTimeoutError

from sinks.kafka.topics import TopicNames

TOPICS = TopicNames()


class Kept(NamedTuple):
    """A record as a consumer gives it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = 0


class MemoryKafka:
    """Topics as lists. `refuse_writes` makes the log unreachable, `refuse_commits` is a group that has others;
    `slow_writes`: a write is in the topic when the writer has waited for it, and is lost with the process otherwise.
    """

    def __init__(self) -> None:
        self.logs: defaultdict[TopicPartition, list[Kept]] = defaultdict(list)
        self._groups: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
        self.refuse_writes = False
        self.refuse_commits = False
        self.slow_writes = False
        self.notification_log_is_gone = False
        self.notification_logs_created = 0
        self.read_again: list[int] = []
        self.wall = time.time
        self.partitions = 2
        for partition in range(self.partitions):
            for topic in (TOPICS.incidents, TOPICS.readings):
                self.logs[TopicPartition(topic, partition)] = []

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The offsets of Slack's own channel."""
        return self.group("slack")

    def group(self, receiver: str) -> dict[TopicPartition, int]:
        """The offsets that a receiver has committed."""
        return self._groups[receiver]

    def write(self, topic: str, key: str, value: bytes | None, partition: int = 0) -> None:
        """Appends a record."""
        log = self.logs[TopicPartition(topic, partition)]
        log.append(Kept(topic, partition, len(log), key.encode(), value, int(self.wall() * 1000)))

    def group_consumer(self, receiver: str) -> Any:
        return GroupConsumer(self, receiver)

    def board_consumer(self) -> Any:
        return BoardConsumer(self)

    def feedback_consumer(self) -> Any:
        return FeedbackConsumer(self)

    def write_record(self, topic: str, key: bytes, value: bytes) -> None:
        if self.refuse_writes:
            _refuse(0.0)
        self.write(topic, key.decode(), value)

    def site_consumer(self) -> Any:
        return BoardConsumer(self, (TOPICS.incidents, TOPICS.deliveries, TOPICS.config))

    def reader(self) -> Any:
        return Reader(self)

    def producer(self) -> Any:
        return Producer(self)

    def delete_notification_log(self) -> None:
        """As an operator may while it runs."""
        self.notification_log_is_gone = True
        for partition in list(self.logs):
            if partition.topic == TOPICS.deliveries:
                self.logs[partition].clear()

    def create_notification_log(self) -> None:
        if self.notification_log_is_gone:
            self.notification_log_is_gone = False
            self.notification_logs_created += 1

    def read_incident(self, partition: int, offset: int) -> tuple[int, bytes] | None:
        self.read_again.append(offset)
        kept = self.logs[TopicPartition(TOPICS.incidents, partition)][offset]
        return None if kept.value is None else (kept.offset, kept.value)

    def read_notification_log(self, partition: int) -> Iterator[tuple[bytes | None, bytes | None]]:
        for kept in self.logs[TopicPartition(TOPICS.deliveries, partition)]:
            yield kept.key, kept.value


class _Consumer:
    def __init__(self, kafka: MemoryKafka, receiver: str = "slack") -> None:
        self._kafka = kafka
        self._committed = kafka.group(receiver)
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.closed = False

    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[TopicPartition, list[Kept]]:
        found: dict[TopicPartition, list[Kept]] = {}
        for partition, position in self._positions.items():
            records = self._kafka.logs[partition][position : position + max_records]
            if records and partition not in self._paused:
                found[partition] = records
                self._positions[partition] += len(records)
                max_records -= len(records)
        return found

    def close(self, autocommit: bool = True, timeout_ms: int | None = None) -> None:
        self.closed = True


class GroupConsumer(_Consumer):
    """Owns every partition from `subscribe` on; `revoke` and `assign` act as the group would."""

    def subscribe(self, topics: list[str], listener: Any) -> None:
        self._listener = listener
        self.assign([partition for partition in self._kafka.logs if partition.topic in topics])

    def assign(self, partitions: list[TopicPartition]) -> None:
        # As kafka-python does: a partition that stays over a rebalance keeps its position.
        fresh = {partition: self._committed.get(partition, 0) for partition in partitions}
        self._positions = fresh | self._positions
        self._listener.on_partitions_assigned(partitions)

    def revoke(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            del self._positions[partition]
        self.lose_for_now(partitions)

    def lose_for_now(self, partitions: list[TopicPartition]) -> None:
        """A rebalance begins; what `assign` then names stays."""
        self._listener.on_partitions_revoked(partitions)

    def commit(self, offsets: dict[TopicPartition, Any], timeout_ms: int) -> None:
        assert all(one.offset >= 0 and one.leader_epoch == -1 for one in offsets.values()), offsets
        if self._kafka.refuse_commits:
            raise CommitFailedError("the group has other members")
        self._committed |= {partition: offset.offset for partition, offset in offsets.items()}

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self._kafka.logs[partition]) for partition in partitions}

    def committed(self, partition: TopicPartition, timeout_ms: int) -> int | None:
        return self._kafka.committed.get(partition)

    def position(self, partition: TopicPartition, timeout_ms: int = 0) -> int:
        return self._positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def seek_to_beginning(self, partition: TopicPartition) -> None:
        self._positions[partition] = 0

    def paused(self) -> set[TopicPartition]:
        return self._paused

    def pause(self, *partitions: TopicPartition) -> None:
        self._paused |= set(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self._paused -= set(partitions)


class BoardConsumer(_Consumer):
    """Reads everything from the beginning, by default what the collector needs."""

    def __init__(self, kafka: MemoryKafka, topics: tuple[str, ...] = (TOPICS.incidents, TOPICS.readings)) -> None:
        super().__init__(kafka)
        self._topics = topics

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[TopicPartition, list[Kept]]:
        for partition in list(self._kafka.logs):
            if partition.topic in self._topics:
                self._positions.setdefault(partition, 0)
        return super().poll(timeout_ms, max_records)

    def end_offsets(self, partitions: list[TopicPartition], timeout_ms: int) -> dict[TopicPartition, int]:
        return {partition: len(self._kafka.logs[partition]) for partition in partitions}

    def position(self, partition: TopicPartition, timeout_ms: int) -> int:
        return self._positions[partition]

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._positions |= dict.fromkeys(partitions, 0)


class FeedbackConsumer(BoardConsumer):
    """Reads people's feedback and the configuration topic."""

    def __init__(self, kafka: MemoryKafka) -> None:
        super().__init__(kafka)
        self._positions = {TopicPartition(topic, 0): 0 for topic in (TOPICS.feedback, TOPICS.config)}

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[TopicPartition, list[Kept]]:
        time.sleep(0.01)
        return _Consumer.poll(self, timeout_ms, max_records)


class Reader(_Consumer):
    """Reads what it is assigned."""

    def partitions_for_topic(self, topic: str) -> set[int]:
        return {partition.partition for partition in self._kafka.logs if partition.topic == topic}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._positions = dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: len(self._kafka.logs[partition]) for partition in partitions}

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._positions |= dict.fromkeys(partitions, 0)


class Producer:
    """Writes at once."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka

    def send(self, topic: str, *, key: bytes, value: bytes | None, partition: int) -> Any:
        if self._kafka.notification_log_is_gone:
            raise KafkaTimeoutError("no metadata of the topic")
        if self._kafka.refuse_writes:
            return SimpleNamespace(get=_refuse)
        if self._kafka.slow_writes:
            return SimpleNamespace(get=lambda timeout: self._kafka.write(topic, key.decode(), value, partition))
        self._kafka.write(topic, key.decode(), value, partition)
        return SimpleNamespace(get=lambda timeout: None)

    def close(self, timeout: float) -> None:
        """Nothing is held."""


def _refuse(timeout: float) -> None:
    raise KafkaTimeoutError("no broker")
