"""What can become of a notification: a small closed type, so that one place decides what follows.

Delivered    the receiver has accepted it
RetryAfter   not accepted; the same call may succeed later
Unknown      sent, but without a clear answer: it may or may not have arrived
Refused      will be refused again until something changes; `reason` says what to do
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from sinks.contract.notified import NotifiedState

Failure = Literal["clientError", "serverError", "authError", "rateLimited", "contextDeadlineExceeded", "other"]
"""Why a notification failed, as a metric's label; the words are Alertmanager's."""


class Attachment(msgspec.Struct, frozen=True):
    """Something that follows a message, such as a line in its thread. `posts`: it counts as a new message.

    It is retried if the receiver does not accept it, but not after an unclear answer: the message says everything.
    """

    call: Callable[[], "Outcome"]
    posts: bool = True


class Delivered(msgspec.Struct, frozen=True):
    """The receiver has accepted it. `channel` is an ID, which editing needs; `ts` names the message in it. Both are
    empty if nothing can be edited.

    `notified` is what the message now reports, and `attachments` are what has to follow it.
    """

    channel: str = ""
    ts: str = ""
    notified: NotifiedState | None = None
    attachments: tuple[Attachment, ...] = ()


class RetryAfter(msgspec.Struct, frozen=True):
    """Not accepted. `seconds` is the pause that the receiver asks for; None leaves it to the caller's back-off."""

    seconds: float | None
    reason: str
    failure: Failure


class Unknown(msgspec.Struct, frozen=True):
    """Sent without a clear answer."""

    reason: str
    failure: Failure


class Refused(msgspec.Struct, frozen=True):
    """Refused with the receiver's error `code`; `reason` says what to do.

    `because` is what has to change: the `setup` (token, channel), the `message`, or its `target` (the message to edit
    was deleted or can no longer be edited).
    """

    code: str
    reason: str
    because: Literal["setup", "message", "target"]
    failure: Failure


class Found(msgspec.Struct, frozen=True):
    """A message of flinkwatch in a channel, and the number of the transition that it shows."""

    channel: str
    ts: str
    seq: int


Outcome = Delivered | RetryAfter | Unknown | Refused
