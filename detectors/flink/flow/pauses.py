"""How long something that advances usually pauses between two steps."""

from typing import Protocol

import msgspec

_WINDOW_MS = 3_600_000


class Patience(Protocol):
    """How long a pause must be to be reported; the kinds in `kinds/data` describe the settings."""

    @property
    def min_duration(self) -> int: ...
    @property
    def pause_factor(self) -> float: ...
    @property
    def sample_max_age(self) -> int: ...


class UsualPause(msgspec.Struct, array_like=True):
    """The longest pause of this hour and of the hour before: `start` of this hour (event time), and both pauses.

    Two hours are long enough for the steps of hourly input, and short enough to follow a job from day to night.
    `raised` is the event time at which the longest pause last grew, `prior` what it was before.
    """

    start: int = 0
    now: int = 0
    before: int = 0
    raised: int = 0
    prior: int = 0

    def learn(self, pause: int, began: int, time: int, factor: float, least: int) -> None:
        """Take in a pause that ended at `time`, at most as the limit that was in force when it began.

        So one incident does not let the next one pass unnoticed, but pauses that recur become usual. Many subtasks end
        the same pause: what the first of them raises does not count for the others. Without a `factor` any pause is
        usual.
        """
        usual = self.prior if began < self.raised else self.longest
        if factor:
            pause = min(pause, max(least, round(factor * usual)))
        age = time - self.start
        if age >= _WINDOW_MS:
            self.start, self.now, self.before = time, 0, self.now if age < 2 * _WINDOW_MS else 0
        if pause > self.longest:
            self.raised, self.prior = time, usual
        self.now = max(self.now, pause)

    @property
    def longest(self) -> int:
        """The longest pause that is usual."""
        return max(self.now, self.before)
