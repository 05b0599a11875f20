"""What can become of a notification: a small closed type, so that one place decides what follows."""

from collections.abc import Callable
from typing import Literal

import msgspec

from sinks.contract.notified import NotifiedState

Failure = Literal["clientError", "serverError", "authError", "rateLimited", "contextDeadlineExceeded", "other"]
"""Why a notification failed, as a metric's label; the words are Alertmanager's."""


class Attachment(msgspec.Struct, frozen=True):
    """Something that follows a message, such as a line in its thread. `posts`: it counts as a new message. It is tried
    again if it is not accepted, but not after an unclear answer, because the message itself says everything.
    """

    call: Callable[[], "Outcome"]
    posts: bool = True


class Delivered(msgspec.Struct, frozen=True):
    """The receiver has accepted it. Channel ID and `ts` name the message; both are empty if it cannot be edited.
    `notified` is what the message now reports, and `attachments` are what has to follow it.
    """

    channel: str = ""
    ts: str = ""
    notified: NotifiedState | None = None
    attachments: tuple[Attachment, ...] = ()


class RetryAfter(msgspec.Struct, frozen=True):
    """Not accepted, but the same call may succeed later: after `seconds`, if the receiver asks for a certain pause."""

    seconds: float | None
    reason: str
    failure: Failure


class Unknown(msgspec.Struct, frozen=True):
    """Sent without a clear answer: it may or may not have arrived."""

    reason: str
    failure: Failure


class Refused(msgspec.Struct, frozen=True):
    """Refused with the receiver's error `code`, and again until `because` changes: the `setup` (token, channel), the
    `message`, or its `target` (the message to edit was deleted or can no longer be edited). `reason` says what to do.
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
