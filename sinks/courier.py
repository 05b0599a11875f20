"""Reads incidents as one of a consumer group and has the dispatcher send them.

A partition belongs to one courier at a time; whoever takes it over reads its ledger before its first record.
"""

import time
from collections import deque
from collections.abc import Iterable
from threading import Event
from typing import Any, NamedTuple

import structlog
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from detectors.incidents.incident import decode_transition
from sinks.dispatch import INTEGRATION, Dispatcher
from sinks.kafka_clients import UNREADABLE, Clients
from sinks.ledger import Ledger
from sinks.prometheus import Board
from sinks.slack.client import SlackClient
from sinks.slack.settings import SlackConfig
from sinks.topics import TopicNames

log = structlog.get_logger()

_BATCH = 500
_OUTBOX_LIMIT = 5_000
_POLL_MIN_MS, _POLL_MAX_MS = 10, 500
_CLOSE_MS = 2_000
_COMMIT_MS = 5_000


def deliver_incidents(
    clients: Clients, topics: TopicNames, slack: SlackConfig, board: Board, *, stop: Event, drain_s: float
) -> None:
    """Delivers until `stop`, then for at most `drain_s` seconds what is due. With Slack off it only counts.

    Raises kafka.errors.KafkaError when Kafka cannot be used: then call it again.
    """
    producer: Any = None
    consumer: Any = None
    try:
        producer = clients.producer()
        consumer = clients.group_consumer()
        ledger = Ledger(producer, topics.deliveries, INTEGRATION)
        dispatcher = Dispatcher(slack, SlackClient(slack), ledger, board) if slack.enabled else None
        courier = Courier(consumer, clients=clients, topics=topics, ledger=ledger, dispatcher=dispatcher, board=board)
        courier.run(stop, drain_s)
    finally:
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
        if producer is not None:
            _close(producer)


def _close(producer: Any) -> None:
    try:
        producer.close(timeout=_CLOSE_MS / 1000)
    except KafkaError as error:
        # The ledger was told of the failure at the write itself.
        log.warning("producer did not close in order", error=type(error).__name__)


class Courier:
    """One member of the consumer group. Used from one thread."""

    def __init__(
        self,
        consumer: Any,
        *,
        clients: Clients,
        topics: TopicNames,
        ledger: Ledger,
        dispatcher: Dispatcher | None,
        board: Board,
    ) -> None:
        self._consumer = consumer
        self._clients = clients
        self._topics = topics
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._board = board
        self._moves: deque[_Move] = deque()
        self._read: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._kafka_answers = True

    def run(self, stop: Event, drain_s: float) -> None:
        """See `deliver_incidents`."""
        self._consumer.subscribe([self._topics.incidents], listener=self.listener())
        while not stop.is_set():
            self.turn()
        deadline = time.monotonic() + drain_s
        # Without Kafka nothing can be recorded, and what is not recorded is better sent after the next start.
        while self._kafka_answers and time.monotonic() < deadline and self.turn():
            pass

    def listener(self) -> ConsumerRebalanceListener:
        """What the consumer tells of partitions that come and go."""
        return _Moves(self._moves)

    def turn(self) -> bool:
        """Reads what has come, sends at most one notification, commits. False when there was nothing to do."""
        arrived = self._consumer.poll(timeout_ms=self._patience_ms(), max_records=_BATCH)
        while self._moves:
            self._move(self._moves.popleft())
        for partition, records in arrived.items():
            self._accept(partition, records)
        count = sum(map(len, arrived.values()))
        # A full batch means that more is there: of what waits only the newest change of an incident is worth sending.
        sent = count < _BATCH and self._dispatcher is not None and self._dispatcher.send_next()
        self._hold_or_go_on()
        self._commit()
        return count > 0 or sent

    def _patience_ms(self) -> int:
        due = self._dispatcher.due_in() if self._dispatcher is not None else None
        return _POLL_MAX_MS if due is None else int(min(max(due * 1000, _POLL_MIN_MS), _POLL_MAX_MS))

    def _move(self, move: "_Move") -> None:
        """A partition has come or gone."""
        partition = move.partition
        self._read.pop(partition, None)
        self._committed.pop(partition, None)
        if self._dispatcher is None:
            return
        self._dispatcher.outbox.drop(partition.partition)
        if move.ours:
            unreadable = self._ledger.load(partition.partition, self._clients.read_ledger(partition.partition))
            if unreadable:
                log.error("delivery ledger has unreadable entries", partition=partition.partition, count=unreadable)
        else:
            self._ledger.drop(partition.partition)

    def _accept(self, partition: TopicPartition, records: list[Any]) -> None:
        skipped = 0
        for record in records:
            try:
                self._accept_one(record)
            except UNREADABLE:
                skipped += 1
            self._read[partition] = record.offset + 1
        if skipped:
            # The board counts them: it reads every record, a courier only its share.
            log.error("incidents skipped, they cannot be decoded", partition=partition.partition, count=skipped)

    def _accept_one(self, record: Any) -> None:
        if record.value is None:
            if self._dispatcher is not None:
                self._dispatcher.forget((record.key or b"").decode("utf-8", "replace"), record.partition)
            return
        transition = decode_transition(record.value)
        if transition.transition == "opened":
            self._board.count_opened(transition)
        if self._dispatcher is not None:
            self._dispatcher.accept(transition, record.partition, record.offset)

    def _hold_or_go_on(self) -> None:
        """Bounds memory: with a full outbox nothing more is read, while the group still hears from us."""
        if self._dispatcher is None:
            return
        paused = bool(self._consumer.paused())
        full = len(self._dispatcher.outbox) >= _OUTBOX_LIMIT
        if full and not paused:
            self._consumer.pause(*self._consumer.assignment())
        elif paused and not full:
            self._consumer.resume(*self._consumer.assignment())

    def _commit(self) -> None:
        """Commits up to the first record that still waits; the ledger makes good for a commit that fails."""
        offsets = {}
        for partition, read in self._read.items():
            waits = self._dispatcher.outbox.lowest_offset(partition.partition) if self._dispatcher is not None else None
            offset = read if waits is None else waits
            if self._committed.get(partition) != offset:
                offsets[partition] = OffsetAndMetadata(offset, "", -1)
        if not offsets:
            return
        try:
            self._consumer.commit(offsets, timeout_ms=_COMMIT_MS)
        except KafkaError as error:
            log.warning("offsets not committed", error=type(error).__name__)
            self._kafka_answers = False
            return
        self._kafka_answers = True
        self._committed |= {partition: offset.offset for partition, offset in offsets.items()}


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
