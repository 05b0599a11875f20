"""`flinkwatch sinks test`: a test incident through every sink, and in words what is wrong. Needs no Kafka."""

import time
from collections.abc import Callable, Iterator

import msgspec

from detectors.incident import Transition
from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.receiver import Lane
from sinks.contract.sink import Notice, Standing
from sinks.secret import SecretError

_NO_LOOK_UP = (
    "a message cannot be looked up: add the scope channels:history (groups:history for a private channel) and install "
    "the app again; without it a message whose answer is lost may come twice"
)


class Finding(msgspec.Struct, frozen=True):
    """What one step on one lane showed. `ok` None: it works, but something is missing."""

    lane: str
    ok: bool | None
    text: str


def try_lanes(lanes: tuple[Lane, ...], wall: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Opens and resolves a test incident on each lane; each gives its findings as they come."""
    for lane in lanes:
        yield from _try(lane, int(wall() * 1000))


def _try(lane: Lane, now: int) -> Iterator[Finding]:
    try:
        lane.sink.check()
    except SecretError as error:
        yield Finding(lane.name, False, str(error))
        return
    opened = _test_incident(now)
    outcome = lane.sink.send(Notice(transition=opened), None)
    yield Finding(lane.name, isinstance(outcome, Delivered), f"open a test incident: {_words(outcome)}")
    if not isinstance(outcome, Delivered):
        return
    traits = lane.sink.traits
    if traits.looks_up:
        found = lane.sink.find(outcome.channel, opened.incident, now - 300_000)
        if isinstance(found, RetryAfter):
            yield Finding(lane.name, None, f"look it up: {_words(found)}")
        else:
            yield Finding(lane.name, True if found else None, "look it up: ok" if found else _NO_LOOK_UP)
        if not lane.channel:
            name = f"advice: set the channel by its ID, {outcome.channel}, so that it survives a renaming"
            yield Finding(lane.name, True, f"{name}, and messages are found again after a loss of the notification log")
    extra = lane.sink.try_extra(outcome)
    if extra is not None:
        done = isinstance(extra, Delivered)
        yield Finding(lane.name, True if done else None, f"{traits.extra or 'extras'}: {_words(extra)}")
    standing = Standing(outcome.channel, outcome.ts) if traits.edits else None
    resolved = msgspec.structs.replace(
        opened, seq=2, transition="resolved", at=now + 1, ended_at=now + 1, reason="the test is over"
    )
    outcome = lane.sink.send(Notice(transition=resolved), standing)
    yield Finding(lane.name, isinstance(outcome, Delivered), f"resolve it: {_words(outcome)}")


def _test_incident(now: int) -> Transition:
    return Transition(
        incident=f"flinkwatch-test-{now}",
        seq=1,
        transition="opened",
        at=now,
        cluster="flinkwatch-test",
        cause="test",
        # The worst, so that no setting keeps it back.
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
