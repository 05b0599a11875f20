"""Takes each transition for one receiver to where it belongs: the outbox, a digest, or nowhere.

`sender.py` takes it from the outbox, one step at a time, and `policy.py` decides each step. Nothing here waits.
"""

import msgspec

from detectors.incident import Transition
from detectors.incidents.shared_resources import PLATFORM, resources_of
from sinks.contract.receiver import Receiver
from sinks.contract.sink import ResendingSink
from sinks.delivery.attempt import Attempt, Deferred, Pending
from sinks.delivery.bootstrap import BACKLOG_MS, LOG_START, Bootstrap
from sinks.delivery.dedup import FindExisting, Skip, decide
from sinks.delivery.marking import Marking
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Outbox, Queued
from sinks.delivery.rate_limit import Method
from sinks.delivery.redelivery import Redelivery
from sinks.delivery.rerouting import Rerouting
from sinks.delivery.sender import Sender
from sinks.delivery.storm import Storms
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.delivery_metrics import set_time

# What resolved so long ago is neither sent nor kept in the notification log.
_FORGET_MS = 14 * 86_400_000
_FORGET_EVERY_S = 86_400.0
# A receiver without a log may not know yet that this has resolved.
_JUST_NOW_MS = 1_800_000
_REPORT_EVERY_S = 1.0
# What several clusters report about one resource becomes one incident within this time, see `_wait_for_others`.
_TOGETHER_S = 20.0


class _Incoming(msgspec.Struct):
    """A transition, its place in Kafka, and what is known of its incident: the log's entry, and what waits."""

    transition: Transition
    partition: int
    offset: int
    at: int
    entry: Entry | None
    queued: Queued | None = None

    @property
    def resolved(self) -> bool:
        return self.transition.transition == "resolved"


