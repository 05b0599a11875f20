"""`flinkwatch sinks test`: sends a test incident to every receiver and says what is wrong. Needs no Kafka."""

import time
from collections.abc import Callable, Iterator

import msgspec

from detectors.incident import Transition
from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.receiver import Receiver
from sinks.contract.sink import EditingSink, MessageRef, Notification
from sinks.secret import SecretError

_CANNOT_LOOK_UP = (
    "a message cannot be looked up: add the scope channels:history (groups:history for a private channel) and install "
    "the app again; without it a message whose answer is lost may come twice"
)


class CheckResult(msgspec.Struct, frozen=True):
    """What one step with one receiver has shown. `ok` None: it works, but something optional is missing."""

    receiver: str
    ok: bool | None
    text: str


def try_receivers(receivers: tuple[Receiver, ...], wall: Callable[[], float] = time.time) -> Iterator[CheckResult]:
    """Sends a test incident to each receiver and resolves it; gives each result as it comes."""
    for receiver in receivers:
        yield from _try(receiver, int(wall() * 1000))


def _try(receiver: Receiver, now: int) -> Iterator[CheckResult]:
    name, sink = receiver.name, receiver.sink
    try:
        sink.check()
    except SecretError as error:
        yield CheckResult(name, False, str(error))
        return
    opened = _test_incident(now)
    outcome = sink.send(Notification(transition=opened))
    yield CheckResult(name, isinstance(outcome, Delivered), f"open a test incident: {_words(outcome)}")
    if not isinstance(outcome, Delivered):
        return
    if isinstance(sink, EditingSink):
        yield from _try_editing(receiver, sink, outcome, opened)
    resolved = msgspec.structs.replace(
        opened, seq=2, transition="resolved", at=now + 1, ended_at=now + 1, reason="the test has ended"
    )
    notification = Notification(transition=resolved)
    message = MessageRef(outcome.channel, outcome.ts)
    outcome = sink.edit(notification, message) if isinstance(sink, EditingSink) else sink.send(notification)
    yield CheckResult(name, isinstance(outcome, Delivered), f"resolve it: {_words(outcome)}")


def _try_editing(receiver: Receiver, sink: EditingSink, sent: Delivered, opened: Transition) -> Iterator[CheckResult]:
    name = receiver.name
    if sink.traits.can_look_up:
        yield from _try_look_up(receiver, sink, sent, opened)
    tried = sink.try_attachment(sent)
    if tried is not None:
        yield CheckResult(name, True if isinstance(tried, Delivered) else None, f"{sink.attachment}: {_words(tried)}")
    if (tried := sink.try_actions()) is not None:
        yield CheckResult(name, True if isinstance(tried, Delivered) else None, f"buttons in messages: {_words(tried)}")


def _try_look_up(receiver: Receiver, sink: EditingSink, sent: Delivered, opened: Transition) -> Iterator[CheckResult]:
    name = receiver.name
    found = sink.find(sent.channel, opened.incident, opened.at - 300_000)
    if isinstance(found, RetryAfter):
        yield CheckResult(name, None, f"look it up: {_words(found)}")
    else:
        yield CheckResult(name, True if found else None, "look it up: ok" if found else _CANNOT_LOOK_UP)
    if not receiver.channel:
        advice = f"advice: set the channel by its ID, {sent.channel}, so that it survives a renaming"
        yield CheckResult(name, True, f"{advice}, and messages are found again after a loss of the notification log")


def _test_incident(now: int) -> Transition:
    return Transition(
        incident=f"flinkwatch-test-{now}",
        seq=1,
        transition="opened",
        at=now,
        cluster="flinkwatch-test",
        cause="test",
        # The highest, so that no setting holds it back.
        severity="critical",
        summary="This is a test of flinkwatch's delivery. Nothing is wrong.",
        findings=[],
        evidence=[],
        advice="Nothing to do: it resolves itself at once.",
        reason="opened",
        opened_at=now,
    )


def _words(outcome: Outcome) -> str:
    match outcome:
        case Delivered():
            return "ok"
        case Refused(code=code, reason=reason):
            return f"refused ({code}): {reason}"
        case RetryAfter(seconds=seconds, reason=reason):
            wait = "" if seconds is None else f"; try again in {seconds:.0f} s"
            return f"not accepted now: {reason}{wait}; check the address and the network"
        case Unknown(reason=reason):
            return f"no clear answer: {reason}; check the address and the network"
