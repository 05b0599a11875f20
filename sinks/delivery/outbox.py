"""What waits to be sent: one transition an incident, the newest, each with the time it is due."""

import heapq
import itertools
from collections.abc import Mapping
from typing import Literal

import msgspec

from detectors.incident import Transition
from sinks.contract.sink import Extra

Method = Literal["post", "edit"]
"""A new message, or a change of one that stands. Receivers limit them apart."""

METHODS: tuple[Method, ...] = ("post", "edit")
NO_OFFSET = -1
"""Of what stands in no record: a digest."""

_OPEN: Mapping[Method, float] = dict.fromkeys(METHODS, float("-inf"))


class Waiting(msgspec.Struct, kw_only=True):
    """An incident's newest transition that is not delivered, and where it stands in the incidents topic.

    `at` is when its record came to Kafka (epoch ms). `plain`: the full form was refused. `note`: a sentence to put in
    front. `held`: quiet hours keep it. `probe`: one more try of what was given up. `looked`: no message of it stands.
    `unwritten`: sent, but the ledger does not have it yet. `extras`: for the thread, once the message is told.
    """

    transition: Transition
    partition: int
    offset: int
    at: int
    due: float
    method: Method = "post"
    tries: int = 0
    plain: bool = False
    note: str = ""
    held: bool = False
    probe: bool = False
    looked: bool = False
    unwritten: bool = False
    extras: tuple[Extra, ...] = ()


class Outbox:
    """A queue by due time for each method. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._heaps: dict[Method, list[tuple[float, int, str]]] = {method: [] for method in METHODS}
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, incident: object) -> bool:
        return incident in self._waiting

    def get(self, incident: str) -> Waiting | None:
        """What waits of an incident."""
        return self._waiting.get(incident)

    def posts(self) -> int:
        """How many new messages wait, those that quiet hours keep among them."""
        return sum(one.method == "post" and one.offset != NO_OFFSET for one in self._waiting.values())

    def oldest(self) -> int | None:
        """When the oldest record that waits came to Kafka, epoch ms; those that are held on purpose do not count."""
        return min((one.at for one in self._waiting.values() if not one.held), default=None)

    def put(
        self,
        transition: Transition,
        partition: int,
        offset: int,
        now: float,
        *,
        at: int = 0,
        method: Method = "post",
    ) -> Waiting:
        """Adds a transition; it takes the place of an older one of its incident and waits as long as that did."""
        waiting = self._waiting.get(transition.incident)
        if waiting is None:
            waiting = Waiting(transition=transition, partition=partition, offset=offset, at=at, due=now, method=method)
            self._waiting[transition.incident] = waiting
            self._schedule(waiting)
        elif transition.seq >= waiting.transition.seq:
            waiting.transition, waiting.partition, waiting.offset = transition, partition, offset
            waiting.unwritten = False
            if transition.silence is not None:
                waiting.extras = ()
        return waiting

    def next(self, now: float, opens: Mapping[Method, float] = _OPEN) -> Waiting | None:
        """The one that is due longest, None when none is. `opens`: no method is used before. It stays until `done` or
        `later`.
        """
        heads = [(max(head[0], opens[m]), head[2]) for m in METHODS if (head := self._head(m)) is not None]
        if not heads or min(heads)[0] > now:
            return None
        return self._waiting[min(heads)[1]]

    def next_due(self, opens: Mapping[Method, float] = _OPEN) -> float | None:
        """When the next is due, None when nothing waits."""
        heads = (max(head[0], opens[m]) for m in METHODS if (head := self._head(m)) is not None)
        return min(heads, default=None)

    def later(self, waiting: Waiting, due: float) -> None:
        """Puts it off until `due`."""
        waiting.due = due
        self._schedule(waiting)

    def done(self, incident: str) -> None:
        """It needs nothing more."""
        self._waiting.pop(incident, None)

    def drop(self, partition: int) -> None:
        """Forgets what stands in a partition."""
        self._waiting = {name: one for name, one in self._waiting.items() if one.partition != partition}

    def lowest_offset(self, partition: int) -> int | None:
        """The first offset of a partition that still waits, None when all is delivered."""
        offsets = (one.offset for one in self._waiting.values() if one.partition == partition)
        return min((offset for offset in offsets if offset != NO_OFFSET), default=None)

    def _head(self, method: Method) -> tuple[float, int, str] | None:
        heap = self._heaps[method]
        while heap:
            waiting = self._waiting.get(heap[0][2])
            if waiting is not None and (waiting.due, waiting.method) == (heap[0][0], method):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _schedule(self, waiting: Waiting) -> None:
        entry = (waiting.due, next(self._order), waiting.transition.incident)
        heapq.heappush(self._heaps[waiting.method], entry)
