"""Reads incidents as a member of a consumer group and has the dispatcher send them.

One worker owns a partition at a time. It reads the partition's notification log before its first record.
"""

import time
from threading import Event
from typing import Any

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.structs import OffsetAndMetadata

from detectors.incident import decode_transition
from detectors.incidents.known_issues import IssueCatalogue
from detectors.values.decoding import UndecodableError
from sinks.contract.receiver import Receiver
from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.outbox import Clocks
from sinks.delivery.overviews.overviews import Overviews
from sinks.delivery.overviews.reading import read_in_background
from sinks.delivery.partitions import PartitionOwnership
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
# Far below the session timeout, during which the group gives the partitions of a member to no one else.
_OURS_S = 3.0
_REPAIR_EVERY_S = 10.0
# A rebalance takes as long as the session of a member that is gone (10 s), and not much longer.
_JOIN_WITHIN_S = 60.0


def deliver_incidents(
    clients: Clients,
    topics: TopicNames,
    issues: IssueCatalogue,
    receiver: Receiver,
    *,
    board: IncidentCollector,
    stop: Event,
    drain_s: float,
) -> None:
    """Delivers to one receiver until `stop`, then for at most `drain_s` seconds what is due.

    Raises kafka.errors.KafkaError if Kafka cannot be used; then call it again.
    """
    notification_log: NotificationLog | None = None
    consumer: Any = None
    try:
        producer = clients.producer() if receiver.sink.traits.keeps_log else None
        notification_log = NotificationLog(producer, topics.deliveries, receiver.name)
        consumer = clients.group_consumer(receiver.name)
        dispatcher = Dispatcher(receiver, notification_log, board, Clocks())
        read = read_in_background(clients, topics, issues)
        overviews = Overviews(receiver, notification_log, dispatcher.outbox, dispatcher.clocks, read)
        worker = DeliveryWorker(consumer, clients, dispatcher, overviews)
        consumer.subscribe([topics.incidents], listener=worker.ownership)
        worker.run(stop, drain_s)
    finally:
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)
        if notification_log is not None:
            notification_log.close()


