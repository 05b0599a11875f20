"""What every sink is to delivery: one small contract, so that what is promised is promised for all of them.

A sink sends and says what became of it; it neither retries, nor waits, nor raises. Each runs in a lane of its own
(`sinks.receivers`): a consumer group, a ledger, an outbox and a thread, so that none holds up another.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from detectors.incident import Severity, Transition
from sinks.contract.digest import Summary
from sinks.contract.notified import Told
from sinks.contract.outcome import Delivered, Found, Outcome, RetryAfter


class Rate(msgspec.Struct, frozen=True):
    """At most `per_second` calls on average, `burst` at once."""

    per_second: float
    burst: int


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What delivery must know of a sink.

    edits             what was said can be changed in place: the ledger keeps where it stands
    looks_up          `find` and `recent` can tell whether a message whose answer was lost has arrived
    repeats_harmless  the same transition twice does no harm, so that a lost answer is simply sent again
    tells_past        an incident that is over before it could be told is told nevertheless
    digests           many incidents fit into one message (`Notice.summary`)
    keeps_ledger      off: the receiver must hear of everything that is open after each start
    resend_s          `resend` is called this often
    extra             what `try_extra` tries, in words
    min_severity      incidents below are not told until they grow
    posts, changes    how often new messages and edits may be sent
    """

    edits: bool = False
    looks_up: bool = False
    repeats_harmless: bool = True
    tells_past: bool = True
    digests: bool = False
    keeps_ledger: bool = True
    resend_s: float | None = None
    extra: str = ""
    min_severity: Severity = "info"
    posts: Rate | None = None
    changes: Rate | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be told: a transition or, with `summary`, the digest of many incidents.

    `note` is a sentence of ours to put in front; `plain`: the full form was refused, send the plainest there is.
    """

    transition: Transition
    note: str = ""
    plain: bool = False
    summary: Summary | None = None


class Standing(msgspec.Struct, frozen=True):
    """The message of the incident that stands: channel ID and `ts`."""

    channel: str
    ts: str


class Extra(msgspec.Struct, frozen=True):
    """What goes beside a message that stands, such as a line in its thread. `posts`: it counts as a new message.

    It is tried again when it was not accepted, but not after an unclear answer: the message itself says everything.
    """

    call: Callable[[], Outcome]
    posts: bool = True


class FollowUp(msgspec.Struct, frozen=True):
    """`told` is what the ledger keeps with the message, `extras` are done once it stands there."""

    told: Told | None = None
    extras: tuple[Extra, ...] = ()


class Sink(Protocol):
    """Used from one thread, that of its lane. Methods with a body are for those that have nothing to add."""

    @property
    def traits(self) -> Traits:
        """What delivery must know of it."""

    def check(self) -> None:
        """Looks at secrets and files at start. Raises SecretError."""

    def send(self, notice: Notice, standing: Standing | None) -> Outcome:
        """Sends; with `standing` (sinks that edit) it changes the message that stands."""
        ...

    def follow_up(
        self, notice: Notice, delivered: Delivered, before: Told | None, now: int, *, edited: bool
    ) -> FollowUp:
        """What goes beside the message that stands now (`now`: epoch ms). `before` is what was told until now. Pure."""
        return FollowUp()

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        """The message of `incident` in channel ID `channel` not older than `since` (epoch ms); None: none is known."""
        return None

    def recent(self, channel: str, since: int) -> dict[str, Found] | RetryAfter:
        """All messages of ours not older than `since` (epoch ms), by incident."""
        return {}

    def release(self, incident: str) -> None:
        """Another process tells this incident from now on."""
        return

    def close(self, seconds: float) -> None:
        """Nothing more follows; what goes on beside delivery may take so many seconds."""
        return

    def try_extra(self, delivered: Delivered) -> Outcome | None:
        """For a test of the set-up: tries what delivery can do without. None: there is nothing such."""
        return None

    def resend(self) -> Outcome | None:
        """Says again what is open, for sinks with `resend_s`. None: nothing is."""
        return None
