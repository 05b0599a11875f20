"""The last peaks of a series, and whether a peak comes every day at this time."""

import msgspec

_MOST = 16
_DAY, _HOUR = 86_400_000, 3_600_000


class DailyPeaks(msgspec.Struct, array_like=True):
    """Time in ms and level of the last peaks, in order."""

    peaks: list[tuple[int, float]] = []

    def add(self, time: int, level: float) -> None:
        """A peak has ended. The oldest one makes room for it."""
        self.peaks = [*self.peaks, (time, level)][-_MOST:]

    def usual(self, time: int) -> float:
        """The lower one of the last two peaks within an hour of this time of earlier days; 0 if there are not two."""
        same = [level for at, level in self.peaks if _days_apart(time - at)]
        return min(same[-2:]) if len(same) > 1 else 0.0


def _days_apart(ms: int) -> bool:
    """Whether two times are whole days apart, give or take an hour.

    >>> _days_apart(_DAY + _HOUR), _days_apart(2 * _DAY - _HOUR), _days_apart(_HOUR), _days_apart(_DAY // 2)
    (True, True, False, False)
    """
    return ms > _DAY // 2 and abs((ms + _DAY // 2) % _DAY - _DAY // 2) <= _HOUR
