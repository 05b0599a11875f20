"""Applies changed routes and quiet hours to open incidents of which this receiver has sent nothing yet.

Several deliverers read a changed file at different times. An incident that opens in between may go to no receiver: one
deliverer has the old routes, the other one the new ones. So each deliverer looks again at the open incidents when its
own routes change. What a receiver has sent is never withdrawn: it is edited until its incident ends.
"""

from collections.abc import Iterator
from typing import cast

from detectors.incident import Severity, Transition
from detectors.incidents.shared_resources import PLATFORM
from sinks.contract.receiver import Receiver
from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.outbox import Clocks, Outbox
from sinks.prometheus.collector import IncidentCollector
from sinks.prometheus.incident_metrics import OpenIncident

# The collector is read by another thread, so an incident may come to it after the change.
_LOOK_FOR_S, _LOOK_EVERY_S = 60.0, 5.0
_AT_ONCE = 50


class Rerouting:
    """Of one receiver. Used from its thread."""

    def __init__(
        self, receiver: Receiver, log: NotificationLog, outbox: Outbox, board: IncidentCollector, clocks: Clocks
    ) -> None:
        self._receiver, self._log, self._outbox, self._board, self._clocks = receiver, log, outbox, board, clocks
        # Not the present version: a change may have come while this receiver had no connection to Kafka.
        self._version = 0
        self._look_at = self._look_until = float("-inf")
        self._read: set[str] = set()

    def to_read(self) -> list[tuple[int, int]]:
        """Partition and offset of the incidents that the changed routes may direct to this receiver."""
        now, version = self._clocks.monotonic(), self._receiver.routes_version()
        if version != self._version:
            self._version, self._look_at, self._look_until = version, now, now + _LOOK_FOR_S
            self._read.clear()
            self._decide_deferred_again()
        if not self._look_at <= now <= self._look_until:
            return []
        found = dict(self._unknown())
        chosen = list(found)[:_AT_ONCE]
        self._read.update(chosen)
        if len(found) > len(chosen):
            self._look_until = now + _LOOK_FOR_S
        else:
            self._look_at = now + _LOOK_EVERY_S
        return [found[incident] for incident in chosen]

    def is_newest(self, incident: str, partition: int, offset: int) -> bool:
        """Whether the record there is the newest one of an open incident: compaction may have left another one."""
        return self._board.place_of(incident) == (partition, offset)

    def _unknown(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Targets with their places that are open, not silenced, and neither sent nor waiting here."""
        owned = self._log.partitions()
        for incident, one in self._board.open_incidents().items():
            if one.place is None or not one.rank or incident in self._read or one.place[0] not in owned:
                continue
            known = incident in self._outbox or self._log.get(one.place[0], incident) is not None
            if not known and self._may_be_target(incident, one):
                yield incident, one.place

    def _may_be_target(self, incident: str, one: OpenIncident) -> bool:
        """Decided by the labels, so that ten thousand incidents of other receivers need not be read."""
        kind, severity, cluster, job = one.labels
        outline = Transition(
            incident=incident,
            seq=1,
            transition="opened",
            at=0,
            cluster=cluster,
            job_name=job,
            cause=kind,
            severity=cast(Severity, severity),
            summary="",
            findings=[],
            evidence=[],
        )
        # The clusters of a platform incident are in its findings.
        return kind == PLATFORM or self._receiver.is_target(outline)

    def _decide_deferred_again(self) -> None:
        """What quiet hours hold back was not sent, so it follows the new routes and the new quiet hours."""
        for queued in self._outbox.deferred():
            if self._receiver.is_target(queued.transition):
                quiet_s = self._receiver.quiet_s(queued.transition, self._clocks.wall())
                self._outbox.later(queued, self._clocks.monotonic() + quiet_s)
            else:
                self._outbox.done(queued.transition.incident)
