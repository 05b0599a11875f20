"""Sends what waits in a lane's outbox, with the ledger around each send: intent before, outcome after.

When a receiver limits a method, or refuses it for its setup, all calls of that method wait: trying on makes it last
longer. Other failures concern their incident alone.
"""

from collections.abc import Callable

import msgspec
import structlog
from kafka.errors import KafkaError

from sinks.digest import PREFIX
from sinks.gates import Gates
from sinks.lane import Lane
from sinks.ledger import Edit, Entry, Ledger, Post, Skip, State, next_step
from sinks.outbox import NO_OFFSET, Method, Outbox, Waiting
from sinks.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.prometheus import Board
from sinks.revival import DAY_MS, Revival
from sinks.sink import Extra, Notice, Standing
from sinks.storm import Storms

log = structlog.get_logger()

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
# A wrong token or channel needs a person; the retry is there to notice the repair.
_SETUP_RETRY_S = 60.0
_RESEND_RETRY_S = 5.0
# The receiver's clock names messages; ours wrote the ledger.
_CLOCK_MARGIN_MS = 300_000
_NEW_MESSAGE_NOTE = "The earlier message of this incident is gone or can no longer be edited; this one takes its place."
_CHANNEL_GONE = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
_TRIES_COUNTED = 10
_TRIES_BEFORE_GIVING_UP = 5


