"""How many offsets a batch may have: fewer after memory was short, since the same batch would fail again."""

import time
from collections.abc import Callable

_SHARE = 4
_LEAST = 64
_RISES_AFTER_S = 600.0
# The source divides the limit among partitions and rounds it.
_FULL = 0.9


class BatchLimit:
    """At most `streaming.max_offsets_per_trigger`. Each lack of memory leaves a quarter; later the limit doubles."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._changed = clock()
        self._ends = 0
        self.offsets = most
        """The limit in force."""
        self.full_at = most
        """The least limit with which the unfinished batch may have been planned: such a batch leaves records unread."""

    @property
    def is_lowered(self) -> bool:
        return self.offsets < self._most

    @property
    def is_failing_again(self) -> bool:
        """Whether memory was short twice since a batch has finished, so the unfinished batch must become smaller."""
        return self._ends > 1

    def resume(self, offsets: int, ended: int) -> None:
        """Continue with the limit of the last process (0: none). `ended` processes were killed during the same batch.

        One of them may have been killed for any reason. From two on, the batch is taken for what ends them. The limit
        never begins below a 64th of the setting, from which it would take hours to rise again.
        """
        least = max(1, self._most // _LEAST)
        kept = min(self._most, offsets or self._most)
        if ended > 1:
            kept //= _SHARE
            self._ends = ended
        self.offsets = self.full_at = max(kept, least)

    def lower(self) -> None:
        """Note that memory was short."""
        self._ends += 1
        self.offsets = self.full_at = max(1, self.offsets // _SHARE)
        self._changed = self._clock()

    def rises(self, read: int) -> bool:
        """Note a finished batch of `read` offsets. If it was full, the limit doubles every ten minutes."""
        self._ends = 0
        if not self.is_lowered or not is_full(read, self.offsets) or self._clock() - self._changed < _RISES_AFTER_S:
            return False
        self.full_at, self.offsets = self.offsets, min(self._most, 2 * self.offsets)
        self._changed = self._clock()
        return True


def is_full(read: int, limit: int) -> bool:
    """Whether a batch of `read` offsets reached the limit, so that records are probably left."""
    return read >= _FULL * limit
