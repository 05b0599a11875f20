"""The clock of this host is set back under a running query.

Spark's trigger waits for a time of day. After the clock was set back by an hour that time is an hour away, and no batch
begins until then; a query that is started again computes another one.
"""

import time
from collections.abc import Callable

from streaming.errors import ClockSetBackError

# What NTP steps is waited for.
_WAITED_FOR_S = 5.0


class ClockWatch:
    """Compares the time of day with a clock that only counts."""

    def __init__(self, wall: Callable[[], float] = time.time, counted: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._counted = wall, counted
        self._furthest = wall() - counted()

    def look(self) -> None:
        """Raises ClockSetBackError when the clock is further back than it has been since this was made."""
        told = self._wall() - self._counted()
        self._furthest = max(self._furthest, told)
        if (back := self._furthest - told) > _WAITED_FOR_S:
            raise ClockSetBackError(f"The clock of this host was set back by {back:.0f} s, which Spark would wait for")
