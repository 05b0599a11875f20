"""What can become of a notification: a small closed type, so that one place decides what follows.

Delivered    the receiver has answered ok
RetryAfter   not accepted; the same call may succeed later
Unknown      sent, but no clear answer: it may or may not have arrived
Refused      will be refused again until something changes; says what to do
"""

from typing import Literal

import msgspec

Failure = Literal["clientError", "serverError", "authError", "rateLimited", "contextDeadlineExceeded", "other"]
"""Why a notification failed, as a metric's label; the words are Alertmanager's."""


class Delivered(msgspec.Struct, frozen=True):
    """It has arrived: `channel` is the ID, which editing needs, `ts` names the message.

    Both are empty where nothing can be edited.
    """

    channel: str = ""
    ts: str = ""


class RetryAfter(msgspec.Struct, frozen=True):
    """Not accepted. `seconds` is the receiver's own wish, or None when the caller's back-off decides."""

    seconds: float | None
    reason: str
    failure: Failure


class Unknown(msgspec.Struct, frozen=True):
    """Sent without a clear answer."""

    reason: str
    failure: Failure


class Refused(msgspec.Struct, frozen=True):
    """Refused with the receiver's error `code`; `reason` says what to do.

    `because` is what has to change: the `setup` (token, channel), the `message`, or its `target` (the message to
    edit is gone or can no longer be edited).
    """

    code: str
    reason: str
    because: Literal["setup", "message", "target"]
    failure: Failure


class Found(msgspec.Struct, frozen=True):
    """A message of ours that stands in a channel, and the number of the transition it shows."""

    channel: str
    ts: str
    seq: int


Outcome = Delivered | RetryAfter | Unknown | Refused
