"""Whether a transition is news to the receiver: what it needs, given what the notification log knows. Pure.

Alertmanager's stage of this name. `policy.py` turns the answer into the next step of an attempt.
"""

from typing import Literal

import msgspec

from detectors.incident import SEVERITIES, Transition
from sinks.contract.feedback import Marks
from sinks.contract.notified import is_line_due
from sinks.contract.sink import Traits
from sinks.delivery.notification_log import Entry

# What was given up may have been tried for a day before.
_GIVEN_UP_MS = 2 * 86_400_000


class Post(msgspec.Struct, frozen=True):
    """Send a new message; with `look_since` (epoch ms), first look whether an earlier try has arrived."""

    look_since: int | None = None


class Edit(msgspec.Struct, frozen=True):
    channel: str
    ts: str


class FindExisting(msgspec.Struct, frozen=True):
    """Look whether an earlier try has arrived since `since` (epoch ms); send no new message."""

    since: int


class Skip(msgspec.Struct, frozen=True):
    """Nothing to send, and why."""

    reason: Literal[
        "already sent",
        "a newer change was tried",
        "below min_severity",
        "part of another incident",
        "already resolved",
        "silenced",
        "only newer numbers",
    ]


Decision = Post | Edit | FindExisting | Skip


def decide(
    entry: Entry | None, transition: Transition, traits: Traits, marks: Marks | None = None, now: int | None = None
) -> Decision:
    """What to do with a transition. Under a silence no new message is sent, and an existing one is kept true.

    `marks` are the answers that the message is to show; None: no others than it shows. `now` is epoch ms, wall clock;
    None: it may still be put into the outbox.
    """
    if entry is None or (entry.state == "folded" and not entry.ts):
        return _first(transition, traits)
    if entry.ts and entry.seq == transition.seq and marks not in (None, entry.marks):
        return Edit(entry.channel, entry.ts)
    if entry.state == "sent" and entry.seq >= transition.seq:
        return Skip("already sent")
    if entry.seq > transition.seq:
        # The newer one comes later in the same partition.
        return Skip("a newer change was tried")
    if entry.ts:
        return Edit(entry.channel, entry.ts)
    known = entry.state == "sent"
    return _another(entry, transition, traits.numbers_every, now) if known else _unclear(entry, transition, traits)


def _another(entry: Entry, transition: Transition, every: int | None, now: int | None) -> Post | Skip:
    """Whether a message that cannot be edited is followed by another one."""
    if every is None or now is None or transition.transition == "resolved":
        return Post()
    if transition.silence is not None:
        return Skip("silenced")
    return Post() if is_line_due(entry.notified, transition, now, every) else Skip("only newer numbers")


def _unclear(entry: Entry, transition: Transition, traits: Traits) -> Decision:
    """It is not known whether the last try has arrived."""
    since = entry.at - (_GIVEN_UP_MS if entry.state == "undelivered" else 0)
    if transition.silence is None:
        return Post(look_since=since if traits.can_look_up else None)
    if traits.can_look_up:
        return FindExisting(since)
    # It may have been sent. A resolved notification does no harm then; any other could wake someone.
    return Post() if transition.transition == "resolved" else Skip("silenced")


def _first(transition: Transition, traits: Traits) -> Post | Skip:
    if SEVERITIES.index(transition.severity) < SEVERITIES.index(traits.min_severity):
        return Skip("below min_severity")
    if transition.part_of:
        return Skip("part of another incident")
    if transition.transition == "resolved" and not traits.notifies_already_resolved:
        return Skip("already resolved")
    return Post() if transition.silence is None else Skip("silenced")
