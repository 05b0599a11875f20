"""What follows from what became of a call: the ledger is written, the incident is done, tried again, or put aside."""

from collections.abc import Callable

import msgspec
import structlog

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.receiver import Lane
from sinks.contract.sink import Notice
from sinks.delivery.log_records import Records, without_message
from sinks.delivery.notification_log import Entry, Ledger
from sinks.delivery.outbox import NO_OFFSET, Waiting
from sinks.delivery.rate_limit import Gates
from sinks.delivery.redelivery import DAY_MS, Revival
from sinks.delivery.storm import Storms
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
# A wrong token or channel needs a person; the retry is there to notice the repair.
_SETUP_RETRY_S = 60.0
_NEW_MESSAGE_NOTE = "The earlier message of this incident is gone or can no longer be edited; this one takes its place."
_CHANNEL_GONE = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
_TRIES_COUNTED = 10
TRIES_BEFORE_GIVING_UP = 5


class Settler:
    """Each method gives the seconds until the next step of an incident, None when it needs nothing more."""

    def __init__(
        self,
        lane: Lane,
        records: Records,
        ledger: Ledger,
        gates: Gates,
        storms: Storms,
        revival: Revival,
        board: IncidentCollector,
        *,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._lane, self._sink = lane, lane.sink
        self._records, self._ledger = records, ledger
        self._gates, self._storms, self._revival, self._board = gates, storms, revival, board
        self._clock, self._wall = clock, wall

    def settle(self, waiting: Waiting, before: Entry | None, notice: Notice, outcome: Outcome) -> float | None:
        """What follows from an outcome."""
        match outcome:
            case Delivered(channel=channel, ts=ts):
                return self._delivered(waiting, before, notice, Delivered(channel, ts))
            case Unknown(reason=reason):
                channel, ts = (before.channel, before.ts) if before is not None else ("", "")
                unknown = self._records.entry(waiting, "unknown", channel, ts, before)
                self._records.write(waiting.partition, unknown.incident, unknown)
                waiting.looked = False
                return self.put_off(waiting, reason)
            case RetryAfter(seconds=seconds, reason=reason, failure=failure):
                self._records.write(waiting.partition, waiting.transition.incident, before)
                if failure == "rateLimited" and seconds is not None:
                    self._gates.shut(waiting.method, seconds)
                return self.put_off(waiting, reason, seconds)
            case Refused():
                return self._refused(waiting, before, outcome)

    def _delivered(self, waiting: Waiting, before: Entry | None, notice: Notice, delivered: Delivered) -> float | None:
        edited = waiting.method == "edit"
        entry = self._records.entry(waiting, "sent", delivered.channel, delivered.ts, before)
        if notice.summary is None:
            told = None if before is None else before.told
            follow_up = self._sink.follow_up(notice, delivered, told, entry.at, edited=edited)
            entry = msgspec.structs.replace(entry, told=follow_up.told)
            waiting.extras = follow_up.extras
            # What goes beside the message has its own tries, and the message is told whatever becomes of them.
            waiting.tries, waiting.probe = 0, False
            self._board.observe_delay(self._lane.name, max(0.0, self._wall() - waiting.at / 1000))
        delay = self.record(waiting, entry)
        self._revival.delivered()
        self._storms.alone(entry, self._clock(), entry.at)
        return delay

    def _refused(self, waiting: Waiting, before: Entry | None, refused: Refused) -> float | None:
        partition, incident = waiting.partition, waiting.transition.incident
        if waiting.method == "edit" and (refused.because == "target" or refused.code in _CHANNEL_GONE):
            self._records.write(partition, incident, without_message(before, waiting.transition))
            waiting.note = _NEW_MESSAGE_NOTE
            return 0.0
        self._records.write(partition, incident, before)
        fields = {"lane": self._lane.name, "incident": incident, "error": refused.code, "what_to_do": refused.reason}
        if refused.because == "setup":
            log.error("notifications are refused", **fields, retry_in_s=_SETUP_RETRY_S)
            self._gates.shut(waiting.method, _SETUP_RETRY_S)
            return self.put_off(waiting, refused.reason, _SETUP_RETRY_S)
        if not waiting.plain:
            log.warning("a message is refused, sending it as plain text", **fields)
            waiting.plain = True
            return 0.0
        return self.give_up(waiting, f"{refused.code}: {refused.reason}")

    def keep_silent(self, waiting: Waiting, before: Entry | None) -> None:
        """No message of it stands, and under a silence none is sent."""
        self._board.count_suppressed(self._lane.name, "silence")
        kept = without_message(before, waiting.transition)
        self._records.write(waiting.partition, waiting.transition.incident, kept)
        if kept is not None:
            self._storms.alone(kept, self._clock(), int(self._wall() * 1000))

    def record(self, waiting: Waiting, sent: Entry) -> float | None:
        """Writes down what was sent, again and again until the brokers have it."""
        waiting.unwritten = not self._records.write(waiting.partition, sent.incident, sent)
        if waiting.unwritten:
            return self.put_off(waiting, "the ledger cannot be written")
        log.info("incident notified", **self._about(waiting))
        return 0.0 if waiting.extras else None

    def _about(self, waiting: Waiting) -> dict[str, object]:
        """Fields of a log line, so that these lines read as the history of each incident."""
        one = waiting.transition
        about = {"lane": self._lane.name, "incident": one.incident, "seq": one.seq, "change": one.transition}
        if waiting.offset == NO_OFFSET:
            return {**about, "kind": "digest"}
        job = one.job_name or one.job_id
        return {**about, "kind": one.cause, "severity": one.severity, "cluster": one.cluster, "job": job}

    def put_off(self, waiting: Waiting, reason: str, seconds: float | None = None) -> float | None:
        """Tries again later, with growing pauses unless `seconds` says when; what waits for a day is put aside."""
        too_long = self._wall() * 1000 - waiting.at >= DAY_MS and waiting.tries >= TRIES_BEFORE_GIVING_UP
        stands = waiting.unwritten or bool(waiting.extras)
        if (too_long or waiting.probe) and not stands and waiting.offset != NO_OFFSET:
            return self.give_up(waiting, reason)
        delay = min(_BACKOFF_FIRST_S * 2**waiting.tries, _BACKOFF_MAX_S) if seconds is None else seconds
        waiting.tries = min(waiting.tries + 1, _TRIES_COUNTED)
        log.warning(
            "notification postponed",
            **self._about(waiting),
            reason=reason,
            retry_in_s=delay,
        )
        return delay

    def give_up(self, waiting: Waiting, reason: str) -> float | None:
        """Keeps it in the ledger, from where it is tried again each hour."""
        if waiting.offset == NO_OFFSET:
            return _BACKOFF_MAX_S
        before = self._ledger.get(waiting.partition, waiting.transition.incident)
        channel, ts = (before.channel, before.ts) if before is not None else ("", "")
        entry = msgspec.structs.replace(self._records.entry(waiting, "undelivered", channel, ts, before), reason=reason)
        if not self._records.write(waiting.partition, entry.incident, entry):
            return _BACKOFF_MAX_S
        if not waiting.probe:
            log.error("incident is undelivered, it is kept", lane=self._lane.name, incident=entry.incident, why=reason)
        return None

    def count(self, outcome: Outcome) -> bool:
        """Counts a call; whether it failed."""
        failed = not isinstance(outcome, Delivered)
        self._board.count_attempt(self._lane.name, None if isinstance(outcome, Delivered) else outcome.failure)
        return failed
