"""Detects that the clock of this host was set back while the query runs.

Spark's trigger waits for a time of day, which is then an hour away if the clock is set back by an hour.
"""

import time
from collections.abc import Callable

from streaming.errors import RestartNeededError

# Small steps of NTP are not worth a restart.
_WAITED_FOR_S = 5.0


class ClockWatch:
    def __init__(self, wall: Callable[[], float] = time.time, counted: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._counted = wall, counted
        self._furthest = wall() - counted()

    def look(self) -> None:
        """Raises RestartNeededError if the clock was set back by more than 5 s since this object was created."""
        offset = self._wall() - self._counted()
        self._furthest = max(self._furthest, offset)
        if (back := self._furthest - offset) > _WAITED_FOR_S:
            raise RestartNeededError(
                f"the clock of this host was set back by {back:.0f} s; without a restart Spark starts no batch so long"
            )
