"""Sends what waits in a lane's outbox, with the ledger around each send: intent before, outcome after.

When a receiver limits a method, or refuses it for its setup, all calls of that method wait: trying on makes it last
longer. Other failures concern their incident alone.
"""

from collections.abc import Callable

import msgspec
import structlog

from sinks.contract.digest import PREFIX
from sinks.contract.outcome import RetryAfter
from sinks.contract.receiver import Lane
from sinks.contract.sink import Extra, Notice, Standing
from sinks.delivery.decision import Edit, Look, Post, next_step
from sinks.delivery.log_records import Records
from sinks.delivery.notification_log import Entry, Ledger
from sinks.delivery.outbox import NO_OFFSET, Method, Outbox, Waiting
from sinks.delivery.outcome_handler import TRIES_BEFORE_GIVING_UP, Settler
from sinks.delivery.rate_limit import Gates
from sinks.delivery.redelivery import Revival
from sinks.delivery.storm import Storms
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

_RESEND_RETRY_S = 5.0
# The receiver's clock names messages; ours wrote the ledger.
_CLOCK_MARGIN_MS = 300_000
_TRIES_COUNTED = 10


class Sender:
    """Used from one thread; it never raises for what receivers or Kafka do."""

    def __init__(
        self,
        lane: Lane,
        ledger: Ledger,
        outbox: Outbox,
        storms: Storms,
        revival: Revival,
        board: IncidentCollector,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._lane, self._sink, self._traits = lane, lane.sink, lane.sink.traits
        self._ledger, self._outbox, self._storms = ledger, outbox, storms
        self._board, self._clock = board, clock
        self._gates = Gates(self._traits, clock)
        self._records = Records(ledger, wall)
        self._settler = Settler(
            lane, self._records, ledger, self._gates, storms, revival, board, clock=clock, wall=wall
        )
        self._resend_at = clock()

    def due_in(self) -> float | None:
        """Seconds until something is due, None when nothing waits."""
        due = self._outbox.next_due(self._gates.opens())
        if self._traits.resend_s is not None:
            due = self._resend_at if due is None else min(due, self._resend_at)
        return None if due is None else max(0.0, due - self._clock())

    def send_next(self) -> bool:
        """One step for the incident that is due longest. False when none is due."""
        self._resend()
        waiting = self._outbox.next(self._clock(), self._gates.opens())
        if waiting is None:
            return False
        delay = self._step_guarded(waiting)
        if delay is None:
            self._outbox.done(waiting.transition.incident)
        else:
            self._outbox.later(waiting, self._clock() + delay)
        return True

    def _resend(self) -> None:
        if self._traits.resend_s is None or self._clock() < self._resend_at:
            return
        outcome = self._sink.resend()
        failed = outcome is not None and self._settler.count(outcome)
        self._resend_at = self._clock() + (_RESEND_RETRY_S if failed else self._traits.resend_s)

    def _step_guarded(self, waiting: Waiting) -> float | None:
        """The outer edge of one incident: a defect that one brings out must not hold up the others."""
        try:
            return self._step(waiting)
        except Exception:
            self._board.count_attempt(self._lane.name, "other")
            log.exception("incident cannot be told", lane=self._lane.name, incident=waiting.transition.incident)
            if waiting.tries >= TRIES_BEFORE_GIVING_UP:
                return self._settler.give_up(waiting, "a defect in flinkwatch")
            return self._settler.put_off(waiting, "a defect in flinkwatch")

    def _step(self, waiting: Waiting) -> float | None:
        """One step towards delivery. Seconds until the next, None when it needs nothing more."""
        entry = self._ledger.get(waiting.partition, waiting.transition.incident)
        if waiting.unwritten and entry is not None:
            return self._settler.record(waiting, entry)
        if waiting.extras:
            return self._add(waiting, waiting.extras[0])
        match next_step(entry, waiting.transition, self._traits):
            case Post(look_since=int(since)) | Look(since=since) if not waiting.looked:
                return self._look(waiting, since)
            case Post():
                return self._send(waiting, entry, None)
            case Edit(channel=channel, ts=ts):
                return self._send(waiting, entry, Standing(channel, ts))
            case Look():
                self._settler.keep_silent(waiting, entry)
        return None

    def _look(self, waiting: Waiting, since: int) -> float | None:
        """Finds out whether a message of unknown fate stands in the channel, and which it is."""
        incident = waiting.transition.incident
        channel = self._lane.channel or self._ledger.known_channel()
        found = self._sink.find(channel, incident, since - _CLOCK_MARGIN_MS) if channel else None
        if isinstance(found, RetryAfter):
            return self._settler.put_off(waiting, found.reason, found.seconds)
        waiting.looked = True
        if found is not None:
            before = self._ledger.get(waiting.partition, incident)
            entry = self._records.entry(waiting, "sent", found.channel, found.ts, before)
            self._records.write(waiting.partition, incident, msgspec.structs.replace(entry, seq=found.seq))
        return 0.0

    def _send(self, waiting: Waiting, before: Entry | None, standing: Standing | None) -> float | None:
        method: Method = "post" if standing is None else "edit"
        if waiting.method != method:
            # It waits in the wrong line.
            waiting.method = method
            return 0.0
        channel, ts = (standing.channel, standing.ts) if standing is not None else ("", "")
        notice = self._notice(waiting)
        if notice.summary is not None and standing is None and not notice.summary.open:
            # Over before anybody was told of a storm.
            return None
        partition, incident = waiting.partition, waiting.transition.incident
        if not self._records.write(partition, incident, self._records.entry(waiting, "intent", channel, ts, before)):
            self._ledger.remember(partition, incident, before)
            return self._settler.put_off(waiting, "the ledger cannot be written")
        self._gates.take(method)
        began = self._clock()
        outcome = self._sink.send(notice, standing)
        self._board.observe_latency(self._lane.name, self._clock() - began)
        self._settler.count(outcome)
        return self._settler.settle(waiting, before, notice, outcome)

    def _notice(self, waiting: Waiting) -> Notice:
        transition = waiting.transition
        summary = None
        if waiting.offset == NO_OFFSET:
            summary = self._storms.summary(int(transition.incident.removeprefix(PREFIX)))
        return Notice(transition=transition, note=waiting.note, plain=waiting.plain, summary=summary)

    def _add(self, waiting: Waiting, extra: Extra) -> float | None:
        """One thing beside the message; not twice, since the message itself already says everything."""
        if extra.posts and waiting.method != "post":
            waiting.method = "post"
            return 0.0
        if extra.posts:
            self._gates.take("post")
        outcome = extra.call()
        if extra.posts:
            # What is not a message, such as the order of a chart, is no notification.
            self._settler.count(outcome)
        if isinstance(outcome, RetryAfter) and waiting.tries < _TRIES_COUNTED:
            if outcome.failure == "rateLimited" and outcome.seconds is not None and extra.posts:
                self._gates.shut("post", outcome.seconds)
            return self._settler.put_off(waiting, outcome.reason, outcome.seconds)
        waiting.extras = waiting.extras[1:]
        return 0.0