class DeliveryWorker:
    """One member of a receiver's consumer group. Used from one thread."""

    def __init__(
        self, consumer: Any, clients: Clients, dispatcher: Dispatcher, overviews: Overviews | None = None
    ) -> None:
        """`consumer` has to be subscribed with `ownership` as its listener."""
        self._consumer, self._clients, self._dispatcher, self._log = consumer, clients, dispatcher, dispatcher.log
        self._overviews = overviews
        self.ownership = PartitionOwnership(consumer, clients, dispatcher)
        self._read: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._kafka_answers = True
        self._ours_until = 0.0
        self._repair_at = 0.0
        self._logs_made = clients.notification_logs_created

    def run(self, stop: Event, drain_s: float) -> None:
        """Delivers until `stop`, then for at most `drain_s` seconds what is due."""
        while not stop.is_set():
            self.poll_once()
            # kafka-python may wait for ever for an answer about the group's coordinator. A new consumer asks again.
            if self.ownership.undecided_s() > _JOIN_WITHIN_S:
                raise KafkaTimeoutError(f"the consumer group has not assigned partitions for {_JOIN_WITHIN_S:.0f} s")
        deadline = time.monotonic() + drain_s
        # Without Kafka nothing can be logged, and what cannot be logged is better sent after the next start.
        while self._kafka_answers and time.monotonic() < deadline and self.poll_once():
            pass

    def poll_once(self) -> bool:
        """Reads what has come, sends some of what is due, commits. False if there was nothing to do."""
        arrived = self._consumer.poll(timeout_ms=self._poll_timeout_ms(), max_records=_BATCH)
        moved = self.ownership.act()
        for partition, position in moved.items():
            # What was polled of it comes again, or belongs to another process.
            arrived.pop(partition, None)
            self._committed.pop(partition, None)
            self._read.pop(partition, None)
            if position is not None:
                self._read[partition] = position
        self.ownership.read_channel()
        for partition, records in arrived.items():
            self._accept(partition, records)
        for number, offset in self._dispatcher.to_read():
            self._requeue(number, offset)
        if self._overviews is not None:
            self._overviews.queue_due()
        count = sum(map(len, arrived.values()))
        # After a full batch there is more to read, and of each incident only the newest change is worth sending.
        sent = count < _BATCH and self._send()
        self._apply_backpressure()
        self._commit()
        self._repair_log()
        return count > 0 or sent or bool(moved)

    def _repair_log(self) -> None:
        """A log whose topic was deleted is created again, and everything that is known is written into it."""
        if self._log.is_failing and time.monotonic() >= self._repair_at:
            self._repair_at = time.monotonic() + _REPAIR_EVERY_S
            try:
                self._clients.create_notification_log()
            except (KafkaError, TopicsError) as error:
                log.warning("notification log cannot be written", error=str(error) or type(error).__name__)
        if self._log.is_kept and self._clients.notification_logs_created != self._logs_made:
            self._logs_made = self._clients.notification_logs_created
            log.error("notification log was deleted, writing it again", topic=self._log.topic)
            self._log.write_again(self._clients.producer())

    def _send(self) -> bool:
        """Sends for a moment, because a poll between two calls costs more than a quick call."""
        until = time.monotonic() + _SEND_S
        sent = False
        while self._owns_partitions() and self._dispatcher.send_next():
            sent = True
            if time.monotonic() >= until:
                break
        return sent

    def _poll_timeout_ms(self) -> int:
        due = self._dispatcher.due_in()
        return _POLL_MAX_MS if due is None else int(min(max(due * 1000, _POLL_MIN_MS), _POLL_MAX_MS))

    def _requeue(self, partition: int, offset: int) -> None:
        found = self._clients.read_incident(partition, offset)
        try:
            if found is not None:
                self._dispatcher.requeue(decode_transition(found[1]), partition, found[0])
        except UndecodableError:
            log.warning("undelivered incident cannot be decoded", partition=partition, offset=offset)

    def _accept(self, partition: TopicPartition, records: list[Any]) -> None:
        skipped = 0
        for record in records:
            number, offset = record.partition, record.offset
            try:
                if record.value is None:
                    self._dispatcher.forget((record.key or b"").decode("utf-8", "replace"), number)
                else:
                    self._dispatcher.accept(decode_transition(record.value), number, offset, record.timestamp)
            except UndecodableError:
                skipped += 1
            self._read[partition] = record.offset + 1
        if skipped:
            # Metrics count them elsewhere, where every record is read: a worker reads only its share.
            log.error("incidents skipped, they cannot be decoded", partition=partition.partition, count=skipped)

    def _apply_backpressure(self) -> None:
        """Bounds memory: with a full outbox nothing more is read, while the group still gets heartbeats."""
        assigned = self._consumer.assignment()
        if len(self._dispatcher.outbox) >= _OUTBOX_LIMIT or self.ownership.is_waiting():
            # Each time, because a partition that was just assigned is not paused with the others.
            self._consumer.pause(*assigned)
        else:
            self._consumer.resume(*assigned)

    def _owns_partitions(self) -> bool:
        """Whether the group has confirmed lately that the partitions are ours; if not, a commit asks it.

        A process that was frozen finds out here, before it sends what its successor has sent meanwhile.
        """
        if self._poll_timeout_ms() > _POLL_MIN_MS or time.monotonic() < self._ours_until:
            return True
        self._committed.clear()
        self._commit()
        return time.monotonic() < self._ours_until

    def _commit(self) -> None:
        """Commits up to the first record that still waits. If that fails, the log still knows what was sent."""
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
            self._log.flush()
            self._consumer.commit(offsets, timeout_ms=_COMMIT_MS)
        except KafkaError as error:
            log.warning("offsets not committed", error=type(error).__name__)
            self._kafka_answers = False
            return
        self._kafka_answers = True
        self._ours_until = began + _OURS_S
        self._committed |= {partition: offset.offset for partition, offset in offsets.items()}
