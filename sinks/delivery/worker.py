"""Reads incidents as one of a consumer group and has the dispatcher send them.

A partition belongs to one courier at a time; whoever takes it over reads its ledger before its first record.
"""

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import structlog
from kafka import ConsumerRebalanceListener, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from detectors.incident import decode_transition
from detectors.values.decoding import UndecodableError
from sinks.contract.receiver import Lane
from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import Ledger
from sinks.delivery.partitions import Handover
from sinks.kafka.clients import Clients
from sinks.kafka.topics import TopicNames, TopicsError
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

_BATCH = 500
# Transitions with all their evidence: about 10 KB each.
_OUTBOX_LIMIT = 2_000
_POLL_MIN_MS, _POLL_MAX_MS = 10, 500
_CLOSE_MS = 2_000
_SEND_S = 0.05
_COMMIT_MS = 5_000
# Well below the session timeout: a group that has heard from us gives our partitions to nobody else for so long.
_OURS_S = 3.0
_MEND_EVERY_S = 10.0


def deliver_incidents(
    clients: Clients, topics: TopicNames, lane: Lane, *, board: IncidentCollector, stop: Event, drain_s: float
) -> None:
    """Delivers on one lane until `stop`, then for at most `drain_s` seconds what is due.

    Raises kafka.errors.KafkaError when Kafka cannot be used: then call it again.
    """
    ledger: Ledger | None = None
    consumer: Any = None
    try:
        ledger = Ledger(clients.producer() if lane.sink.traits.keeps_ledger else None, topics.deliveries, lane.name)
        consumer = clients.group_consumer(lane.name)
        dispatcher = Dispatcher(lane, ledger, board)
        Courier(consumer, clients=clients, topics=topics, ledger=ledger, dispatcher=dispatcher).run(stop, drain_s)
    finally:
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
        if ledger is not None:
            ledger.close()


class Courier:
    """One member of a lane's consumer group. Used from one thread."""

    def __init__(
        self,
        consumer: Any,
        *,
        clients: Clients,
        topics: TopicNames,
        ledger: Ledger,
        dispatcher: Dispatcher,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._consumer = consumer
        self._clients = clients
        self._topics = topics
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._handover = Handover(consumer, clients, ledger, dispatcher, wall)
        self._read: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._kafka_answers = True
        self._ours_until = 0.0
        self._mend_at = 0.0
        self._ledgers_made = clients.ledgers_made

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
        return self._handover.listener()

    def turn(self) -> bool:
        """Reads what has come, sends some of what is due, commits. False when there was nothing to do."""
        arrived = self._consumer.poll(timeout_ms=self._patience_ms(), max_records=_BATCH)
        moved = self._handover.act()
        for partition, position in moved.items():
            # What was polled of it comes again, or is another one's.
            arrived.pop(partition, None)
            self._committed.pop(partition, None)
            self._read.pop(partition, None)
            if position is not None:
                self._read[partition] = position
        self._handover.look()
        for partition, records in arrived.items():
            self._accept(partition, records)
        for number, offset in self._dispatcher.to_read():
            self._revive(number, offset)
        count = sum(map(len, arrived.values()))
        # A full batch means that more is there: of what waits only the newest change of an incident is worth sending.
        sent = count < _BATCH and self._send()
        self._hold_or_go_on()
        self._commit()
        self._mend_ledger()
        return count > 0 or sent or bool(moved)

    def _mend_ledger(self) -> None:
        """A ledger whose topic was deleted under us is made again, and what we know is written into it."""
        if self._ledger.is_failing and time.monotonic() >= self._mend_at:
            self._mend_at = time.monotonic() + _MEND_EVERY_S
            try:
                self._clients.make_ledger()
            except (KafkaError, TopicsError) as error:
                log.warning("notification log cannot be written", error=str(error) or type(error).__name__)
        if self._ledger.is_kept and self._clients.ledgers_made != self._ledgers_made:
            self._ledgers_made = self._clients.ledgers_made
            log.error("notification log was deleted, writing it again", topic=self._topics.deliveries)
            self._ledger.write_again(self._clients.producer())

    def _send(self) -> bool:
        """Sends for a moment: a poll between two calls costs more than a quick call."""
        until = time.monotonic() + _SEND_S
        sent = False
        while self._is_ours() and self._dispatcher.send_next():
            sent = True
            if time.monotonic() >= until:
                break
        return sent

    def _patience_ms(self) -> int:
        due = self._dispatcher.due_in()
        return _POLL_MAX_MS if due is None else int(min(max(due * 1000, _POLL_MIN_MS), _POLL_MAX_MS))

    def _revive(self, partition: int, offset: int) -> None:
        found = self._clients.read_incident(partition, offset)
        if found is None:
            return
        offset, value = found
        try:
            self._dispatcher.revive(decode_transition(value), partition, offset)
        except UndecodableError:
            log.warning("incident put aside cannot be decoded", partition=partition, offset=offset)

    def _accept(self, partition: TopicPartition, records: list[Any]) -> None:
        skipped = 0
        for record in records:
            try:
                self._accept_one(record)
            except UndecodableError:
                skipped += 1
            self._read[partition] = record.offset + 1
        if skipped:
            # The board counts them: it reads every record, a courier only its share.
            log.error("incidents skipped, they cannot be decoded", partition=partition.partition, count=skipped)

    def _accept_one(self, record: Any) -> None:
        if record.value is None:
            self._dispatcher.forget((record.key or b"").decode("utf-8", "replace"), record.partition)
        else:
            transition = decode_transition(record.value)
            self._dispatcher.accept(transition, record.partition, record.offset, record.timestamp)

    def _hold_or_go_on(self) -> None:
        """Bounds memory: with a full outbox nothing more is read, while the group still hears from us."""
        assigned = self._consumer.assignment()
        if len(self._dispatcher.outbox) >= _OUTBOX_LIMIT or self._handover.waits():
            # Each time, since a partition that has just come is not paused with the others.
            self._consumer.pause(*assigned)
        else:
            self._consumer.resume(*assigned)

    def _is_ours(self) -> bool:
        """Whether the group has said lately that our partitions are ours; asks it by a commit if not.

        A process that was frozen finds out here, before it sends what its successor has sent meanwhile.
        """
        if self._patience_ms() > _POLL_MIN_MS or time.monotonic() < self._ours_until:
            return True
        self._committed.clear()
        self._commit()
        return time.monotonic() < self._ours_until

    def _commit(self) -> None:
        """Commits up to the first record that still waits; the ledger makes good for a commit that fails."""
        offsets = {}
        for partition, read in self._read.items():
            waits = self._dispatcher.outbox.lowest_offset(partition.partition)
            offset = read if waits is None else waits
            if self._committed.get(partition) != offset:
                offsets[partition] = OffsetAndMetadata(offset, "", -1)
        if not offsets:
            return
        began = time.monotonic()
        try:
            self._ledger.flush()
            self._consumer.commit(offsets, timeout_ms=_COMMIT_MS)
        except KafkaError as error:
            log.warning("offsets not committed", error=type(error).__name__)
            self._kafka_answers = False
            return
        self._kafka_answers = True
        self._ours_until = began + _OURS_S
        self._committed |= {partition: offset.offset for partition, offset in offsets.items()}
