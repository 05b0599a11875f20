"""Expired checkpoints for a chart of durations. With completed checkpoints alone it would look like a recovery."""

import msgspec

from detectors.values.bounded import put_bounded

_MAX_TRIGGERS = 16
_MAX_EXPIRED = 16


class CheckpointAttempts(msgspec.Struct, array_like=True):
    """Event times (ms) of checkpoints in progress by number, and the last expired ones as (time of expiry, age)."""

    triggers: dict[int, int] = {}
    expired: list[tuple[int, int]] = []

    def trigger(self, number: int, time: int) -> None:
        """Take in a line about a triggered checkpoint."""
        put_bounded(self.triggers, number, time, _MAX_TRIGGERS)

    def expire(self, number: int, time: int) -> None:
        """Take in an expiry. Without its trigger the age is unknown, and it is left out."""
        since = self.triggers.pop(number, None)
        if since is not None and time > since:
            self.expired = [*self.expired, (time, time - since)][-_MAX_EXPIRED:]

    def failed(self) -> list[tuple[int, float]]:
        """The expired ones for `Series.failed`, as (time in ms, age in s)."""
        return [(time, age / 1000) for time, age in self.expired]
