"""Decides the next step for one notification: send, edit, look up, wait or give up. Pure: `sender.py` carries it out.

An attempt (`attempt.py`) is on its way from Pending to nothing more to do:

    Deferred → Pending      quiet hours have ended
    Pending → Pending       it was looked up, refused, limited or not answered; it is due again
    Pending → Unlogged      it was delivered or given up, which is written into the notification log
    Unlogged → Attaching    lines or charts in the message's thread have to follow
    Attaching → Pending     they have; a newer change may have come meanwhile
"""

from typing import assert_never

from msgspec.structs import replace

from detectors.incident import Transition
from sinks.contract.digest import Summary
from sinks.contract.feedback import NO_MARKS
from sinks.contract.outcome import Delivered, Found, Refused, RetryAfter, Unknown
from sinks.contract.sink import MessageRef, Notification
from sinks.delivery import effects
from sinks.delivery.attempt import (
    Attaching,
    Attempt,
    AttemptSignal,
    Context,
    Deferred,
    Event,
    LookedUp,
    Pending,
    Unlogged,
)
from sinks.delivery.dedup import Edit, FindExisting, Post, Skip, decide
from sinks.delivery.notification_log import Entry
from sinks.delivery.rate_limit import Method

Effects = list[effects.Effect]
Step = tuple[Attempt | None, Effects]

_BACKOFF_FIRST_S, _BACKOFF_MAX_S = 1.0, 60.0
_TRIES_COUNTED = 10
# Then it is kept in the notification log, and tried once an hour.
_GIVE_UP_AFTER_MS, _GIVE_UP_AFTER_TRIES = 86_400_000, 5
# A wrong token or channel needs a person; the retry is there to notice the repair.
_SETUP_RETRY_S = 60.0
_CHANNEL_GONE = frozenset({"channel_not_found", "is_archived", "not_in_channel"})
_NEW_MESSAGE_NOTE = "The earlier message of this incident is gone or can no longer be edited; this one takes its place."
_DEFECT = "a defect in flinkwatch"
_NOT_LOGGED = "the notification log cannot be written"


def advance(attempt: Attempt, entry: Entry | None, event: Event, context: Context) -> Step:
    """The next state (None: nothing more to do) and the effects, to be carried out in this order.

    `event` is DUE when the time of the attempt has come, and then the answer to the last effect, if that has one.
    `entry` is what the notification log knew of the incident when the attempt became due.
    """
    match attempt:
        case Deferred():
            return _pending(Pending(), entry, event, context)
        case Pending():
            return _pending(attempt, entry, event, context)
        case Unlogged():
            return _unlogged(attempt, event)
        case Attaching():
            return _attaching(attempt, event, context)
        case _:
            assert_never(attempt)


def supersede(attempt: Attempt, newer: Transition) -> Attempt:
    """The attempt after a newer change of its incident has come, which takes the place of the older one."""
    if isinstance(attempt, Deferred | Pending):
        return attempt
    # The newer change is logged instead. Under a silence, nothing is added to the thread.
    if attempt.attachments and newer.silence is None:
        return Attaching(attempt.attachments, attempt.tries)
    return Pending(tries=attempt.tries)


def _pending(attempt: Pending, entry: Entry | None, event: Event, context: Context) -> Step:  # noqa: PLR0911 - a table
    match event:
        case AttemptSignal.DUE:
            return _start(attempt, entry, context)
        case LookedUp(found=found):
            return _looked_up(attempt, entry, found, context)
        case Delivered(channel=channel, ts=ts, notified=notified):
            sent = replace(context.entry("sent", entry, MessageRef(channel, ts)), notified=notified)
            return Unlogged(sent, event.attachments), [effects.Changed(sent), effects.LogOutcome(sent)]
        case Unknown(reason=reason):
            # If there is no message yet, it is looked up before it is sent again.
            unknown = effects.Write(context.entry("unknown", entry))
            return _retry(replace(attempt, absent=False), entry, reason, context, [unknown])
        case RetryAfter(reason=reason, seconds=seconds):
            restore = [effects.Write(entry), *_limit(event, context.method)]
            return _retry(attempt, entry, reason, context, restore, seconds)
        case Refused():
            return _refused(attempt, entry, event, context)
        case AttemptSignal.NOT_LOGGED:
            return _retry(attempt, entry, _NOT_LOGGED, context, [])
        case AttemptSignal.DEFECT:
            if attempt.tries >= _GIVE_UP_AFTER_TRIES:
                return _give_up(attempt, entry, _DEFECT, context, [])
            return _retry(attempt, entry, _DEFECT, context, [])
        case AttemptSignal.LOGGED:
            raise AssertionError(attempt, event)
        case _:
            assert_never(event)


