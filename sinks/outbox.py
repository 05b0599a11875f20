"""What waits to be sent: one transition an incident, the newest, each with the time it is due."""

import heapq
import itertools

import msgspec

from detectors.incidents.incident import Transition
from sinks.slack.render import Message


class Line(msgspec.Struct, frozen=True):
    """What still has to be said in the thread of a message that stands; `broadcast`: and in the channel."""

    message: Message
    channel: str
    ts: str
    broadcast: bool


class Waiting(msgspec.Struct, kw_only=True):
    """An incident's newest transition that is not delivered, and where it stands in the incidents topic.

    `plain`: Slack has refused the blocks. `note`: a sentence to put in front. `unwritten`: sent, but the ledger does
    not have it yet. `line`: for the thread, once the message is told.
    """

    transition: Transition
    partition: int
    offset: int
    due: float
    tries: int = 0
    plain: bool = False
    note: str = ""
    unwritten: bool = False
    line: Line | None = None


class Outbox:
    """A queue by due time. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, incident: object) -> bool:
        return incident in self._waiting

    def put(self, transition: Transition, partition: int, offset: int, now: float) -> None:
        """Adds a transition; it takes the place of an older one of its incident and waits as long as that did."""
        waiting = self._waiting.get(transition.incident)
        if waiting is None:
            waiting = Waiting(transition=transition, partition=partition, offset=offset, due=now)
            self._waiting[transition.incident] = waiting
            self._schedule(waiting)
        elif transition.seq >= waiting.transition.seq:
            waiting.transition, waiting.partition, waiting.offset = transition, partition, offset
            waiting.unwritten = False

    def next(self, now: float) -> Waiting | None:
        """The one that is due longest, None when none is. It stays until `done` or `later`."""
        due = self.next_due()
        return self._waiting[self._heap[0][2]] if due is not None and due <= now else None

    def next_due(self) -> float | None:
        """When the next is due, None when nothing waits."""
        while self._heap:
            due, _, incident = self._heap[0]
            waiting = self._waiting.get(incident)
            if waiting is not None and waiting.due == due:
                return due
            heapq.heappop(self._heap)
        return None

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
        return min((one.offset for one in self._waiting.values() if one.partition == partition), default=None)

    def _schedule(self, waiting: Waiting) -> None:
        heapq.heappush(self._heap, (waiting.due, next(self._order), waiting.transition.incident))