class Sender:
    """Used from one thread; it never raises for what receivers or Kafka do."""

    def __init__(
        self,
        lane: Lane,
        ledger: Ledger,
        outbox: Outbox,
        storms: Storms,
        revival: Revival,
        board: Board,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._lane, self._sink, self._traits = lane, lane.sink, lane.sink.traits
        self._ledger, self._outbox, self._storms, self._revival = ledger, outbox, storms, revival
        self._board, self._clock, self._wall = board, clock, wall
        self._gates = Gates(self._traits, clock)
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
        failed = outcome is not None and self._count(outcome)
        self._resend_at = self._clock() + (_RESEND_RETRY_S if failed else self._traits.resend_s)

    def _step_guarded(self, waiting: Waiting) -> float | None:
        """The outer edge of one incident: a defect that one brings out must not hold up the others."""
        try:
            return self._step(waiting)
        except Exception:
            self._board.count_attempt(self._lane.name, "other")
            log.exception("incident cannot be told", lane=self._lane.name, incident=waiting.transition.incident)
            if waiting.tries >= _TRIES_BEFORE_GIVING_UP:
                return self._give_up(waiting, "a defect in flinkwatch")
            return self._put_off(waiting, "a defect in flinkwatch")

    def _step(self, waiting: Waiting) -> float | None:
        """One step towards delivery. Seconds until the next, None when it needs nothing more."""
        entry = self._ledger.get(waiting.partition, waiting.transition.incident)
        if waiting.unwritten and entry is not None:
            return self._record(waiting, entry)
        if waiting.extras:
            return self._add(waiting, waiting.extras[0])
        match next_step(entry, waiting.transition, self._traits):
            case Skip():
                return None
            case Post(look_since=int(since)) if not waiting.looked:
                return self._look(waiting, since)
            case Post():
                return self._send(waiting, entry, None)
            case Edit(channel=channel, ts=ts):
                return self._send(waiting, entry, Standing(channel, ts))

    def _look(self, waiting: Waiting, since: int) -> float | None:
        """Finds out whether a message of unknown fate stands in the channel, and which it is."""
        incident = waiting.transition.incident
        channel = self._lane.channel or self._ledger.known_channel()
        found = self._sink.find(channel, incident, since - _CLOCK_MARGIN_MS) if channel else None
        if isinstance(found, RetryAfter):
            return self._put_off(waiting, found.reason, found.seconds)
        waiting.looked = True
        if found is not None:
            before = self._ledger.get(waiting.partition, incident)
            entry = self._entry(waiting, "sent", found.channel, found.ts, before)
            self._write(waiting.partition, incident, msgspec.structs.replace(entry, seq=found.seq))
            waiting.method = "edit"
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
        if not self._write(partition, incident, self._entry(waiting, "intent", channel, ts, before)):
            self._ledger.remember(partition, incident, before)
            return self._put_off(waiting, "the ledger cannot be written")
        self._gates.take(method)
        began = self._clock()
        outcome = self._sink.send(notice, standing)
        self._board.observe_latency(self._lane.name, max(0.0, self._clock() - began))
        self._count(outcome)
        return self._settle(waiting, before, notice, outcome)

    def _notice(self, waiting: Waiting) -> Notice:
        transition = waiting.transition
        summary = None
        if waiting.offset == NO_OFFSET:
            summary = self._storms.summary(int(transition.incident.removeprefix(PREFIX)))
        return Notice(transition=transition, note=waiting.note, plain=waiting.plain, summary=summary)

    def _settle(self, waiting: Waiting, before: Entry | None, notice: Notice, outcome: Outcome) -> float | None:
        """What follows from an outcome."""
        match outcome:
            case Delivered(channel=channel, ts=ts):
                return self._delivered(waiting, before, notice, Delivered(channel, ts))
            case Unknown(reason=reason):
                channel, ts = (before.channel, before.ts) if before is not None else ("", "")
                unknown = self._entry(waiting, "unknown", channel, ts, before)
                self._write(waiting.partition, unknown.incident, unknown)
                waiting.looked = False
                return self._put_off(waiting, reason)
            case RetryAfter(seconds=seconds, reason=reason, failure=failure):
                self._write(waiting.partition, waiting.transition.incident, before)
                if failure == "rateLimited" and seconds is not None:
                    self._gates.shut(waiting.method, seconds)
                return self._put_off(waiting, reason, seconds)
            case Refused():
                return self._refused(waiting, before, outcome)

    def _delivered(self, waiting: Waiting, before: Entry | None, notice: Notice, delivered: Delivered) -> float | None:
        edited = waiting.method == "edit"
        entry = self._entry(waiting, "sent", delivered.channel, delivered.ts, before)
        if notice.summary is None:
            told = None if before is None else before.told
            follow_up = self._sink.follow_up(notice, delivered, told, entry.at, edited=edited)
            entry = msgspec.structs.replace(entry, told=follow_up.told)
            waiting.extras = follow_up.extras
            self._board.observe_delay(self._lane.name, max(0.0, self._wall() - waiting.at / 1000))
        delay = self._record(waiting, entry)
        self._revival.delivered()
        self._storms.alone(entry, self._clock(), entry.at)
        return delay

    def _refused(self, waiting: Waiting, before: Entry | None, refused: Refused) -> float | None:
        partition, incident = waiting.partition, waiting.transition.incident
        if waiting.method == "edit" and (refused.because == "target" or refused.code in _CHANNEL_GONE):
            self._write(partition, incident, _without_message(before))
            waiting.note = _NEW_MESSAGE_NOTE
            return 0.0
        self._write(partition, incident, before)
        fields = {"lane": self._lane.name, "incident": incident, "error": refused.code, "what_to_do": refused.reason}
        if refused.because == "setup":
            log.error("notifications are refused", **fields, retry_in_s=_SETUP_RETRY_S)
            self._gates.shut(waiting.method, _SETUP_RETRY_S)
            return self._put_off(waiting, refused.reason, _SETUP_RETRY_S)
        if not waiting.plain:
            log.warning("a message is refused, sending it as plain text", **fields)
            waiting.plain = True
            return 0.0
        return self._give_up(waiting, f"{refused.code}: {refused.reason}")

    def _record(self, waiting: Waiting, sent: Entry) -> float | None:
        """Writes down what was sent, again and again until the brokers have it."""
        waiting.unwritten = not self._write(waiting.partition, sent.incident, sent)
        if waiting.unwritten:
            return self._put_off(waiting, "the ledger cannot be written")
        log.info("incident told", lane=self._lane.name, incident=sent.incident, seq=sent.seq)
        return 0.0 if waiting.extras else None

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
            self._count(outcome)
        if isinstance(outcome, RetryAfter) and waiting.tries < _TRIES_COUNTED:
            if outcome.failure == "rateLimited" and outcome.seconds is not None and extra.posts:
                self._gates.shut("post", outcome.seconds)
            return self._put_off(waiting, outcome.reason, outcome.seconds)
        waiting.extras = waiting.extras[1:]
        return 0.0

    def _put_off(self, waiting: Waiting, reason: str, seconds: float | None = None) -> float | None:
        too_long = self._wall() * 1000 - waiting.at >= DAY_MS and waiting.tries >= _TRIES_BEFORE_GIVING_UP
        if (too_long or waiting.probe) and not waiting.unwritten and waiting.offset != NO_OFFSET:
            return self._give_up(waiting, reason)
        delay = min(_BACKOFF_FIRST_S * 2**waiting.tries, _BACKOFF_MAX_S) if seconds is None else seconds
        waiting.tries = min(waiting.tries + 1, _TRIES_COUNTED)
        log.warning(
            "notification put off",
            lane=self._lane.name,
            incident=waiting.transition.incident,
            reason=reason,
            retry_in_s=delay,
        )
        return delay

    def _give_up(self, waiting: Waiting, reason: str) -> float | None:
        """Keeps it in the ledger, from where it is tried again each hour."""
        if waiting.offset == NO_OFFSET:
            return _BACKOFF_MAX_S
        before = self._ledger.get(waiting.partition, waiting.transition.incident)
        channel, ts = (before.channel, before.ts) if before is not None else ("", "")
        entry = msgspec.structs.replace(self._entry(waiting, "undelivered", channel, ts, before), reason=reason)
        if not self._write(waiting.partition, entry.incident, entry):
            return _BACKOFF_MAX_S
        if not waiting.probe:
            log.error("incident is undelivered, it is kept", lane=self._lane.name, incident=entry.incident, why=reason)
        return None

    def _count(self, outcome: Outcome) -> bool:
        """Counts a call; whether it failed."""
        failed = not isinstance(outcome, Delivered)
        self._board.count_attempt(self._lane.name, None if isinstance(outcome, Delivered) else outcome.failure)
        return failed

    def _entry(self, waiting: Waiting, state: State, channel: str, ts: str, before: Entry | None = None) -> Entry:
        transition = waiting.transition
        folded = before.folded if before is not None else None
        if folded is not None and state == "sent":
            folded = msgspec.structs.replace(folded, alone=True, over=transition.transition == "resolved")
        return Entry(
            incident=transition.incident,
            seq=transition.seq,
            state=state,
            at=int(self._wall() * 1000),
            channel=channel,
            ts=ts,
            told=before.told if before is not None else None,
            offset=waiting.offset,
            over=transition.transition == "resolved",
            folded=folded,
        )

    def _write(self, partition: int, incident: str, entry: Entry | None) -> bool:
        """Whether the brokers have it. Where a caller does not care, a restart would look the message up once more."""
        try:
            self._ledger.set(partition, incident, entry)
        except KafkaError as error:
            log.warning("delivery ledger not written", incident=incident, error=type(error).__name__)
            return False
        return True


def _without_message(entry: Entry | None) -> Entry | None:
    """What the ledger keeps of an incident whose message does not stand: nothing, unless a digest counts it."""
    if entry is None or entry.folded is None:
        return None
    folded = msgspec.structs.replace(entry.folded, alone=False)
    return msgspec.structs.replace(entry, state="folded", channel="", ts="", folded=folded)
