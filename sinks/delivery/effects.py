"""What `policy.py` asks for and `sender.py` carries out. The first four end a list of effects, since they are answered.

Send        write `intent`, then send a new message or edit `message`; the receiver answers
LookUp      look for a message of the incident since then (epoch ms); the answer is `LookedUp`
Attach      add something to the message; the receiver answers
LogOutcome  write the entry after which the message must not be sent again; the answer is LOGGED or NOT_LOGGED
Write       write an entry, None: none; if that fails, a restart looks the message up once more, which does no harm
Changed     the message was delivered or does not exist: measure the delay, update the digest that counts the incident
Suppress    count a notification that is not sent on purpose
Pause       make no call of this method for any incident: it would fail too, or make the limit last longer
Report      log a line about the incident
Again       the attempt is due again after so many seconds, in the queue of `method` if given; `reason`: why it failed
"""

from typing import Literal

import msgspec

from sinks.contract.outcome import Attachment
from sinks.contract.sink import MessageRef, Notification
from sinks.delivery.notification_log import Entry
from sinks.delivery.rate_limit import Method


class Send(msgspec.Struct, frozen=True):
    intent: Entry
    notification: Notification
    message: MessageRef | None


class LookUp(msgspec.Struct, frozen=True):
    since: int


class Attach(msgspec.Struct, frozen=True):
    attachment: Attachment


class LogOutcome(msgspec.Struct, frozen=True):
    entry: Entry


class Write(msgspec.Struct, frozen=True):
    entry: Entry | None


class Changed(msgspec.Struct, frozen=True):
    entry: Entry


class Suppress(msgspec.Struct, frozen=True):
    reason: str


class Pause(msgspec.Struct, frozen=True):
    method: Method
    seconds: float


class Report(msgspec.Struct, frozen=True):
    level: Literal["warning", "error"]
    line: str
    fields: dict[str, object]


class Again(msgspec.Struct, frozen=True):
    seconds: float = 0.0
    reason: str = ""
    method: Method | None = None


Effect = Send | LookUp | Attach | LogOutcome | Write | Changed | Suppress | Pause | Report | Again