class Dispatcher:
    """Used from one thread."""

    def __init__(self, receiver: Receiver, log: NotificationLog, board: IncidentCollector, clocks: Clocks) -> None:
        self.log, self.clocks = log, clocks
        self._receiver, self._metrics, self._traits = receiver, board.delivery, receiver.sink.traits
        self._board, self._began = board, clocks.wall()
        self.outbox = Outbox()
        self.bootstrap = Bootstrap(receiver.sink, log, receiver.channel)
        self._storms = Storms(log, self.outbox, receiver.digest_above, clocks)
        self._redelivery = Redelivery(log, self.outbox, self._storms)
        self._marking = Marking(receiver, log, self.outbox, board.feedback, clocks)
        self._rerouting = Rerouting(receiver, log, self.outbox, board, clocks)
        self._sender = Sender(receiver, log, board.delivery, clocks, self._message_changed)
        self._report_at = 0.0
        self._forget_at = 0.0

    def take_over(self, partition: int) -> None:
        """This process owns a partition now, and its log has been loaded. Raises KafkaError."""
        self.log.forget_resolved(self.clocks.now_ms() - _FORGET_MS)
        self._storms.take_over(partition)
        self._marking.check_again()

    def release(self, partition: int) -> None:
        """Another process may own a partition now."""
        self.outbox.drop(partition)
        self._storms.release(partition)
        sink = self._receiver.sink
        for owner, entry in self.log.entries():
            if isinstance(sink, ResendingSink) and owner == partition:
                sink.release(entry.incident)
        self.log.drop(partition)

    def accept(self, transition: Transition, partition: int, offset: int, at: int = 0) -> None:
        """Finds out what a transition needs. Each stage may find that it needs nothing more; what is left is sent.

        `at` is when its record came to Kafka (epoch ms, 0: not known). Raises KafkaError.
        """
        entry, queued = self._entry(transition, partition, offset), self.outbox.get(transition.incident)
        one = _Incoming(transition, partition, offset, at, entry, queued)
        stages = (self._resolved_long_ago, self._not_routed, self._in_backlog, self._in_digest, self._skipped)
        if not any(stage(one) for stage in stages):
            self._enqueue(one)

    def requeue(self, transition: Transition, partition: int, offset: int) -> None:
        """Tries to send what was given up, or what a digest reports, as a message of its own, or shows people's answers
        in a message, or follows changed routes.
        """
        entry = self.log.get(partition, transition.incident)
        if transition.incident in self.outbox or (entry is not None and transition.seq < entry.seq):
            return
        if entry is None:
            if self._rerouting.is_newest(transition.incident, partition, offset):
                self.accept(transition, partition, offset)
            return
        if entry.state not in {"folded", "undelivered"} and not entry.ts:
            return
        one = _Incoming(transition, partition, offset, 0, entry)
        self._put(one, Pending(last_try=entry.state == "undelivered"))

    def _entry(self, transition: Transition, partition: int, offset: int) -> Entry | None:
        """What the log knows of an incident; if it has lost the entry, that its message has to be looked up."""
        incident, entry = transition.incident, self.log.get(partition, transition.incident)
        if entry is not None or incident in self.outbox or self.bootstrap.predates_log(partition, offset):
            return entry
        if self.bootstrap.opened_before_log(partition, transition) and self._receiver.is_target(transition):
            self.bootstrap.mark_unknown(partition, [incident], self.clocks.now_ms())
        return self.log.get(partition, incident)

    def _resolved_long_ago(self, one: _Incoming) -> bool:
        """And no message of it is known."""
        forgotten = one.entry is None and one.resolved and 0 < one.at < self.clocks.now_ms() - _FORGET_MS
        if forgotten:
            self.outbox.done(one.transition.incident)
        return forgotten

    def _not_routed(self, one: _Incoming) -> bool:
        """Routes apply to new incidents only."""
        return one.entry is None and one.queued is None and not self._receiver.is_target(one.transition)

    def _in_backlog(self, one: _Incoming) -> bool:
        """It was written before the log began, and needs no message: it has resolved since, or goes into a digest."""
        if one.entry is not None or not self.bootstrap.predates_log(one.partition, one.offset):
            return False
        if one.queued is not None:
            if one.resolved:
                self.outbox.done(one.transition.incident)
            return one.resolved
        now_ms = self.clocks.now_ms()
        one.entry = self.bootstrap.adopt_existing_message(one.partition, one.transition.incident, now_ms)
        if one.entry is not None:
            return False
        if one.resolved and (self._traits.keeps_log or now_ms - one.at > _JUST_NOW_MS):
            return True
        skipped = isinstance(decide(None, one.transition, self._traits), Skip)
        backlog = not skipped and self._traits.digests and now_ms - one.at > BACKLOG_MS
        if backlog:
            self._storms.fold(one.transition, one.partition, one.offset, backlog=True)
        return backlog

    def _in_digest(self, one: _Incoming) -> bool:
        """A digest reports it and continues to do so; the change shows there."""
        if one.entry is None or one.entry.state != "folded":
            return False
        if one.resolved or one.transition.silence is not None:
            self.outbox.done(one.transition.incident)
        elif one.queued is not None:
            return False
        return self._storms.change(one.entry, one.transition, one.partition, one.offset)

    def _skipped(self, one: _Incoming) -> bool:
        decision = decide(one.entry, one.transition, self._traits)
        if decision != Skip("silenced"):
            return one.queued is None and isinstance(decision, Skip)
        self._metrics.suppressed.labels(self._receiver.name, "silence").inc()
        self.outbox.done(one.transition.incident)
        if one.entry is not None:
            # It may have been sent. The entry keeps up, so that nothing sends it before the silence ends.
            newer = msgspec.structs.replace(one.entry, seq=one.transition.seq, offset=one.offset, silenced=True)
            self.log.set_soon(one.partition, one.transition.incident, newer)
        return True

    def _enqueue(self, one: _Incoming) -> None:
        """It is sent: a new message not before quiet hours end, and not in a storm, which a digest reports."""
        is_new = one.entry is None or (not one.entry.ts and one.entry.state in {"folded", "undelivered"})
        if not is_new or isinstance(decide(one.entry, one.transition, self._traits), FindExisting):
            self._put(one, Pending())
            return
        quiet_s = self._receiver.quiet_s(one.transition, self.clocks.wall())
        deferred = one.queued is not None and isinstance(one.queued.attempt, Deferred)
        if one.resolved and (quiet_s or deferred):
            self._metrics.suppressed.labels(self._receiver.name, "quiet hours").inc()
            self.outbox.done(one.transition.incident)
        elif one.queued is None and self._traits.digests and self._storms.floods(one.transition):
            self._metrics.suppressed.labels(self._receiver.name, "digest").inc()
            self._storms.fold(one.transition, one.partition, one.offset)
        else:
            self._put(one, Deferred() if quiet_s else Pending(), quiet_s or self._wait_for_others(one))

    def _wait_for_others(self, one: _Incoming) -> float:
        """Seconds to wait, because other clusters may report the same broker, host, storage or service.

        After a start it is counted from there: until then it was not known what they had reported.
        """
        if not resources_of(one.transition) or self._board.knows_one_cluster():
            return 0.0
        return max(0.0, max(one.at / 1000, self._began) + _TOGETHER_S - self.clocks.wall())

    def _fold_into_platform(self, queued: Queued) -> None:
        """A cluster's incident becomes part of the incident of several clusters, if this receiver is notified of that.

        It needs no message then, and an existing one is edited.
        """
        one = queued.transition
        whole = None if one.part_of else self._board.platform_of(one)
        if whole is None or whole.silence is not None or not self._receiver.is_target(whole):
            return
        if isinstance(decide(None, whole, self._traits), Skip):
            return
        reason = f"part of {PLATFORM} {whole.incident}: {whole.summary}"
        queued.transition = msgspec.structs.replace(one, transition="resolved", part_of=whole.incident, reason=reason)
        if self.log.get(queued.partition, one.incident) is None:
            self._metrics.suppressed.labels(self._receiver.name, "platform incident").inc()

    def _put(self, one: _Incoming, attempt: Attempt, quiet_s: float = 0.0) -> None:
        found = isinstance(decide(one.entry, one.transition, self._traits), FindExisting)
        method: Method = "edit" if found or (one.entry is not None and one.entry.ts) else "post"
        due, at = self.clocks.monotonic() + quiet_s, one.at or self.clocks.now_ms()
        queued = self.outbox.put(one.transition, one.partition, one.offset, due, at=at, method=method)
        if one.queued is None:
            queued.attempt = attempt
        elif isinstance(queued.attempt, Deferred):
            queued.attempt = attempt
            self.outbox.later(queued, due)

    def forget(self, incident: str, partition: int) -> None:
        """The incident's record was deleted, and so is what the log knows. Raises KafkaError."""
        self.outbox.done(incident)
        if self.log.get(partition, incident) is not None:
            self.log.set_soon(partition, incident, None)

    def count_damaged(self, count: int) -> None:
        """So many entries of the log cannot be read."""
        self._metrics.skipped.labels(self.log.topic, "not readable").inc(count)

    def due_in(self) -> float | None:
        """Seconds until something is due, None if nothing waits."""
        due = self.outbox.next_due(self._sender.limiter.available_at())
        times = [time for time in (due, self._sender.resend_at) if time is not None]
        return max(0.0, min(times) - self.clocks.monotonic()) if times else None

    def send_next(self) -> bool:
        """Takes one step for the incident that has been due longest. False if none is due. Raises KafkaError."""
        self._sender.resend_if_due()
        queued = self.outbox.next(self.clocks.monotonic(), self._sender.limiter.available_at())
        if queued is not None:
            if isinstance(queued.attempt, Deferred | Pending):
                self._fold_into_platform(queued)
            if queued.summary is None:
                entry = self.log.get(queued.partition, queued.transition.incident)
                queued.marks = self._marking.wanted(entry, queued.transition.incident)
            delay = self._sender.step(queued)
            if delay is None:
                self.outbox.done(queued.transition.incident)
            else:
                self.outbox.later(queued, self.clocks.monotonic() + delay)
        now = self.clocks.monotonic()
        if now >= self._forget_at:
            self._forget_at = now + _FORGET_EVERY_S
            self.log.forget_resolved(self.clocks.now_ms() - _FORGET_MS)
        if now >= self._report_at:
            self._report_at = now + _REPORT_EVERY_S
            self._report()
        return queued is not None

    def to_read(self) -> list[tuple[int, int]]:
        """Partition and offset of incidents whose record is to be read again and given to `requeue`."""
        return self._redelivery.due(self.clocks.now_ms()) + self._marking.to_read() + self._rerouting.to_read()

    def undelivered(self) -> int:
        """How many incidents were given up for now."""
        return sum(entry.state == "undelivered" and not entry.silenced for _, entry in self.log.entries())

    def _message_changed(self, entry: Entry) -> None:
        if entry.state == "sent":
            self._redelivery.retry_now()
        self._storms.refresh(entry)

    def _report(self) -> None:
        name, entries = self._receiver.name, [e for _, e in self.log.entries() if e.incident != LOG_START]
        self._metrics.waiting.labels(name).set(len(self.outbox))
        set_time(self._metrics.oldest_waiting, name, self.outbox.oldest())
        self._metrics.undelivered.labels(name).set(self.undelivered())
        self._metrics.log_entries.labels(name).set(len(entries))
        unsettled = min((e.at for e in entries if e.state in {"intent", "unknown"} and e.seq), default=None)
        set_time(self._metrics.unsettled, name, unsettled)
