"""Storms: when more new messages come or wait than a channel can take, incidents are told in a digest instead.

A digest is one message a storm, edited in place. The incidents in it are in the ledger as `folded` and hold no memory
but that. One gets a message of its own when it becomes critical and the channel can take it, or when the storm is over
and it is still open; until then its changes show in the digest. One that is silenced is neither counted as open nor
gets a message; when the silence ends it gets one, if the channel can take it.
"""

from collections import deque

import msgspec

from detectors.incident import Transition
from sinks.contract.digest import PREFIX, Folded, Summary, digest_transition, folded, summarise
from sinks.delivery.notification_log import Entry, Ledger
from sinks.delivery.outbox import NO_OFFSET, Method, Outbox

_EDIT_EVERY_S = 5.0
# An edit notifies nobody: what begins later than this gets a digest of its own.
_NEW_DIGEST_MS = 3_600_000
# No storm while nothing was folded for so long.
_CALM_MS = 60_000
# Critical ones may make a longer queue than others.
_CRITICAL_FACTOR = 2


class Storms:
    """The digests of one lane. `limit`: more new messages that wait, or come in a minute, are folded."""

    def __init__(self, ledger: Ledger, outbox: Outbox, limit: int) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._limit = limit
        self._storms: dict[int, dict[str, int]] = {}
        self._last_fold = 0
        # One queue for critical incidents and one for others: when they came, as many as are counted.
        self._arrived = {critical: deque[int](maxlen=self._room(critical)) for critical in (False, True)}

    def take_over(self, partition: int, now: float, now_ms: int) -> None:
        """Counts what the ledger of a new partition has folded; what belongs to a digest of others begins a new one."""
        ours = {entry.incident for _, entry in self._ledger.entries() if entry.incident.startswith(PREFIX)}
        found = [entry for owner, entry in self._ledger.entries() if owner == partition and entry.folded is not None]
        for entry in found:
            one = entry.folded
            assert one is not None  # noqa: S101 - for the type checker: the line above says so
            if f"{PREFIX}{one.storm}" in ours:
                self._storms.setdefault(one.storm, {})[entry.incident] = partition
                self._refresh(one.storm, now, now_ms)
            elif not one.over and not one.alone:
                self._keep(partition, entry, msgspec.structs.replace(one, storm=self._current(now_ms)), now, now_ms)

    def release(self, partition: int) -> None:
        """A partition has gone, and what is folded in it."""
        for storm, members in list(self._storms.items()):
            kept = {name: owner for name, owner in members.items() if owner != partition}
            if kept:
                self._storms[storm] = kept
            else:
                del self._storms[storm]

    def floods(self, transition: Transition, now_ms: int) -> bool:
        """Whether one more message would be too many. It counts as come."""
        critical = transition.severity == "critical"
        arrived = self._arrived[critical]
        many = len(arrived) == arrived.maxlen and now_ms - arrived[0] < _CALM_MS
        arrived.append(now_ms)
        return many or self._outbox.posts() >= self._room(critical)

    def fold(
        self, transition: Transition, partition: int, offset: int, now: float, now_ms: int, *, old: bool = False
    ) -> None:
        """Tells an incident in the digest, with `old` for good. Raises KafkaError."""
        one = folded(transition, self._current(now_ms), old=old)
        self._last_fold = now_ms
        entry = Entry(
            incident=transition.incident, seq=transition.seq, state="folded", at=now_ms, offset=offset, over=one.over
        )
        self._keep(partition, entry, one, now, now_ms)

    def change(
        self, entry: Entry, transition: Transition, partition: int, offset: int, now: float, now_ms: int
    ) -> bool:
        """A change of an incident that is told in a digest. False: it is to get a message of its own now."""
        before = entry.folded
        if before is None or transition.seq <= entry.seq:
            return True
        one = folded(transition, before.storm)
        silenced = transition.silence is not None
        due = entry.silenced or one.severity == "critical" != before.severity
        alone = due and not silenced and not one.over and not self.floods(transition, now_ms)
        newer = msgspec.structs.replace(
            entry, seq=transition.seq, at=now_ms, offset=offset, over=one.over, silenced=silenced
        )
        if alone:
            return False
        self._keep(partition, newer, one, now, now_ms)
        return True

    def alone(self, entry: Entry, now: float, now_ms: int) -> None:
        """An incident of a digest has its own message now, or that one has changed: the digest counts it so."""
        if entry.folded is not None:
            self._refresh(entry.folded.storm, now, now_ms)

    def summary(self, storm: int) -> Summary:
        """The digest as it stands."""
        members = self._storms.get(storm, {})
        found = ((name, self._ledger.get(partition, name)) for name, partition in members.items())
        entries = [(name, e, e.folded) for name, e in found if e is not None and e.folded is not None]
        silent = {name for name, e, one in entries if e.silenced and not one.over}
        return summarise(storm, ((name, one) for name, _, one in entries if name not in silent), silenced=len(silent))

    def calm(self, now_ms: int, most: int) -> list[tuple[int, int]]:
        """Partition and offset of at most `most` incidents that now get their own message; none while a storm lasts."""
        self._forget_ended(now_ms)
        if not self._storms or now_ms - self._last_fold < _CALM_MS:
            return []
        waiting = [
            (partition, entry)
            for members in self._storms.values()
            for name, partition in members.items()
            if (entry := self._ledger.get(partition, name)) is not None
            and not entry.silenced
            and _in_digest_only(entry.folded)
            and not (entry.folded and entry.folded.old)
        ]
        if len(waiting) > self._limit:
            return []
        return [(p, entry.offset) for p, entry in waiting if entry.incident not in self._outbox][:most]

    def _room(self, critical: bool) -> int:
        return self._limit * (_CRITICAL_FACTOR if critical else 1)

    def _forget_ended(self, now_ms: int) -> None:
        for storm, members in list(self._storms.items()):
            entries = (self._ledger.get(partition, name) for name, partition in members.items())
            ended = now_ms - storm >= _NEW_DIGEST_MS and not any(e and _in_digest_only(e.folded) for e in entries)
            if ended and f"{PREFIX}{storm}" not in self._outbox:
                del self._storms[storm]

    def _current(self, now_ms: int) -> int:
        newest = max(self._storms, default=0)
        return newest if now_ms - newest < _NEW_DIGEST_MS else now_ms

    def _keep(self, partition: int, entry: Entry, one: Folded, now: float, now_ms: int) -> None:
        self._storms.setdefault(one.storm, {})[entry.incident] = partition
        self._ledger.set_soon(partition, entry.incident, msgspec.structs.replace(entry, folded=one))
        self._refresh(one.storm, now, now_ms)

    def _refresh(self, storm: int, now: float, now_ms: int) -> None:
        """Puts the digest in line, unless it waits there already."""
        name = f"{PREFIX}{storm}"
        if name in self._outbox:
            return
        partitions = self._ledger.partitions()
        stands = [(p, entry) for p in partitions if (entry := self._ledger.get(p, name)) is not None]
        partition, entry = stands[0] if stands else (partitions[0], None)
        seq = 1 if entry is None else entry.seq + 1
        due = now if entry is None else now + _EDIT_EVERY_S
        method: Method = "edit" if entry is not None and entry.ts else "post"
        transition = digest_transition(storm, seq, now_ms)
        self._outbox.put(transition, partition, NO_OFFSET, due, at=now_ms, method=method)


def _in_digest_only(one: Folded | None) -> bool:
    return one is not None and not one.over and not one.alone
