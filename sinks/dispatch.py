"""Decides, sends, records: one incident at a time, from the outbox to Slack, with the ledger around the send.

Nothing here waits: what cannot be sent now goes back into the outbox with a later time. When Slack limits a method,
all calls of that method wait, since trying on makes it last longer; other failures concern their incident alone.
"""

import re
import time
from collections.abc import Callable
from typing import Literal

import structlog
from kafka.errors import KafkaError

from detectors.incidents.incident import Transition
from sinks.ledger import Edit, Entry, Ledger, Post, Skip, State, next_step
from sinks.outbox import Line, Outbox, Waiting
from sinks.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.prometheus import Board
from sinks.slack.client import SlackClient
from sinks.slack.render import Message, render, render_plain, render_reply
from sinks.slack.settings import SlackConfig
from sinks.slack.thread import plan
from sinks.told import Told

log = structlog.get_logger()

INTEGRATION = "slack"

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
# A wrong token or channel needs a person; the retry is there to notice the repair.
_SETUP_RETRY_S = 60.0
# Slack's clock names messages; ours wrote the ledger.
_CLOCK_MARGIN_MS = 300_000
_NEW_MESSAGE_NOTE = "The earlier message of this incident is gone or can no longer be edited; this one takes its place."

_CHANNEL_GONE = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
_CHANNEL_ID = re.compile(r"[CGD][A-Z0-9]{8,}")
_TRIES_COUNTED = 10

Method = Literal["post", "edit"]


