"""A lane without courier and network: a receiver that answers as it is told, and a clock that is set by hand."""

from collections import deque
from collections.abc import Callable
from typing import Any

from detectors.incident import Transition
from sinks.contract.notified import Told, told
from sinks.contract.outcome import Delivered, Found, Outcome, RetryAfter
from sinks.contract.receiver import Lane
from sinks.contract.sink import Extra, FollowUp, Notice, Sink, Standing, Traits
from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import Entry, Ledger
from sinks.prometheus.collector import IncidentCollector
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka

EDITS = Traits(edits=True, looks_up=True, repeats_harmless=False, tells_past=False, digests=True)


class ScriptedSink(Sink):
    """Answers with `answers`, then with success, and notes what it was asked: time, incident, seq, `ts` edited."""

    def __init__(self, traits: Traits, clock: Callable[[], float]) -> None:
        self._traits, self._clock = traits, clock
        self.answers: deque[Outcome | Exception] = deque()
        self.finds: deque[Found | RetryAfter | None] = deque()
        self.sent: list[tuple[float, str, int, str]] = []
        self.notices: list[Notice] = []
        self.looked: list[tuple[str, str, int]] = []
        self.resent: list[float] = []
        self.released: list[str] = []
        self.stands: dict[str, Found] | RetryAfter = {}
        self.extras: tuple[Extra, ...] = ()
        self.on_send: Callable[[], None] | None = None
        self.followed: list[tuple[Told | None, bool]] = []

    @property
    def traits(self) -> Traits:
        return self._traits

    def send(self, notice: Notice, standing: Standing | None) -> Outcome:
        one, ts = notice.transition, standing.ts if standing is not None else ""
        self.sent.append((self._clock(), one.incident, one.seq, ts))
        self.notices.append(notice)
        if self.on_send is not None:
            self.on_send()
        answer = self.answers.popleft() if self.answers else Delivered("C1", ts or f"{len(self.sent)}.0")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def follow_up(
        self, notice: Notice, delivered: Delivered, before: Told | None, now: int, *, edited: bool
    ) -> FollowUp:
        self.followed.append((before, edited))
        return FollowUp(told(notice.transition), self.extras)

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        self.looked.append((channel, incident, since))
        return self.finds.popleft() if self.finds else None

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        self.looked.append((channel, "", since))
        return self.stands

    def resend(self) -> Outcome | None:
        self.resent.append(self._clock())
        answer = self.answers.popleft() if self.answers else None
        return None if isinstance(answer, Exception) else answer

    def release(self, incident: str) -> None:
        self.released.append(incident)


class Bench:
    """Clocks start at 1000 s; the wall shows `wall_s` more."""

    def __init__(self, traits: Traits = EDITS, wall_s: float = 1_700_000_000.0, **lane: Any) -> None:
        self.now, self.wall_s = 1000.0, wall_s
        self.kafka, self.board = MemoryKafka(), IncidentCollector()
        self.sink = ScriptedSink(traits, lambda: self.now)
        self.ledger = Ledger(self.kafka.producer(), TOPICS.deliveries, "slack")
        self.lane = Lane(name="slack", sink=self.sink, **{"channel": "C1", **lane})
        self.dispatcher = Dispatcher(
            self.lane, self.ledger, self.board, clock=lambda: self.now, wall=lambda: self.now + self.wall_s
        )
        for partition in range(2):
            self.ledger.load(partition, ())
            self.dispatcher.take_over(partition)
        self._offset = 0

    def now_ms(self) -> int:
        """What the wall shows."""
        return int((self.now + self.wall_s) * 1000)

    def say(self, *transitions: Transition, partition: int = 0) -> None:
        """The job writes transitions, and the lane reads them."""
        for one in transitions:
            self.dispatcher.accept(one, partition, self._offset, self.now_ms())
            self._offset += 1

    def settle(self, seconds: float = 0.0) -> None:
        """Lets time pass and works until nothing is due."""
        self.now += seconds
        for _ in range(200):
            if not self.dispatcher.send_next():
                return
        raise AssertionError("the lane does not come to rest")

    def entry(self, incident: str, partition: int = 0) -> Entry | None:
        """What the ledger has of an incident."""
        return self.ledger.get(partition, incident)
