"""Delivery to one receiver without Kafka and network: it answers as it is told, and the clock is set by hand."""

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from detectors.incident import Transition
from sinks.contract.notified import NotifiedState, notified_state
from sinks.contract.outcome import Attachment, Delivered, Found, Outcome, RetryAfter
from sinks.contract.receiver import Receiver
from sinks.contract.sink import EditingSink, MessageRef, Notification, ResendingSink, Traits
from sinks.delivery.dispatcher import Dispatcher
from sinks.delivery.notification_log import Entry, NotificationLog
from sinks.delivery.outbox import Clocks
from sinks.prometheus.collector import IncidentCollector
from tests.unit.sinks.memory_kafka import TOPICS, MemoryKafka

EDITS = Traits(can_look_up=True, notifies_already_resolved=False, digests=True)


class ScriptedSink(EditingSink):
    """Answers with `answers`, then with success, and notes what it was asked: time, incident, seq, `ts` edited."""

    def __init__(self, traits: Traits, clock: Callable[[], float]) -> None:
        self._traits, self._clock = traits, clock
        self.answers: deque[Outcome | Exception] = deque()
        self.finds: deque[Found | RetryAfter | None] = deque()
        self.sent: list[tuple[float, str, int, str]] = []
        self.notifications: list[Notification] = []
        self.looked: list[tuple[str, str, int]] = []
        self.resent: list[float] = []
        self.released: list[str] = []
        self.stands: dict[str, Found] | RetryAfter = {}
        self.attachments: tuple[Attachment, ...] = ()
        self.on_send: Callable[[], None] | None = None
        self.followed: list[tuple[NotifiedState | None, bool]] = []

    @property
    def traits(self) -> Traits:
        return self._traits

    def check(self) -> None:
        """There is no secret."""

    def send(self, notification: Notification) -> Outcome:
        return self._answer(notification, "")

    def edit(self, notification: Notification, message: MessageRef) -> Outcome:
        return self._answer(notification, message.ts)

    def _answer(self, notification: Notification, ts: str) -> Outcome:
        one = notification.transition
        self.sent.append((self._clock(), one.incident, one.seq, ts))
        self.notifications.append(notification)
        if self.on_send is not None:
            self.on_send()
        answer = self.answers.popleft() if self.answers else Delivered("C1", ts or f"{len(self.sent)}.0")
        if isinstance(answer, Exception):
            raise answer
        if notification.summary is not None or not isinstance(answer, Delivered):
            return answer
        self.followed.append((notification.before, bool(ts)))
        return replace(answer, notified=notified_state(one), attachments=self.attachments)

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        self.looked.append((channel, incident, since))
        return self.finds.popleft() if self.finds else None

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        self.looked.append((channel, "", since))
        return self.stands

    def release(self, incident: str) -> None:
        self.released.append(incident)


class ResendingScriptedSink(ScriptedSink, ResendingSink):
    """One to which everything open is sent again each minute."""

    resend_s = 60.0

    def resend(self) -> Outcome | None:
        self.resent.append(self._clock())
        answer = self.answers.popleft() if self.answers else None
        return None if isinstance(answer, Exception) else answer


class Bench:
    """Clocks start at 1000 s; the wall shows `wall_s` more."""

    def __init__(
        self,
        traits: Traits = EDITS,
        wall_s: float = 1_700_000_000.0,
        sink: type[ScriptedSink] = ScriptedSink,
        **receiver: Any,
    ) -> None:
        self.now, self.wall_s = 1000.0, wall_s
        self.kafka, self.board = MemoryKafka(), IncidentCollector()
        self.sink = sink(traits, lambda: self.now)
        self.log = NotificationLog(self.kafka.producer(), TOPICS.deliveries, "slack")
        self.receiver = Receiver(name="slack", sink=self.sink, **{"channel": "C1", **receiver})
        self.dispatcher = Dispatcher(
            self.receiver, self.log, self.board, Clocks(lambda: self.now, lambda: self.now + self.wall_s)
        )
        for partition in range(2):
            self.log.load(partition, ())
            self.dispatcher.take_over(partition)
        self._offset = 0

    def now_ms(self) -> int:
        """What the wall shows."""
        return int((self.now + self.wall_s) * 1000)

    def say(self, *transitions: Transition, partition: int = 0) -> None:
        """The job writes transitions, and delivery reads them."""
        for one in transitions:
            self.dispatcher.accept(one, partition, self._offset, self.now_ms())
            self._offset += 1

    def settle(self, seconds: float = 0.0) -> None:
        """Lets time pass and works until nothing is due."""
        self.now += seconds
        for _ in range(200):
            if not self.dispatcher.send_next():
                return
        raise AssertionError("delivery does not come to rest")

    def entry(self, incident: str, partition: int = 0) -> Entry | None:
        """What the log has of an incident."""
        return self.log.get(partition, incident)
