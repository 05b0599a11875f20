"""Partitions that this process gains and loses. It reads a partition's notification log before its first record."""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import structlog
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.structs import OffsetAndMetadata

from sinks.delivery.dispatcher import Dispatcher
from sinks.kafka.clients import Clients

log = structlog.get_logger()

_COMMIT_MS = 5_000
# An answer waits behind that of the fetch before it: a broker that takes 5 s for one is slow, not away.
_ASK_MS = 15_000


class Rebalance(NamedTuple):
    """What the group has decided about a partition."""

    partition: TopicPartition
    is_ours: bool


class PartitionOwnership(ConsumerRebalanceListener):  # type: ignore[misc]
    """Of one receiver. The consumer calls `on_…` while it polls and nothing may take long; `act` follows afterwards."""

    def __init__(self, consumer: Any, clients: Clients, dispatcher: Dispatcher) -> None:
        self._consumer, self._clients, self._dispatcher = consumer, clients, dispatcher
        self._log, self._bootstrap, self._clocks = dispatcher.log, dispatcher.bootstrap, dispatcher.clocks
        self._decided: deque[Rebalance] = deque()
        self._read_channel_at: float | None = None
        self._undecided_since: float | None = dispatcher.clocks.monotonic()

    def undecided_s(self) -> float:
        """For how many seconds the group has not decided which partitions are this process's."""
        return 0.0 if self._undecided_since is None else self._clocks.monotonic() - self._undecided_since

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._undecided_since = self._clocks.monotonic()
        self._decided.extend(Rebalance(partition, is_ours=False) for partition in revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._undecided_since = None
        self._decided.extend(Rebalance(partition, is_ours=True) for partition in assigned)

    def is_waiting(self) -> bool:
        """Whether nothing may be read yet, because it is not known which messages exist in the channel."""
        return self._read_channel_at is not None

    def act(self) -> dict[TopicPartition, int | None]:
        """Acts on what the group has decided: partitions with the offset they are read from, None for those that are
        lost. Raises KafkaError.
        """
        moved: dict[TopicPartition, int | None] = {}
        while self._decided:
            one = self._decided.popleft()
            moved[one.partition] = self._act(one)
        return moved

    def read_channel(self) -> None:
        """Finds out which messages exist in the channel, which records from before the log need. It may take tries."""
        if self._read_channel_at is None or self._clocks.wall() < self._read_channel_at:
            return
        delay = self._bootstrap.read_channel(self._clocks.now_ms())
        self._read_channel_at = None if delay is None else self._clocks.wall() + delay

    def _act(self, decided: Rebalance) -> int | None:
        where, partition = decided.partition, decided.partition.partition
        self._dispatcher.release(partition)
        if not decided.is_ours or where not in self._consumer.assignment():
            return None
        records = self._clients.read_notification_log(partition) if self._log.is_kept else ()
        damaged = self._log.load(partition, records)
        if damaged:
            log.error("notification log has unreadable entries", partition=partition, count=len(damaged))
            self._bootstrap.mark_unknown(partition, damaged, self._clocks.now_ms())
            self._dispatcher.count_damaged(len(damaged))
        position = self._start(where) if self._bootstrap.is_new(partition) else self._resume(where)
        self._dispatcher.take_over(partition)
        if self._bootstrap.predates_log(partition, position):
            self._read_channel_at = self._clocks.wall()
        return position

    def _start(self, partition: TopicPartition) -> int:
        """The log of a partition is new, or was lost. Open incidents are read from the beginning of the topic."""
        end = self._consumer.end_offsets([partition])[partition]
        self._consumer.seek_to_beginning(partition)
        first: int = self._consumer.position(partition, timeout_ms=_ASK_MS)
        # The commit comes first: after a crash in between, everything is still read.
        self._consumer.commit({partition: OffsetAndMetadata(first, "", -1)}, timeout_ms=_COMMIT_MS)
        self._bootstrap.start_log(partition.partition, end, self._clocks.now_ms())
        return first

    def _resume(self, partition: TopicPartition) -> int:
        """Continues at the committed offset. kafka-python keeps its own position in a partition that was ours before a
        rebalance, but what was in hand is forgotten, because another process may have sent it meanwhile.
        """
        committed = self._consumer.committed(partition, timeout_ms=_ASK_MS)
        if committed is None:
            self._consumer.seek_to_beginning(partition)
            end = self._consumer.end_offsets([partition])[partition]
            if self._bootstrap.predates_log(partition.partition, end):
                # The topic was deleted, with the group's offsets, and created again: nothing in it predates the log.
                self._bootstrap.start_log(partition.partition, 0, self._clocks.now_ms())
        else:
            self._consumer.seek(partition, committed)
        position: int = self._consumer.position(partition, timeout_ms=_ASK_MS)
        return position
