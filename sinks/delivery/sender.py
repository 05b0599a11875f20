"""Carries out what `policy.py` decides: calls the receiver, writes the notification log around each call, counts.

The intent is written before a call, its outcome after it. A call that is made again after a crash is looked up first.
"""

from collections.abc import Callable

import structlog

from sinks.contract.outcome import Attachment, Delivered, Outcome
from sinks.contract.receiver import Receiver
from sinks.contract.sink import EditingSink, ResendingSink
from sinks.delivery import effects
from sinks.delivery.attempt import NO_OFFSET, AttemptSignal, Context, Event, LookedUp
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Queued
from sinks.delivery.policy import advance
from sinks.delivery.rate_limit import RateLimiter
from sinks.prometheus.delivery_metrics import DeliveryMetrics

log = structlog.get_logger()

_RESEND_RETRY_S = 5.0
# The receiver's clock dates its messages; ours dates the notification log.
_CLOCK_MARGIN_MS = 300_000


class Sender:
    """Sends to one receiver. Used from one thread; it never raises for what receivers or Kafka do."""

    def __init__(
        self,
        receiver: Receiver,
        notification_log: NotificationLog,
        metrics: DeliveryMetrics,
        clocks: Clocks,
        on_change: Callable[[Entry], None],
    ) -> None:
        """`on_change` is called with the entry of a message that was delivered, or that does not exist any more."""
        self._receiver, self._log, self._metrics = receiver, notification_log, metrics
        self._clocks, self._on_change = clocks, on_change
        self.limiter = RateLimiter(receiver.sink.traits, clocks.monotonic)
        # When everything open is sent again, None for a receiver that does not need it.
        self.resend_at = clocks.monotonic() if isinstance(receiver.sink, ResendingSink) else None

    def resend_if_due(self) -> None:
        sink, now = self._receiver.sink, self._clocks.monotonic()
        if self.resend_at is None or now < self.resend_at or not isinstance(sink, ResendingSink):
            return
        outcome = sink.resend()
        failed = outcome is not None and not isinstance(self._count(outcome), Delivered)
        self.resend_at = self._clocks.monotonic() + (_RESEND_RETRY_S if failed else sink.resend_s)

    def step(self, queued: Queued) -> float | None:
        """Takes one step for what is due. Seconds until the next one, None if it needs nothing more."""
        try:
            return self._advance(queued, AttemptSignal.DUE)
        except Exception:
            # The outer edge of one incident: a defect that it brings out must not hold up the others.
            self._metrics.count_attempt(self._receiver.name, "other")
            log.exception("notification failed", receiver=self._receiver.name, incident=queued.transition.incident)
            return self._advance(queued, AttemptSignal.DEFECT)

    def _advance(self, queued: Queued, event: Event | None) -> float | None:
        known = self._log.get(queued.partition, queued.transition.incident)
        context = Context(
            transition=queued.transition,
            traits=self._receiver.sink.traits,
            now=self._clocks.now_ms(),
            arrived=queued.at,
            offset=queued.offset,
            method=queued.method,
            summary=queued.summary() if queued.summary is not None and event is AttemptSignal.DUE else None,
            marks=queued.marks,
        )
        while event is not None:
            attempt, asked = advance(queued.attempt, known, event, context)
            queued.attempt = queued.attempt if attempt is None else attempt
            delay, event = None, None
            for effect in asked:
                if isinstance(effect, effects.Again):
                    delay = self._again(queued, effect)
                else:
                    event = self._carry_out(effect, queued, known)
        return delay

    def _again(self, queued: Queued, again: effects.Again) -> float:
        if again.method is not None:
            queued.method = again.method
        if again.reason:
            log.warning("notification postponed", **self._about(queued), reason=again.reason, retry_in_s=again.seconds)
        return again.seconds

    def _carry_out(self, effect: effects.Effect, queued: Queued, known: Entry | None) -> Event | None:
        """The outcome of an effect that has one."""
        partition, incident = queued.partition, queued.transition.incident
        match effect:
            case effects.Send():
                return self._send(effect, queued, known)
            case effects.LookUp(since=since):
                return self._look_up(incident, since - _CLOCK_MARGIN_MS)
            case effects.Attach(attachment=attachment):
                return self._attach(attachment)
            case effects.LogOutcome(entry=entry):
                ok = self._log.try_set(partition, incident, entry)
                if ok and entry.state == "sent":
                    log.info("incident notified", **self._about(queued))
                return AttemptSignal.LOGGED if ok else AttemptSignal.NOT_LOGGED
            case effects.Write(entry=entry):
                self._log.try_set(partition, incident, entry)
            case effects.Changed(entry=entry):
                if entry.state == "sent" and queued.offset != NO_OFFSET:
                    delay = self._clocks.wall() - queued.at / 1000
                    self._metrics.delay.labels(self._receiver.name).observe(max(0.0, delay))
                self._on_change(entry)
            case effects.Suppress(reason=reason):
                self._metrics.suppressed.labels(self._receiver.name, reason).inc()
            case effects.Pause(method=method, seconds=seconds):
                self.limiter.pause(method, seconds)
            case effects.Report(level=level, line=line, fields=fields):
                getattr(log, level)(line, receiver=self._receiver.name, incident=incident, **fields)
        return None

    def _send(self, send: effects.Send, queued: Queued, known: Entry | None) -> Event:
        sink, partition, incident = self._receiver.sink, queued.partition, queued.transition.incident
        if not self._log.try_set(partition, incident, send.intent):
            self._log.remember(partition, incident, known)
            return AttemptSignal.NOT_LOGGED
        self.limiter.acquire(queued.method)
        began = self._clocks.monotonic()
        if send.message is None or not isinstance(sink, EditingSink):
            outcome = sink.send(send.notification)
        else:
            outcome = sink.edit(send.notification, send.message)
        self._metrics.latency.labels(self._receiver.name).observe(self._clocks.monotonic() - began)
        return self._count(outcome)

    def _attach(self, attachment: Attachment) -> Outcome:
        if not attachment.posts:
            # Ordering a chart is no notification.
            return attachment.call()
        self.limiter.acquire("post")
        return self._count(attachment.call())

    def _look_up(self, incident: str, since: int) -> LookedUp:
        sink = self._receiver.sink
        channel = self._receiver.channel or self._log.known_channel()
        return LookedUp(sink.find(channel, incident, since) if channel and isinstance(sink, EditingSink) else None)

    def _count(self, outcome: Outcome) -> Outcome:
        self._metrics.count_attempt(self._receiver.name, None if isinstance(outcome, Delivered) else outcome.failure)
        return outcome

    def _about(self, queued: Queued) -> dict[str, object]:
        """Fields of a log line, so that these lines read as the history of each incident."""
        one = queued.transition
        about = {"receiver": self._receiver.name, "incident": one.incident, "seq": one.seq, "change": one.transition}
        if queued.offset == NO_OFFSET:
            return {**about, "kind": "digest"}
        job = one.job_name or one.job_id
        return {**about, "kind": one.cause, "severity": one.severity, "cluster": one.cluster, "job": job}