def _start(attempt: Pending, entry: Entry | None, context: Context) -> Step:
    match decide(entry, context.transition, context.traits, context.marks, context.now):
        case Skip():
            return None, []
        case Post(look_since=int(since)) | FindExisting(since=since) if not attempt.absent:
            return attempt, [effects.LookUp(since)]
        case FindExisting():
            # It is silenced, and no message exists that would have to be kept true.
            kept = context.without_message(entry)
            digest: Effects = [] if kept is None else [effects.Changed(kept)]
            return None, [effects.Suppress("silence"), effects.Write(kept), *digest]
        case Post():
            return _send(attempt, entry, None, context)
        case Edit(channel=channel, ts=ts):
            return _send(attempt, entry, MessageRef(channel, ts), context)


def _looked_up(attempt: Pending, entry: Entry | None, found: Found | RetryAfter | None, context: Context) -> Step:
    if isinstance(found, RetryAfter):
        return _retry(attempt, entry, found.reason, context, [], found.seconds)
    looked_up = replace(attempt, absent=True)
    if found is None:
        return looked_up, [effects.Again()]
    existing = context.entry("sent", entry, MessageRef(found.channel, found.ts))
    # What the message shows of people's answers is not known, so it is edited if there are any.
    existing = replace(existing, seq=found.seq, marks=NO_MARKS if entry is None else entry.marks)
    return looked_up, [effects.Write(existing), effects.Again()]


def _send(attempt: Pending, entry: Entry | None, message: MessageRef | None, context: Context) -> Step:
    method: Method = "post" if message is None else "edit"
    if context.method != method:
        return attempt, [effects.Again(method=method)]
    if message is None and isinstance(context.summary, Summary) and not context.summary.open:
        # A storm that ended before its digest was sent.
        return None, []
    shown = NO_MARKS if entry is None else entry.marks
    marks = shown if context.marks is None else context.marks
    notification = Notification(
        transition=context.transition,
        at=context.now,
        before=None if entry is None else entry.notified,
        note=attempt.note,
        plain=attempt.plain,
        summary=context.summary,
        marks=marks,
        remind=marks.reminded_at != shown.reminded_at,
        seen=entry is not None and entry.state == "sent" and entry.seq == context.transition.seq,
    )
    return attempt, [effects.Send(context.entry("intent", entry), notification, message)]


def _refused(attempt: Pending, entry: Entry | None, refused: Refused, context: Context) -> Step:
    if context.method == "edit" and (refused.because == "target" or refused.code in _CHANNEL_GONE):
        kept = context.without_message(entry)
        return replace(attempt, note=_NEW_MESSAGE_NOTE), [effects.Write(kept), effects.Again()]
    fields: dict[str, object] = {"error": refused.code, "what_to_do": refused.reason}
    if refused.because == "setup":
        report = effects.Report("error", "notifications are refused", fields | {"retry_in_s": _SETUP_RETRY_S})
        pause = effects.Pause(context.method, _SETUP_RETRY_S)
        return _retry(attempt, entry, refused.reason, context, [effects.Write(entry), report, pause], _SETUP_RETRY_S)
    if not attempt.plain:
        report = effects.Report("warning", "a message is refused, sending it as plain text", fields)
        return replace(attempt, plain=True), [effects.Write(entry), report, effects.Again()]
    return _give_up(attempt, entry, f"{refused.code}: {refused.reason}", context, [effects.Write(entry)])


