"""What waits to be sent: one transition of each incident, the newest, with the time at which it is due."""

import heapq
import itertools
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from detectors.incident import Transition
from sinks.contract.feedback import Marks
from sinks.contract.sink import Content
from sinks.delivery.attempt import NO_OFFSET, Attempt, Deferred, Pending
from sinks.delivery.policy import supersede
from sinks.delivery.rate_limit import METHODS, Method

_ALWAYS: Mapping[Method, float] = dict.fromkeys(METHODS, float("-inf"))


class Clocks(NamedTuple):
    """Seconds of a monotonic clock, and epoch seconds."""

    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time

    def now_ms(self) -> int:
        return int(self.wall() * 1000)


class Queued(msgspec.Struct, kw_only=True):
    """An incident's newest transition that is not delivered, its place in the incidents topic, and its attempt.

    `at` is when its record came to Kafka (epoch ms). A digest or overview has NO_OFFSET and a `summary`. `marks`
    are the answers of people that its message is to show, None if the receiver shows none.
    """

    transition: Transition
    partition: int
    offset: int
    at: int
    due: float
    method: Method = "post"
    attempt: Attempt = Pending()
    summary: Callable[[], Content] | None = None
    marks: Marks | None = None


class Outbox:
    """A queue by due time for each method. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._queued: dict[str, Queued] = {}
        self._heaps: dict[Method, list[tuple[float, int, str]]] = {method: [] for method in METHODS}
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._queued)

    def __contains__(self, incident: object) -> bool:
        return incident in self._queued

    def get(self, incident: str) -> Queued | None:
        return self._queued.get(incident)

    def posts(self) -> int:
        """How many new messages wait, including those that quiet hours hold back."""
        return sum(one.method == "post" and one.offset != NO_OFFSET for one in self._queued.values())

    def oldest(self) -> int | None:
        """When the oldest record that waits came to Kafka, epoch ms. What quiet hours hold back does not count."""
        return min((one.at for one in self._queued.values() if not isinstance(one.attempt, Deferred)), default=None)

    def deferred(self) -> list[Queued]:
        """What quiet hours hold back."""
        return [one for one in self._queued.values() if isinstance(one.attempt, Deferred)]

    def put(
        self, transition: Transition, partition: int, offset: int, due: float, *, at: int = 0, method: Method = "post"
    ) -> Queued:
        """Adds a transition. It takes the place of an older one of its incident and waits as long as that one would."""
        queued = self._queued.get(transition.incident)
        if queued is None:
            queued = Queued(transition=transition, partition=partition, offset=offset, at=at, due=due, method=method)
            self._queued[transition.incident] = queued
            self._schedule(queued)
        elif transition.seq >= queued.transition.seq:
            queued.transition, queued.partition, queued.offset = transition, partition, offset
            queued.attempt = supersede(queued.attempt, transition)
        return queued

    def next(self, now: float, available_at: Mapping[Method, float] = _ALWAYS) -> Queued | None:
        """The one that has been due longest, None if none is. `available_at`: no method is used earlier. It stays until
        `done` or `later`.
        """
        heads = [(max(head[0], available_at[m]), head[2]) for m in METHODS if (head := self._head(m)) is not None]
        if not heads or min(heads)[0] > now:
            return None
        return self._queued[min(heads)[1]]

    def next_due(self, available_at: Mapping[Method, float] = _ALWAYS) -> float | None:
        """When the next is due, None if nothing waits."""
        heads = (max(head[0], available_at[m]) for m in METHODS if (head := self._head(m)) is not None)
        return min(heads, default=None)

    def later(self, queued: Queued, due: float) -> None:
        queued.due = due
        self._schedule(queued)

    def done(self, incident: str) -> None:
        self._queued.pop(incident, None)

    def drop(self, partition: int) -> None:
        self._queued = {name: one for name, one in self._queued.items() if one.partition != partition}

    def lowest_offset(self, partition: int) -> int | None:
        """The first offset of a partition that still waits, None if all is delivered."""
        offsets = (one.offset for one in self._queued.values() if one.partition == partition)
        return min((offset for offset in offsets if offset != NO_OFFSET), default=None)

    def _head(self, method: Method) -> tuple[float, int, str] | None:
        heap = self._heaps[method]
        while heap:
            queued = self._queued.get(heap[0][2])
            if queued is not None and (queued.due, queued.method) == (heap[0][0], method):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _schedule(self, queued: Queued) -> None:
        heapq.heappush(self._heaps[queued.method], (queued.due, next(self._order), queued.transition.incident))
