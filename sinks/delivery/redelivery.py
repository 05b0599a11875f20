"""Sends again what was given up, and gives incidents of a storm that has ended a message of their own.

Neither is held in memory: the notification log knows the offset of the record, which is read again.
"""

from sinks.delivery.notification_log import NotificationLog
from sinks.delivery.outbox import Outbox
from sinks.delivery.storm import Storms

_RETRY_EVERY_MS = 3_600_000
_STORM_CHECK_MS = 5_000
_AT_ONCE = 50


class Redelivery:
    def __init__(self, log: NotificationLog, outbox: Outbox, storms: Storms) -> None:
        self._log, self._outbox, self._storms = log, outbox, storms
        self._retry_at = self._storm_check_at = 0

    def retry_now(self) -> None:
        """The receiver accepts messages, so the next one need not wait for the hour."""
        self._retry_at = 0

    def due(self, now_ms: int) -> list[tuple[int, int]]:
        """Partition and offset of the incidents to send: one that was given up, or those of a storm that has ended."""
        given_up: list[tuple[int, int, int]] = []
        if now_ms >= self._retry_at:
            self._retry_at = now_ms + _RETRY_EVERY_MS
            given_up = [
                (entry.at, partition, entry.offset)
                for partition, entry in self._log.entries()
                if entry.state == "undelivered"
                and not entry.silenced
                and entry.at <= now_ms - _RETRY_EVERY_MS
                and entry.incident not in self._outbox
            ]
        if given_up:
            # The one whose last try is longest ago.
            return [min(given_up)[1:]]
        if now_ms < self._storm_check_at:
            return []
        self._storm_check_at = now_ms + _STORM_CHECK_MS
        return self._storms.ended(now_ms, _AT_ONCE)
