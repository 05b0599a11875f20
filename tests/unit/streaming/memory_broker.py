"""A Kafka broker in memory, as commands read it, in the place of `sinks.kafka.clients.consumer`."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafka import TopicPartition
from kafka.errors import KafkaConnectionError


class Stored(NamedTuple):
    """A record as a consumer gives it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Found(NamedTuple):
    """The answer to a question for the first record from a time on."""

    offset: int
    timestamp: int


class MemoryBroker:
    """Topics as lists of records, by offset; `down` as long as no broker answers. `first` are the oldest offsets."""

    def __init__(self) -> None:
        self.logs: defaultdict[TopicPartition, list[Stored]] = defaultdict(list)
        self.first: dict[TopicPartition, int] = {}
        self.down = False
        self.reads = 0

    def create(self, *topics: str, partitions: int = 1) -> None:
        for topic in topics:
            for number in range(partitions):
                self.logs[TopicPartition(topic, number)] = []

    def write(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        timestamp: int = 0,
        partition: int = 0,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> None:
        log = self.logs[TopicPartition(topic, partition)]
        log.append(Stored(topic, partition, len(log), timestamp, key, value, headers))

    def consumer(self, _access: Any, **_options: Any) -> "MemoryConsumer":
        if self.down:
            raise KafkaConnectionError("no broker answers")
        return MemoryConsumer(self)


class MemoryConsumer:
    """What commands ask of a KafkaConsumer."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._positions: dict[TopicPartition, int] = {}

    def topics(self) -> set[str]:
        return {partition.topic for partition in self._broker.logs}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {p.partition for p in self._broker.logs if p.topic == topic} or None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._positions = {p: self._broker.first.get(p, 0) for p in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._positions |= self.beginning_offsets(partitions)

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: self._broker.first.get(p, 0) for p in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {p: len(self._broker.logs[p]) for p in partitions}

    def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, Found | None]:
        return {p: self._at(p, time) for p, time in times.items()}

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Stored]]:
        self._broker.reads += 1
        found = {}
        for partition, position in self._positions.items():
            if records := self._broker.logs[partition][position : position + 500]:
                found[partition] = records
                self._positions[partition] += len(records)
        return found

    def close(self) -> None:
        pass

    def _at(self, partition: TopicPartition, time: int) -> Found | None:
        kept = self._broker.logs[partition][self._broker.first.get(partition, 0) :]
        return next((Found(r.offset, r.timestamp) for r in kept if r.timestamp >= time), None)