def _retry(
    attempt: Pending, entry: Entry | None, reason: str, context: Context, first: Effects, seconds: float | None = None
) -> Step:
    """With growing pauses unless `seconds` says when."""
    too_long = context.now - context.arrived >= _GIVE_UP_AFTER_MS and attempt.tries >= _GIVE_UP_AFTER_TRIES
    if too_long or attempt.last_try:
        return _give_up(attempt, entry, reason, context, first)
    return replace(attempt, tries=_next(attempt.tries)), [*first, _again(attempt.tries, reason, seconds)]


def _give_up(attempt: Pending, entry: Entry | None, reason: str, context: Context, first: Effects) -> Step:
    """The notification log keeps it, from where it is tried again once an hour (`redelivery.py`). Not a digest."""
    if context.is_digest:
        return attempt, [*first, effects.Again(_BACKOFF_MAX_S, reason)]
    undelivered = replace(context.entry("undelivered", entry), reason=reason)
    if not attempt.last_try:
        first = [*first, effects.Report("error", "incident is undelivered, it is kept", {"why": reason})]
    return Unlogged(undelivered), [*first, effects.LogOutcome(undelivered)]


def _unlogged(attempt: Unlogged, event: Event) -> Step:
    match event:
        case AttemptSignal.DUE:
            return attempt, [effects.LogOutcome(attempt.entry)]
        case AttemptSignal.LOGGED:
            return (Attaching(attempt.attachments), [effects.Again()]) if attempt.attachments else (None, [])
        case AttemptSignal.NOT_LOGGED | AttemptSignal.DEFECT:
            seconds = _BACKOFF_MAX_S if attempt.entry.state == "undelivered" else None
            return replace(attempt, tries=_next(attempt.tries)), [_again(attempt.tries, _NOT_LOGGED, seconds)]
        case LookedUp() | Delivered() | RetryAfter() | Unknown() | Refused():
            raise AssertionError(attempt, event)
        case _:
            assert_never(event)


def _attaching(attempt: Attaching, event: Event, context: Context) -> Step:
    """Each once, in order. One that does not succeed in time is left out: the message itself has everything."""
    first, rest = attempt.attachments[0], attempt.attachments[1:]
    match event:
        case AttemptSignal.DUE if first.posts and context.method != "post":
            return attempt, [effects.Again(method="post")]
        case AttemptSignal.DUE:
            return attempt, [effects.Attach(first)]
        case RetryAfter(reason=reason, seconds=seconds) if attempt.tries < _TRIES_COUNTED:
            limit = _limit(event, "post") if first.posts else []
            return replace(attempt, tries=_next(attempt.tries)), [*limit, _again(attempt.tries, reason, seconds)]
        case AttemptSignal.DEFECT if attempt.tries < _TRIES_COUNTED:
            return replace(attempt, tries=_next(attempt.tries)), [_again(attempt.tries, _DEFECT)]
        case Delivered() | RetryAfter() | Unknown() | Refused() | AttemptSignal.DEFECT:
            return Attaching(rest, attempt.tries) if rest else Pending(tries=attempt.tries), [effects.Again()]
        case LookedUp() | AttemptSignal.LOGGED | AttemptSignal.NOT_LOGGED:
            raise AssertionError(attempt, event)
        case _:
            assert_never(event)


def _limit(later: RetryAfter, method: Method) -> Effects:
    """A limit holds for all calls of a method; other failures concern their incident alone."""
    if later.failure != "rateLimited" or later.seconds is None:
        return []
    return [effects.Pause(method, later.seconds)]


def _again(tries: int, reason: str, seconds: float | None = None) -> effects.Again:
    return effects.Again(min(_BACKOFF_FIRST_S * 2**tries, _BACKOFF_MAX_S) if seconds is None else seconds, reason)


def _next(tries: int) -> int:
    return min(tries + 1, _TRIES_COUNTED)
