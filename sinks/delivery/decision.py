"""The next step for a transition, given what the ledger knows of its incident. Pure."""

from typing import Literal

import msgspec

from detectors.incident import SEVERITIES, Transition
from sinks.contract.sink import Traits
from sinks.delivery.notification_log import Entry

# What was given up may have been tried for a day before.
_GIVEN_UP_MS = 2 * 86_400_000


class Post(msgspec.Struct, frozen=True):
    """Send a new message; with `look_since` (epoch ms) first look whether an earlier try stands in the channel."""

    look_since: int | None = None


class Edit(msgspec.Struct, frozen=True):
    """Change the message that stands."""

    channel: str
    ts: str


class Look(msgspec.Struct, frozen=True):
    """Look whether an earlier try stands in the channel (epoch ms); send no new message."""

    since: int


class Skip(msgspec.Struct, frozen=True):
    """Nothing to send, and why."""

    reason: Literal[
        "already sent",
        "a newer change was tried",
        "below min_severity",
        "goes on in another incident",
        "over untold",
        "silenced",
    ]


Step = Post | Edit | Look | Skip


def next_step(entry: Entry | None, transition: Transition, traits: Traits) -> Step:
    """What to do with a transition. Under a silence nothing is told anew, and what was told is kept true."""
    if entry is None or (entry.state == "folded" and not entry.ts):
        return _first(transition, traits)
    if entry.state == "sent" and entry.seq >= transition.seq:
        return Skip("already sent")
    if entry.seq > transition.seq:
        # The newer one is further on in the same partition and comes again.
        return Skip("a newer change was tried")
    if entry.ts:
        return Edit(entry.channel, entry.ts)
    return Post() if entry.state == "sent" else _unclear(entry, transition, traits)


def _unclear(entry: Entry, transition: Transition, traits: Traits) -> Step:
    """Nobody knows whether the last try has arrived."""
    since = entry.at - (_GIVEN_UP_MS if entry.state == "undelivered" else 0)
    if transition.silence is None:
        return Post(look_since=since if traits.looks_up else None)
    if traits.looks_up:
        return Look(since)
    # Whether it was told is not known: an end does no harm, all else may wake somebody.
    return Post() if transition.transition == "resolved" else Skip("silenced")


def _first(transition: Transition, traits: Traits) -> Post | Skip:
    if SEVERITIES.index(transition.severity) < SEVERITIES.index(traits.min_severity):
        return Skip("below min_severity")
    if transition.part_of:
        return Skip("goes on in another incident")
    if transition.transition == "resolved" and not traits.tells_past:
        return Skip("over untold")
    return Post() if transition.silence is None else Skip("silenced")
