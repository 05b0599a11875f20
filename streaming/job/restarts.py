"""How often, and after which pause, a failed query is restarted."""

import time
from collections import deque
from collections.abc import Callable

_WINDOW_S = 3_600.0
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class Restarts:
    """Counts the restarts of the last hour. Pauses double from 1 s to 60 s; a trouble's limit ends the restarts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: deque[float] = deque()

    @property
    def count(self) -> int:
        """Restarts within the last hour."""
        while self._at and self._clock() - self._at[0] > _WINDOW_S:
            self._at.popleft()
        return len(self._at)

    def pause(self, limit: int) -> float | None:
        """Count a restart and return the seconds to wait before it; None if `limit` is reached."""
        before = self.count
        if before >= limit:
            return None
        self._at.append(self._clock())
        return float(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**before))
