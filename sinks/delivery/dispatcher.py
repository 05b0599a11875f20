"""Decides what becomes of a transition in one lane: told now, later, in a digest, or not at all.

What is to be told waits in the outbox; `sender.py` takes it from there, one step at a time. Nothing here waits.
"""

import time
from collections.abc import Callable

import msgspec
import structlog

from detectors.incident import Transition
from sinks.contract.receiver import Lane
from sinks.delivery.bootstrap import BORN, OLD_MS, Recovery
from sinks.delivery.decision import Look, Skip, next_step
from sinks.delivery.notification_log import Entry, Ledger
from sinks.delivery.outbox import Method, Outbox
from sinks.delivery.redelivery import Revival
from sinks.delivery.sender import Sender
from sinks.delivery.storm import Storms
from sinks.prometheus.collector import IncidentCollector

log = structlog.get_logger()

# What ended so long ago is neither told anew nor kept in the ledger.
_FORGET_MS = 14 * 86_400_000
_FORGET_EVERY_S = 86_400.0
# What keeps no ledger may not know yet that this has ended.
_JUST_NOW_MS = 1_800_000
_REPORT_EVERY_S = 1.0


class Dispatcher:
    """Used from one thread."""

    def __init__(
        self,
        lane: Lane,
        ledger: Ledger,
        board: IncidentCollector,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.outbox = Outbox()
        self.recovery = Recovery(lane.sink, ledger, lane.channel)
        self.revival = Revival(ledger, self.outbox)
        self._lane = lane
        self._ledger = ledger
        self._board = board
        self._clock = clock
        self._wall = wall
        self._storms = Storms(ledger, self.outbox, lane.digest_above)
        self._sender = Sender(lane, ledger, self.outbox, self._storms, self.revival, board, clock=clock, wall=wall)
        self._report_at = 0.0
        self._forget_at = 0.0

    def take_over(self, partition: int) -> None:
        """A partition is ours; the ledger has been loaded. Raises KafkaError."""
        self._ledger.forget_ended(self._now_ms() - _FORGET_MS)
        self._storms.take_over(partition, self._clock(), self._now_ms())

    def release(self, partition: int) -> None:
        """Somebody else may have a partition now."""
        self.outbox.drop(partition)
        self._storms.release(partition)
        for owner, entry in self._ledger.entries():
            if owner == partition:
                self._lane.sink.release(entry.incident)
        self._ledger.drop(partition)

    def accept(self, transition: Transition, partition: int, offset: int, at: int = 0) -> None:
        """Finds out what a transition needs; `at` is when its record came to Kafka (epoch ms). Raises KafkaError."""
        incident, entry = transition.incident, self._entry(transition, partition, offset)
        if entry is None and self._is_forgotten(transition, at):
            self.outbox.done(incident)
            return
        waiting = self.outbox.get(incident)
        if waiting is None and entry is None:
            if not self._lane.is_target(transition):
                return
            if self.recovery.is_history(partition, offset):
                entry = self.recovery.adopt(partition, incident, self._now_ms())
                if entry is None and self._is_told_as_history(transition, partition, offset, at):
                    return
        elif entry is None and transition.transition == "resolved" and self.recovery.is_history(partition, offset):
            self.outbox.done(incident)
            return
        if entry is not None and entry.state == "folded" and self._stays_folded(entry, transition, partition, offset):
            return
        step = next_step(entry, transition, self._lane.sink.traits)
        if step == Skip("silenced"):
            self._keep_silent(entry, transition, partition, offset)
        elif waiting is None and isinstance(step, Skip):
            return
        elif isinstance(step, Look):
            self.outbox.put(transition, partition, offset, self._clock(), at=at or self._now_ms(), method="edit")
        elif entry is None or (not entry.ts and entry.state in {"folded", "undelivered"}):
            self._accept_new(transition, partition, offset, at)
        else:
            method: Method = "edit" if entry.ts else "post"
            self.outbox.put(transition, partition, offset, self._clock(), at=at or self._now_ms(), method=method)

    def _entry(self, transition: Transition, partition: int, offset: int) -> Entry | None:
        """What the log knows of an incident; where it has lost it, that its message has to be looked up."""
        incident, entry = transition.incident, self._ledger.get(partition, transition.incident)
        if entry is not None or incident in self.outbox or self.recovery.is_history(partition, offset):
            return entry
        if self.recovery.is_older_than_the_log(partition, transition) and self._lane.is_target(transition):
            self.recovery.doubt(partition, [incident], self._now_ms())
        return self._ledger.get(partition, incident)

    def revive(self, transition: Transition, partition: int, offset: int) -> None:
        """What was given up, or told in a digest, is tried with a message of its own."""
        entry = self._ledger.get(partition, transition.incident)
        if entry is None or transition.seq < entry.seq or entry.state not in {"folded", "undelivered"}:
            return
        if isinstance(next_step(entry, transition, self._lane.sink.traits), Skip):
            return
        method: Method = "edit" if entry.ts else "post"
        waiting = self.outbox.put(transition, partition, offset, self._clock(), at=self._now_ms(), method=method)
        waiting.probe = entry.state == "undelivered"

    def forget(self, incident: str, partition: int) -> None:
        """The incident's record was deleted; so is what the ledger knows. Raises KafkaError."""
        self.outbox.done(incident)
        if self._ledger.get(partition, incident) is not None:
            self._ledger.set_soon(partition, incident, None)

    def count_damaged(self, count: int) -> None:
        """So many entries of the ledger cannot be read."""
        for _ in range(count):
            self._board.count_skipped(self._ledger.topic, "not readable")

    def due_in(self) -> float | None:
        """Seconds until something is due, None when nothing waits."""
        return self._sender.due_in()

    def send_next(self) -> bool:
        """Takes one step for the incident that is due longest. False when none is due. Raises KafkaError."""
        stepped = self._sender.send_next()
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + _FORGET_EVERY_S
            self._ledger.forget_ended(self._now_ms() - _FORGET_MS)
        if self._clock() >= self._report_at:
            self._report_at = self._clock() + _REPORT_EVERY_S
            self._report()
        return stepped

    def to_read(self) -> list[tuple[int, int]]:
        """Partition and offset of incidents whose record is to be read again and given to `revive`."""
        now_ms = self._now_ms()
        return self.revival.due(now_ms) or self.revival.calm(self._storms, now_ms)

    def undelivered(self) -> int:
        """How many incidents were given up for now."""
        return sum(entry.state == "undelivered" and not entry.silenced for _, entry in self._ledger.entries())

    def _accept_new(self, transition: Transition, partition: int, offset: int, at: int) -> None:
        """A message that does not stand yet."""
        now, quiet = self._clock(), self._lane.quiet_s(transition, self._wall())
        waiting = self.outbox.get(transition.incident)
        if transition.transition == "resolved" and (quiet or (waiting is not None and waiting.held)):
            # Over before it was to be told.
            self._board.count_suppressed(self._lane.name, "quiet hours")
            self.outbox.done(transition.incident)
            return
        if waiting is None and self._lane.sink.traits.digests and self._storms.floods(transition, self._now_ms()):
            self._board.count_suppressed(self._lane.name, "digest")
            self._storms.fold(transition, partition, offset, now, self._now_ms())
            return
        waiting = self.outbox.put(transition, partition, offset, now + quiet, at=at or self._now_ms())
        if waiting.held and not quiet:
            self.outbox.later(waiting, now)
        waiting.held = quiet > 0

    def _keep_silent(self, entry: Entry | None, transition: Transition, partition: int, offset: int) -> None:
        """Nobody is told under a silence. Where it is not known whether they were before, the ledger goes along."""
        self._board.count_suppressed(self._lane.name, "silence")
        self.outbox.done(transition.incident)
        if entry is not None:
            newer = msgspec.structs.replace(entry, seq=transition.seq, offset=offset, silenced=True)
            self._ledger.set_soon(partition, transition.incident, newer)

    def _stays_folded(self, entry: Entry, transition: Transition, partition: int, offset: int) -> bool:
        if transition.transition == "resolved" or transition.silence is not None:
            self.outbox.done(transition.incident)
        elif transition.incident in self.outbox:
            return False
        return self._storms.change(entry, transition, partition, offset, self._clock(), self._now_ms())

    def _is_told_as_history(self, transition: Transition, partition: int, offset: int, at: int) -> bool:
        """Whether nothing more is to be done for an incident from before the ledger that stands in no message."""
        traits = self._lane.sink.traits
        if transition.transition == "resolved" and (traits.keeps_ledger or self._now_ms() - at > _JUST_NOW_MS):
            return True
        is_told = not isinstance(next_step(None, transition, traits), Skip)
        if is_told and traits.digests and self._now_ms() - at > OLD_MS:
            self._storms.fold(transition, partition, offset, self._clock(), self._now_ms(), old=True)
            return True
        return False

    def _is_forgotten(self, transition: Transition, at: int) -> bool:
        return transition.transition == "resolved" and 0 < at < self._now_ms() - _FORGET_MS

    def _report(self) -> None:
        name, entries = self._lane.name, [e for _, e in self._ledger.entries() if e.incident != BORN]
        oldest = self.outbox.oldest()
        self._board.set_waiting(name, len(self.outbox))
        self._board.set_oldest_waiting(name, None if oldest is None else oldest / 1000)
        self._board.set_undelivered(name, self.undelivered())
        unsettled = min((e.at for e in entries if e.state in {"intent", "unknown"} and e.seq), default=None)
        self._board.set_ledger(name, len(entries), None if unsettled is None else unsettled / 1000)

    def _now_ms(self) -> int:
        return int(self._wall() * 1000)
