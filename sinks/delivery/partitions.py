"""Partitions that come and go: whoever takes one over reads its ledger before its first record.

A listener may not take long, so it only notes what the group decides; the courier's thread acts on it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import structlog
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.structs import OffsetAndMetadata

from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import Ledger
from sinks.kafka.clients import Clients

log = structlog.get_logger()

_COMMIT_MS = 5_000
# An answer waits behind that of the fetch before it: a broker that takes 5 s for one is slow, not away.
_ASK_MS = 15_000


class Handover:
    """Of one lane. Used from one thread, but for the listener."""

    def __init__(
        self,
        consumer: Any,
        clients: Clients,
        ledger: Ledger,
        dispatcher: Dispatcher,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._consumer, self._clients, self._ledger = consumer, clients, ledger
        self._dispatcher, self._wall = dispatcher, wall
        self._moves: deque[_Move] = deque()
        self._look_at: float | None = None

    def listener(self) -> ConsumerRebalanceListener:
        """What the consumer tells of partitions that come and go."""
        return _Moves(self._moves)

    def waits(self) -> bool:
        """Whether nothing may be read yet: what stands in the channel is not known."""
        return self._look_at is not None

    def act(self) -> dict[TopicPartition, int | None]:
        """Acts on what the group has decided: partitions with the offset they are read from, None for those that are
        gone. Raises KafkaError.
        """
        moved: dict[TopicPartition, int | None] = {}
        while self._moves:
            move = self._moves.popleft()
            moved[move.partition] = self._move(move)
        return moved

    def look(self) -> None:
        """Before history is read, what stands in the channel must be known: until then nothing more is read."""
        if self._look_at is None or self._wall() < self._look_at:
            return
        delay = self._dispatcher.recovery.look(int(self._wall() * 1000))
        self._look_at = None if delay is None else self._wall() + delay

    def _move(self, move: "_Move") -> int | None:
        """A partition has come or gone; where it is read from."""
        partition = move.partition
        self._dispatcher.release(partition.partition)
        if not move.ours or partition not in self._consumer.assignment():
            return None
        records = self._clients.read_ledger(partition.partition) if self._ledger.is_kept else ()
        damaged = self._ledger.load(partition.partition, records)
        if damaged:
            log.error("notification log has unreadable entries", partition=partition.partition, count=len(damaged))
            self._dispatcher.recovery.doubt(partition.partition, damaged, int(self._wall() * 1000))
            self._dispatcher.count_damaged(len(damaged))
        if self._dispatcher.recovery.begins(partition.partition):
            position = self._begin(partition)
        else:
            position = self._resume(partition)
        self._dispatcher.take_over(partition.partition)
        if self._dispatcher.recovery.is_history(partition.partition, position):
            self._look_at = self._wall()
        return position

    def _begin(self, partition: TopicPartition) -> int:
        """The ledger of a partition begins here, or anew after it was lost: what is open is read from the topic."""
        end = self._consumer.end_offsets([partition])[partition]
        self._consumer.seek_to_beginning(partition)
        first: int = self._consumer.position(partition, timeout_ms=_ASK_MS)
        # First this, then the ledger: after a crash in between, all is still read.
        self._consumer.commit({partition: OffsetAndMetadata(first, "", -1)}, timeout_ms=_COMMIT_MS)
        self._dispatcher.recovery.begin(partition.partition, end, int(self._wall() * 1000))
        return first

    def _resume(self, partition: TopicPartition) -> int:
        """Reads on from what was committed.

        kafka-python keeps the position of a partition that was ours before a rebalance; what was in hand, though, is
        forgotten, since another one may have told it meanwhile.
        """
        committed = self._consumer.committed(partition, timeout_ms=_ASK_MS)
        if committed is None:
            self._consumer.seek_to_beginning(partition)
            if self._dispatcher.recovery.is_history(
                partition.partition, self._consumer.end_offsets([partition])[partition]
            ):
                # The topic was deleted, its offsets of the group with it, and made again: nothing in it is history.
                self._dispatcher.recovery.begin(partition.partition, 0, int(self._wall() * 1000))
        else:
            self._consumer.seek(partition, committed)
        position: int = self._consumer.position(partition, timeout_ms=_ASK_MS)
        return position


class _Move(NamedTuple):
    partition: TopicPartition
    ours: bool


class _Moves(ConsumerRebalanceListener):  # type: ignore[misc]
    """Notes what the group decides; the courier's thread acts on it, since a listener may not take long."""

    def __init__(self, moves: deque[_Move]) -> None:
        self._moves = moves

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Somebody else may have them."""
        self._moves.extend(_Move(partition, ours=False) for partition in revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """They are ours."""
        self._moves.extend(_Move(partition, ours=True) for partition in assigned)
