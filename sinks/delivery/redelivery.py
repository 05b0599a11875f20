"""What was put aside comes back: incidents that could not be delivered, and those of a storm that is over.

Neither is held in memory: the ledger knows where the record stands, which is read again.
"""

from sinks.delivery.notification_log import Ledger
from sinks.delivery.outbox import Outbox
from sinks.delivery.storm import Storms

DAY_MS = 86_400_000
"""What could not be delivered for so long is put aside: it is tried again each hour and shown until then."""

_PROBE_EVERY_MS = 3_600_000
_CALM_CHECK_MS = 5_000
_AT_ONCE = 50


class Revival:
    """Of one lane."""

    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self._ledger = ledger
        self._outbox = outbox
        self._probe_at = 0
        self._calm_at = 0

    def delivered(self) -> None:
        """The receiver takes messages: the next one need not wait for the hour."""
        self._probe_at = 0

    def due(self, now_ms: int) -> list[tuple[int, int]]:
        """Partition and offset of one incident that was given up and is to be tried again."""
        if now_ms < self._probe_at:
            return []
        self._probe_at = now_ms + _PROBE_EVERY_MS
        given_up = [
            (entry.at, partition, entry.offset)
            for partition, entry in self._ledger.entries()
            if entry.state == "undelivered"
            and not entry.silenced
            and entry.at <= now_ms - _PROBE_EVERY_MS
            and entry.incident not in self._outbox
        ]
        # The one whose last try is longest ago.
        return [min(given_up)[1:]] if given_up else []

    def calm(self, storms: Storms, now_ms: int) -> list[tuple[int, int]]:
        """Partition and offset of incidents whose storm is over."""
        if now_ms < self._calm_at:
            return []
        self._calm_at = now_ms + _CALM_CHECK_MS
        return storms.calm(now_ms, _AT_ONCE)
