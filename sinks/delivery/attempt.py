"""An attempt to notify one receiver of an incident's newest change: its states, and what can happen to it."""

from enum import Enum

import msgspec
from msgspec.structs import replace

from detectors.incident import Transition
from sinks.contract.feedback import Marks
from sinks.contract.outcome import Attachment, Found, Outcome, RetryAfter
from sinks.contract.sink import Content, MessageRef, Traits
from sinks.delivery.notification_log import Entry, State
from sinks.delivery.rate_limit import Method

NO_OFFSET = -1
"""The offset of a digest, which is no record of Kafka."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt is about. `now` and `arrived`, when its record came to Kafka, are epoch ms; `method` is the queue
    it waits in; `summary` is the content of a digest or overview. `marks` are the answers of people
    that the message is to show, None if the receiver shows none.
    """

    transition: Transition
    traits: Traits
    now: int
    arrived: int
    offset: int
    method: Method
    summary: Content | None = None
    marks: Marks | None = None

    @property
    def is_digest(self) -> bool:
        return self.offset == NO_OFFSET

    def entry(self, state: State, before: Entry | None, message: MessageRef | None = None) -> Entry:
        """What the notification log is to know, where `before` is what it knew; `message` replaces that of `before`."""
        before = before or Entry(incident=self.transition.incident, seq=0, state=state, at=0)
        resolved, folded = self.transition.transition == "resolved", before.folded
        if folded is not None and state == "sent":
            folded = replace(folded, has_own_message=True, resolved=resolved)
        where = before if message is None else message
        # Until the message shows the new ones, the log keeps the old ones, so that a restart finds the difference.
        marks = self.marks if state == "sent" and self.marks is not None else before.marks
        return Entry(
            incident=self.transition.incident,
            seq=self.transition.seq,
            state=state,
            at=self.now,
            channel=where.channel,
            ts=where.ts,
            notified=before.notified,
            offset=self.offset,
            resolved=resolved,
            folded=folded,
            marks=marks,
        )

    def without_message(self, before: Entry | None) -> Entry | None:
        """The same for an incident whose message does not exist: nothing, unless a digest counts it."""
        if before is None or before.folded is None:
            return None
        folded = replace(before.folded, has_own_message=False)
        silenced = self.transition.silence is not None
        return replace(before, state="folded", channel="", ts="", folded=folded, silenced=silenced)


class Deferred(msgspec.Struct, frozen=True):
    """Not tried yet: quiet hours hold it back until they end."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """To be sent; so many `tries` have failed. `plain`: the receiver has refused the full form. `note` goes in front.

    `absent`: a look-up found no message. `last_try`: it was given up before, and is again if this try fails.
    """

    tries: int = 0
    plain: bool = False
    note: str = ""
    absent: bool = False
    last_try: bool = False


class Unlogged(msgspec.Struct, frozen=True):
    """Delivered, or given up: `entry`, which the notification log does not have yet."""

    entry: Entry
    attachments: tuple[Attachment, ...] = ()
    tries: int = 0


class Attaching(msgspec.Struct, frozen=True):
    """Delivered and logged; at least one of `attachments` has to follow the message."""

    attachments: tuple[Attachment, ...]
    tries: int = 0


Attempt = Deferred | Pending | Unlogged | Attaching


class LookedUp(msgspec.Struct, frozen=True):
    """The answer to a look-up; None: there is no such message."""

    found: Found | RetryAfter | None


class AttemptSignal(Enum):
    """What happens to an attempt apart from an answer of the receiver."""

    DUE = "its time has come"
    LOGGED = "the notification log has its outcome"
    NOT_LOGGED = "the notification log cannot be written; if this was the intent to send, nothing was sent"
    DEFECT = "flinkwatch has failed at it"


Event = AttemptSignal | LookedUp | Outcome