class Dispatcher:
    """Sends what waits in its outbox. Used from one thread; it never raises for what Slack or Kafka do."""

    def __init__(
        self,
        config: SlackConfig,
        client: SlackClient,
        ledger: Ledger,
        board: Board,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.outbox = Outbox()
        self._config = config
        self._client = client
        self._ledger = ledger
        self._board = board
        self._clock = clock
        self._wall = wall
        self._not_before: dict[Method, float] = {"post": 0.0, "edit": 0.0}

    def accept(self, transition: Transition, partition: int, offset: int) -> None:
        """Puts a transition in line, unless the ledger says that it needs nothing."""
        entry = self._ledger.get(partition, transition.incident)
        needless = isinstance(next_step(entry, transition, self._config.min_severity), Skip)
        # One that waits is replaced in any case: only the newest may be sent.
        if not needless or transition.incident in self.outbox:
            self.outbox.put(transition, partition, offset, self._clock())

    def forget(self, incident: str, partition: int) -> None:
        """The incident's record was deleted; so is what the ledger knows."""
        self.outbox.done(incident)
        if self._ledger.get(partition, incident) is not None:
            self._write(partition, incident, None)

    def due_in(self) -> float | None:
        """Seconds until something is due, None when nothing waits."""
        due = self.outbox.next_due()
        return None if due is None else max(0.0, due - self._clock())

    def send_next(self) -> bool:
        """Takes one step for the incident that is due longest. False when none is due."""
        waiting = self.outbox.next(self._clock())
        if waiting is not None:
            delay = self._step_guarded(waiting)
            if delay is None:
                self.outbox.done(waiting.transition.incident)
            else:
                self.outbox.later(waiting, self._clock() + delay)
        self._board.set_waiting(INTEGRATION, len(self.outbox))
        return waiting is not None

    def _step_guarded(self, waiting: Waiting) -> float | None:
        """The outer edge of one incident: a defect that one brings out must not hold up the others."""
        try:
            return self._step(waiting)
        except Exception:
            self._board.count_attempt(INTEGRATION, "other")
            log.exception("incident cannot be told", incident=waiting.transition.incident, tries=waiting.tries)
            if waiting.tries >= _TRIES_COUNTED:
                return None
            return self._put_off(waiting, "a defect in flinkwatch")

    def _step(self, waiting: Waiting) -> float | None:
        """One step towards delivery. Seconds until the next, None when it needs nothing more."""
        entry = self._ledger.get(waiting.partition, waiting.transition.incident)
        if waiting.unwritten and entry is not None:
            delay = self._record(waiting, entry)
            return 0.0 if delay is None and waiting.line is not None else delay
        limited = self._not_before["post"] - self._clock()
        if waiting.line is not None and limited <= 0:
            return self._say(waiting, waiting.line)
        match next_step(entry, waiting.transition, self._config.min_severity):
            case Skip():
                return None if waiting.line is None else limited
            case Post(look_since=int(since)):
                return self._look(waiting, since)
            case Post():
                return self._send(waiting, entry, None)
            case Edit() as edit:
                return self._send(waiting, entry, edit)

    def _look(self, waiting: Waiting, since: int) -> float | None:
        """Finds out whether a message of unknown fate stands in the channel, and writes down which it is."""
        incident = waiting.transition.incident
        channel = self._channel_id()
        found = self._client.find(channel, incident, since - _CLOCK_MARGIN_MS) if channel else None
        if isinstance(found, RetryAfter):
            return self._put_off(waiting, found.reason, found.seconds)
        entry = None if found is None else self._entry(waiting, "sent", found.channel, found.ts, found.seq)
        self._write(waiting.partition, incident, entry)
        return 0.0

    def _channel_id(self) -> str:
        channel = self._config.channel
        return channel if _CHANNEL_ID.fullmatch(channel) else self._ledger.known_channel()

    def _send(self, waiting: Waiting, before: Entry | None, edit: Edit | None) -> float | None:
        transition, partition = waiting.transition, waiting.partition
        method: Method = "post" if edit is None else "edit"
        limited = self._not_before[method] - self._clock()
        if limited > 0:
            return limited
        channel, ts = (edit.channel, edit.ts) if edit is not None else ("", "")
        if not self._write(
            partition, transition.incident, self._entry(waiting, "intent", channel, ts, told=_told(before))
        ):
            self._ledger.remember(partition, transition.incident, before)
            return self._put_off(waiting, "the ledger cannot be written")
        message = self._message(waiting)
        if edit is None:
            outcome = self._client.post(message, transition.incident, transition.seq)
        else:
            outcome = self._client.edit(channel, ts, message, transition.incident, transition.seq)
        self._board.count_attempt(INTEGRATION, None if isinstance(outcome, Delivered) else outcome.failure)
        return self._settle(waiting, before, method, outcome)

    def _message(self, waiting: Waiting) -> Message:
        if waiting.plain:
            return render_plain(waiting.transition)
        return render(waiting.transition, self._config.runbook_base_url, waiting.note)

    def _settle(self, waiting: Waiting, before: Entry | None, method: Method, outcome: Outcome) -> float | None:
        """What follows from an outcome."""
        partition, incident = waiting.partition, waiting.transition.incident
        match outcome:
            case Delivered(channel=channel, ts=ts):
                now = int(self._wall() * 1000)
                planned = plan(_told(before), waiting.transition, now, self._config, edited=method == "edit")
                if planned.reply:
                    waiting.line = Line(render_reply(waiting.transition), channel, ts, planned.broadcast)
                delay = self._record(waiting, self._entry(waiting, "sent", channel, ts, told=planned.told))
                return 0.0 if delay is None and waiting.line is not None else delay
            case Unknown(reason=reason):
                channel, ts = (before.channel, before.ts) if before is not None else ("", "")
                self._write(partition, incident, self._entry(waiting, "unknown", channel, ts, told=_told(before)))
                return self._put_off(waiting, reason)
            case RetryAfter(seconds=seconds, reason=reason, failure=failure):
                self._write(partition, incident, before)
                if failure == "rateLimited" and seconds is not None:
                    self._not_before[method] = self._clock() + seconds
                return self._put_off(waiting, reason, seconds)
            case Refused():
                return self._refused(waiting, before, method, outcome)

    def _refused(self, waiting: Waiting, before: Entry | None, method: Method, refused: Refused) -> float | None:
        partition, incident = waiting.partition, waiting.transition.incident
        if method == "edit" and (refused.because == "target" or refused.code in _CHANNEL_GONE):
            self._write(partition, incident, None)
            waiting.note = _NEW_MESSAGE_NOTE
            return 0.0
        self._write(partition, incident, before)
        fields = {"incident": incident, "error": refused.code, "what_to_do": refused.reason}
        if refused.because == "setup":
            log.error("slack refuses notifications", **fields, retry_in_s=_SETUP_RETRY_S)
            return _SETUP_RETRY_S
        if not waiting.plain:
            log.warning("slack refuses a message, sending it as plain text", **fields)
            waiting.plain = True
            return 0.0
        log.error("slack refuses a message, it is dropped", **fields)
        return None

    def _record(self, waiting: Waiting, sent: Entry) -> float | None:
        """Writes down what was sent, again and again until the brokers have it."""
        waiting.unwritten = not self._write(waiting.partition, sent.incident, sent)
        if waiting.unwritten:
            return self._put_off(waiting, "the ledger cannot be written")
        log.info("incident told to slack", incident=sent.incident, seq=sent.seq)
        return None

    def _say(self, waiting: Waiting, line: Line) -> float | None:
        """Puts a line into the thread; not twice, since the message itself already says everything."""
        outcome = self._client.reply(line.channel, line.ts, line.message, broadcast=line.broadcast)
        self._board.count_attempt(INTEGRATION, None if isinstance(outcome, Delivered) else outcome.failure)
        if isinstance(outcome, RetryAfter) and waiting.tries < _TRIES_COUNTED:
            if outcome.failure == "rateLimited" and outcome.seconds is not None:
                self._not_before["post"] = self._clock() + outcome.seconds
            return self._put_off(waiting, outcome.reason, outcome.seconds)
        waiting.line = None
        return 0.0

    def _put_off(self, waiting: Waiting, reason: str, seconds: float | None = None) -> float:
        delay = min(_BACKOFF_FIRST_S * 2**waiting.tries, _BACKOFF_MAX_S) if seconds is None else seconds
        waiting.tries = min(waiting.tries + 1, _TRIES_COUNTED)
        log.warning("notification put off", incident=waiting.transition.incident, reason=reason, retry_in_s=delay)
        return delay

    def _entry(
        self, waiting: Waiting, state: State, channel: str, ts: str, seq: int | None = None, told: Told | None = None
    ) -> Entry:
        transition = waiting.transition
        return Entry(
            incident=transition.incident,
            seq=transition.seq if seq is None else seq,
            state=state,
            at=int(self._wall() * 1000),
            channel=channel,
            ts=ts,
            told=told,
        )

    def _write(self, partition: int, incident: str, entry: Entry | None) -> bool:
        """Whether the brokers have it. Where a caller does not care, a restart would look the message up once more."""
        try:
            self._ledger.set(partition, incident, entry)
        except KafkaError as error:
            log.warning("delivery ledger not written", incident=incident, error=type(error).__name__)
            return False
        return True


def _told(entry: Entry | None) -> Told | None:
    return None if entry is None else entry.told
