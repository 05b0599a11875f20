"""Checkpoints that expired, for a chart of durations: completed checkpoints alone look like a recovery."""

import msgspec

from detectors.values.bounded import put_bounded

_MAX_TRIGGERS = 16
_MAX_EXPIRED = 16


class CheckpointAttempts(msgspec.Struct, array_like=True):
    """Event times (ms) of the triggers in flight by number, and the last expired ones: (time of expiry, age)."""

    triggers: dict[int, int] = {}
    expired: list[tuple[int, int]] = []

    def trigger(self, number: int, time: int) -> None:
        """A trigger line."""
        put_bounded(self.triggers, number, time, _MAX_TRIGGERS)

    def expire(self, number: int, time: int) -> None:
        """An expiry. Without its trigger the age is not known, and nothing is drawn."""
        since = self.triggers.pop(number, None)
        if since is not None and time > since:
            self.expired = [*self.expired, (time, time - since)][-_MAX_EXPIRED:]

    def failed(self) -> list[tuple[int, float]]:
        """The expired ones as `Series.failed` wants them: (time in ms, age in s)."""
        return [(time, age / 1000) for time, age in self.expired]
