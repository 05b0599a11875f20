"""Storms: if more new messages come or wait than a channel can take, a digest reports the incidents instead.

A digest is one message for each storm, edited in place. Its incidents are `folded` in the notification log and kept
nowhere else. An incident gets a message of its own if it becomes critical and the channel can take it, or if it is
still open when the storm has ended; until then the digest shows its changes. A silenced incident does not count as open
and gets no message; it gets one after its silence, if the channel can take it.
"""

from collections import deque
from functools import partial

from msgspec.structs import replace

from detectors.incident import Transition
from sinks.contract.digest import PREFIX, Folded, Summary, folded, summarise
from sinks.contract.placeholder import placeholder
from sinks.delivery.attempt import NO_OFFSET
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks, Outbox
from sinks.delivery.rate_limit import Method

_EDIT_EVERY_S = 5.0
# An edit notifies no one, so incidents that come later than this get another digest.
_NEW_DIGEST_MS = 3_600_000
# A storm has ended when nothing was folded for so long.
_ENDED_AFTER_MS = 60_000
# The queue of critical ones may be longer.
_CRITICAL_FACTOR = 2


class Storms:
    """The digests of one receiver. If more than `limit` new messages wait, or come in a minute, the rest is folded."""

    def __init__(self, log: NotificationLog, outbox: Outbox, limit: int, clocks: Clocks) -> None:
        self._log, self._outbox, self._limit, self._clocks = log, outbox, limit, clocks
        # When the storm of the newest digest of ours began, and when the last incident was folded.
        self._newest = self._last_fold = 0
        # One queue for critical incidents and one for others: when they came, as many as are counted.
        self._arrived = {critical: deque[int](maxlen=self._room(critical)) for critical in (False, True)}

    def take_over(self, partition: int) -> None:
        """What a new partition has folded continues in its digest, or in one of ours if another process has that."""
        ours = {entry.incident for _, entry in self._log.entries() if entry.incident.startswith(PREFIX)}
        for owner, entry in list(self._log.entries()):
            if owner != partition or entry.folded is None:
                continue
            if f"{PREFIX}{entry.folded.storm}" in ours:
                self._newest = max(self._newest, entry.folded.storm)
                self._refresh(entry.folded.storm)
            elif one := _only_in_digest(entry):
                self._keep(partition, entry, replace(one, storm=self._current()))

    def release(self, partition: int) -> None:
        """Another process may own a partition now."""
        kept = [_only_in_digest(entry) for owner, entry in self._log.entries() if owner != partition]
        self._newest = max((one.storm for one in kept if one), default=0)

    def floods(self, transition: Transition) -> bool:
        """Whether one more message would be too many. It is counted."""
        now_ms, critical = self._clocks.now_ms(), transition.severity == "critical"
        arrived = self._arrived[critical]
        many = len(arrived) == arrived.maxlen and now_ms - arrived[0] < _ENDED_AFTER_MS
        arrived.append(now_ms)
        return many or self._outbox.posts() >= self._room(critical)

    def fold(self, transition: Transition, partition: int, offset: int, *, backlog: bool = False) -> None:
        """Reports an incident in the digest, `backlog` until it changes. Raises KafkaError."""
        one = folded(transition, self._current(), backlog=backlog)
        now_ms = self._last_fold = self._clocks.now_ms()
        entry = Entry(incident=transition.incident, seq=transition.seq, state="folded", at=now_ms, offset=offset)
        self._keep(partition, replace(entry, resolved=one.resolved), one)

    def change(self, entry: Entry, transition: Transition, partition: int, offset: int) -> bool:
        """A change of an incident that a digest reports. False: it is to get a message of its own now."""
        before = entry.folded
        if before is None or transition.seq <= entry.seq:
            return True
        one = folded(transition, before.storm)
        silenced = transition.silence is not None
        due = entry.silenced or one.severity == "critical" != before.severity
        if due and not silenced and not one.resolved and not self.floods(transition):
            return False
        now_ms, over = self._clocks.now_ms(), one.resolved
        newer = replace(entry, seq=transition.seq, at=now_ms, offset=offset, resolved=over, silenced=silenced)
        self._keep(partition, newer, one)
        return True

    def refresh(self, entry: Entry) -> None:
        """The message of an incident was delivered or does not exist, which the digest that counts it shows."""
        if entry.folded is not None:
            self._refresh(entry.folded.storm)

    def summary(self, storm: int) -> Summary:
        members = [(e, e.folded) for _, e in self._log.entries() if e.folded is not None and e.folded.storm == storm]
        shown = [(e.incident, one) for e, one in members if one.resolved or not e.silenced]
        return summarise(storm, shown, silenced=len(members) - len(shown))

    def ended(self, now_ms: int, most: int) -> list[tuple[int, int]]:
        """Partition and offset of at most `most` incidents that now get their own message; none during a storm."""
        if now_ms - self._last_fold < _ENDED_AFTER_MS:
            return []
        waiting = [
            (partition, entry)
            for partition, entry in self._log.entries()
            if (one := _only_in_digest(entry)) and not one.backlog and not entry.silenced
        ]
        if len(waiting) > self._limit:
            return []
        return [(p, entry.offset) for p, entry in waiting if entry.incident not in self._outbox][:most]

    def _room(self, critical: bool) -> int:
        return self._limit * (_CRITICAL_FACTOR if critical else 1)

    def _current(self) -> int:
        now_ms = self._clocks.now_ms()
        return self._newest if now_ms - self._newest < _NEW_DIGEST_MS else now_ms

    def _keep(self, partition: int, entry: Entry, one: Folded) -> None:
        self._newest = max(self._newest, one.storm)
        self._log.set_soon(partition, entry.incident, replace(entry, folded=one))
        self._refresh(one.storm)

    def _refresh(self, storm: int) -> None:
        """Queues the digest, unless it waits already."""
        name = f"{PREFIX}{storm}"
        if name in self._outbox:
            return
        partitions = self._log.partitions()
        known = [(p, entry) for p in partitions if (entry := self._log.get(p, name)) is not None]
        partition, entry = known[0] if known else (partitions[0], None)
        seq = 1 if entry is None else entry.seq + 1
        due = self._clocks.monotonic() + (0.0 if entry is None else _EDIT_EVERY_S)
        method: Method = "edit" if entry is not None and entry.ts else "post"
        now_ms = self._clocks.now_ms()
        transition = placeholder(f"{PREFIX}{storm}", seq, now_ms, "storm", storm)
        queued = self._outbox.put(transition, partition, NO_OFFSET, due, at=now_ms, method=method)
        queued.summary = partial(self.summary, storm)


def _only_in_digest(entry: Entry) -> Folded | None:
    """An open incident that only a digest reports; None for any other."""
    one = entry.folded
    return None if one is None or one.resolved or one.has_own_message else one
