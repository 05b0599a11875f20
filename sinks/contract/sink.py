"""What delivery asks of a sink, in two sizes: `Sink` is what every receiver has, `EditingSink` is for messages that can
be edited, and perhaps looked up. `ResendingSink` is for Alertmanager, which has to get everything open again and again.

A sink sends and returns what became of it. It does not retry, wait or raise; `sinks.delivery` does that for all.
"""

from abc import ABC, abstractmethod

import msgspec

from detectors.incident import Severity, Transition
from sinks.contract.digest import Summary
from sinks.contract.feedback import NO_MARKS, Marks
from sinks.contract.notified import NotifiedState
from sinks.contract.outcome import Delivered, Found, Outcome, RetryAfter
from sinks.contract.overview import ScheduledOverview

Content = Summary | ScheduledOverview
"""What a message shows that is not about one incident."""


class Rate(msgspec.Struct, frozen=True):
    """At most `per_second` calls on average, `burst` at once."""

    per_second: float
    burst: int


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What delivery must know of a sink.

    can_look_up                `find` and `recent` find a message whose answer was lost; without it, it is sent again
    notifies_already_resolved  send an incident that resolved before its first notification could be sent
    digests                    many incidents fit into one message (`Notification.summary`)
    shows_marks                messages show who has acknowledged an incident (`Notification.marks`)
    keeps_log                  off: after each start, the receiver gets everything that is open
    numbers_every              pause (ms) between messages that only bring newer numbers, where nothing is edited; under
                               a silence, only the end of an incident is sent then. None: every change is sent
    min_severity               an incident below it is not sent until it reaches it
    post_rate, edit_rate       how often new messages and edits may be sent
    """

    can_look_up: bool = False
    notifies_already_resolved: bool = True
    digests: bool = False
    shows_marks: bool = False
    keeps_log: bool = True
    numbers_every: int | None = None
    min_severity: Severity = "info"
    post_rate: Rate | None = None
    edit_rate: Rate | None = None


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A transition to send at `at` (epoch ms, wall clock) or, with `summary`, the digest of many incidents or an
    overview. `before` is what the readers know, `note` a sentence to put in front. `plain`: the full form was refused,
    send the plainest. `marks` are people's answers. `remind`: no one has acknowledged it in time. `seen`: the message
    shows the transition already, and only its marks change.
    """

    transition: Transition
    at: int = 0
    before: NotifiedState | None = None
    note: str = ""
    plain: bool = False
    summary: Content | None = None
    marks: Marks = NO_MARKS
    remind: bool = False
    seen: bool = False


class MessageRef(msgspec.Struct, frozen=True):
    """An existing message: channel ID and `ts`, the name that the receiver has given it there."""

    channel: str
    ts: str


class Sink(ABC):
    """What every receiver has. It is used from one thread, that of its receiver."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What delivery must know of it."""

    @abstractmethod
    def check(self) -> None:
        """Reads secrets and files at start. Raises SecretError."""

    @abstractmethod
    def send(self, notification: Notification) -> Outcome:
        """Sends a change of an incident; where messages are edited, as a new message."""


class EditingSink(Sink):
    """A sink whose messages can be edited; if `can_look_up`, `find` and `recent` look them up."""

    attachment = ""
    """What `try_attachment` tries, in words."""

    @abstractmethod
    def edit(self, notification: Notification, message: MessageRef) -> Outcome:
        """Changes an existing message."""

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        """The message of `incident` in channel ID `channel` that is not older than `since` (epoch ms); None: none."""
        return None

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        """All messages of flinkwatch that are not older than `since` (epoch ms), by incident."""
        return {}

    def try_attachment(self, delivered: Delivered) -> Outcome | None:
        """For a test of the set-up: tries what delivery can do without. None: there is nothing to try."""
        return None

    def try_actions(self) -> Outcome | None:
        """The same for what people press in messages. None: they have nothing to press."""
        return None

    def close(self, seconds: float) -> None:
        """Nothing more is sent; attachments that are still being made have so many seconds."""
        return


class ResendingSink(Sink):
    """A sink whose receiver takes an alert for resolved that it does not get again."""

    resend_s: float
    """How often `resend_interval` is called."""

    @abstractmethod
    def resend(self) -> Outcome | None:
        """Sends everything open again. None: nothing is open."""

    @abstractmethod
    def release(self, incident: str) -> None:
        """Another process sends this incident from now on."""
