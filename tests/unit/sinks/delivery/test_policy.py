"""What is done next for one notification: a table of all states, events and kinds of knowledge, and laws for all.

A cell reads "next state: effects", with "-" where nothing more is to be done.
"""

from collections.abc import Iterator
from itertools import product
from typing import get_args

import pytest
from msgspec.structs import replace

from detectors.incident import Silenced
from sinks.contract.digest import Folded, Summary
from sinks.contract.notified import notified_state
from sinks.contract.outcome import Attachment, Delivered, Found, Outcome, Refused, RetryAfter, Unknown
from sinks.contract.sink import Traits
from sinks.delivery import effects
from sinks.delivery.attempt import (
    NO_OFFSET,
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
from sinks.delivery.notification_log import Entry, State
from sinks.delivery.policy import advance, supersede
from tests.unit.sinks.samples import make_transition

NOW, DAY = 1_772_400_000_000, 86_400_000
LINE, CHART = Attachment(Delivered), Attachment(Delivered, posts=False)
SILENCE = Silenced("a1", 1 << 42, "ann", "backfill")
OPEN = make_transition(seq=2, transition="updated")
SILENCED = replace(OPEN, silence=SILENCE)
SLACK = Traits(can_look_up=True, digests=True, notifies_already_resolved=False)


def known(state: State, ts: str = "", seq: int = 1) -> Entry:
    return Entry(incident=OPEN.incident, seq=seq, state=state, at=NOW - 1000, channel="C1" if ts else "", ts=ts)


SENT = replace(known("sent", "1.1", 2), notified=notified_state(OPEN))

KNOWN: dict[str, Entry | None] = {
    "nothing": None,
    "a digest": known("folded"),
    "a try": known("intent"),
    "a try to edit": known("intent", "1.1"),
    "an older message": known("sent", "1.1"),
    "an older alert": known("sent"),
    "this message": SENT,
    "a lost answer": known("unknown"),
    "a lost answer of an edit": known("unknown", "1.1"),
    "given up": known("undelivered"),
    "given up with a message": known("undelivered", "1.1"),
}
EDITED = {name for name, entry in KNOWN.items() if entry is not None and entry.ts}

ATTEMPTS: dict[str, Attempt] = {
    "deferred": Deferred(),
    "new": Pending(),
    "absent": Pending(tries=1, absent=True),
    "plain": Pending(tries=1, plain=True),
    "after a day": Pending(tries=5),
    "last try": Pending(last_try=True),
    "unlogged": Unlogged(SENT, tries=1),
    "unlogged with a line": Unlogged(SENT, (LINE,), tries=1),
    "unlogged, given up": Unlogged(known("undelivered"), tries=1),
    "line": Attaching((LINE,), tries=1),
    "chart, line": Attaching((CHART, LINE), tries=1),
    "line for long": Attaching((LINE,), tries=10),
}
PENDING = ("deferred", "new", "absent", "plain", "after a day", "last try")
UNLOGGED = ("unlogged", "unlogged with a line", "unlogged, given up")
ATTACHING = ("line", "chart, line", "line for long")

EVENTS: dict[str, Event] = {
    "due": AttemptSignal.DUE,
    "delivered": Delivered("C1", "2.2"),
    "delivered with a line": Delivered("C1", "2.2", notified_state(OPEN), (LINE,)),
    "away": RetryAfter(None, "away", "serverError"),
    "limited": RetryAfter(30.0, "limited", "rateLimited"),
    "no answer": Unknown("lost", "other"),
    "wrong set-up": Refused("invalid_auth", "fix it", "setup", "authError"),
    "wrong channel": Refused("is_archived", "fix it", "setup", "clientError"),
    "wrong message": Refused("msg_too_long", "shorten it", "message", "clientError"),
    "wrong target": Refused("message_not_found", "", "target", "clientError"),
    "found": LookedUp(Found("C1", "2.2", 1)),
    "found none": LookedUp(None),
    "not looked up": LookedUp(RetryAfter(20.0, "limited", "rateLimited")),
    "logged": AttemptSignal.LOGGED,
    "not logged": AttemptSignal.NOT_LOGGED,
    "defect": AttemptSignal.DEFECT,
}

CANNOT_HAPPEN = "cannot happen"
GIVEN_UP = "Unlogged undelivered: {}Report, LogOutcome undelivered"
GIVEN_UP_AGAIN = "Unlogged undelivered: {}LogOutcome undelivered"
NEXT_LINE = {"line": "Pending: Again 0", "chart, line": "Attaching: Again 0", "line for long": "Pending: Again 0"}
IN_ATTACHING = dict.fromkeys(ATTACHING, CANNOT_HAPPEN)
IN_UNLOGGED = dict.fromkeys(UNLOGGED, CANNOT_HAPPEN)


def retried(before: str, again: str | None = None, pause: str = "") -> dict[str, str]:
    """Of a pending attempt: with growing pauses unless `again` says when, given up in time."""
    first = f"{before}{pause}"
    waits = {"deferred": "1", "new": "1", "absent": "2", "plain": "2"}
    return {
        **{name: f"Pending: {first}Again {again or pause_s}" for name, pause_s in waits.items()},
        "after a day": GIVEN_UP.format(first),
        "last try": GIVEN_UP_AGAIN.format(first),
    }


PLAIN = dict.fromkeys(PENDING, "Pending: Write *, Report, Again 0") | {"plain": GIVEN_UP.format("Write *, ")}
REPLACED = dict.fromkeys(PENDING, "Pending: Write none, Again 0")
DELIVERED = dict.fromkeys(PENDING, "Unlogged sent: Changed sent, LogOutcome sent")
SET_UP = retried("Write *, Report, Pause 60, ", "60")
NOT_LOGGED = {"unlogged": "Unlogged sent: Again 2", "unlogged with a line": "Unlogged sent: Again 2"} | {
    "unlogged, given up": "Unlogged undelivered: Again 60"
}
LATER_LINE = {
    "line": "Attaching: {}Again {}",
    "chart, line": "Attaching: Again {1}",
    "line for long": "Pending: Again 0",
}


def later(pause: str, again: str) -> dict[str, str]:
    return {name: text.format(pause, again) for name, text in LATER_LINE.items()}


# Of each event but DUE: what follows in each state. "Write *" restores what the log knew.
TABLE: dict[str, dict[str, str]] = {
    "delivered": {**DELIVERED, **IN_UNLOGGED, **NEXT_LINE},
    "delivered with a line": {**DELIVERED, **IN_UNLOGGED, **NEXT_LINE},
    "away": {**retried("Write *, "), **IN_UNLOGGED, **later("", "2")},
    "limited": {**retried("Write *, ", "30", "Pause 30, "), **IN_UNLOGGED, **later("Pause 30, ", "30")},
    "no answer": {**retried("Write unknown, "), **IN_UNLOGGED, **NEXT_LINE},
    "wrong set-up": {**SET_UP, **IN_UNLOGGED, **NEXT_LINE},
    "wrong channel": {**SET_UP, **IN_UNLOGGED, **NEXT_LINE},
    "wrong message": {**PLAIN, "last try": PLAIN["new"], **IN_UNLOGGED, **NEXT_LINE},
    "wrong target": {**PLAIN, **IN_UNLOGGED, **NEXT_LINE},
    "found": {**dict.fromkeys(PENDING, "Pending: Write sent, Again 0"), **IN_UNLOGGED, **IN_ATTACHING},
    "found none": {**dict.fromkeys(PENDING, "Pending: Again 0"), **IN_UNLOGGED, **IN_ATTACHING},
    "not looked up": {**retried("", "20"), **IN_UNLOGGED, **IN_ATTACHING},
    "logged": {
        **dict.fromkeys(PENDING, CANNOT_HAPPEN),
        "unlogged": "-",
        "unlogged with a line": "Attaching: Again 0",
        "unlogged, given up": "-",
        **IN_ATTACHING,
    },
    "not logged": {**retried(""), **NOT_LOGGED, **IN_ATTACHING},
    "defect": {**retried(""), **NOT_LOGGED, **later("", "2")},
}
# An edit that cannot be made any more: the incident gets a new message.
TABLE_OF_EDITS = {"wrong target": REPLACED, "wrong channel": REPLACED}

# DUE: what follows from what the log knows, for an incident and for a silenced one.
POST, EDIT, LOOK = "Pending: Send post", "Pending: Send edit", "Pending: LookUp"
DUE: dict[str, tuple[str, str]] = {
    "nothing": (POST, "-"),
    "a digest": (POST, "-"),
    "a try": (LOOK, LOOK),
    "a try to edit": (EDIT, EDIT),
    "an older message": (EDIT, EDIT),
    "an older alert": (POST, POST),
    "this message": ("-", "-"),
    "a lost answer": (LOOK, LOOK),
    "a lost answer of an edit": (EDIT, EDIT),
    "given up": (LOOK, LOOK),
    "given up with a message": (EDIT, EDIT),
}
DUE_WHEN_ABSENT = dict.fromkeys(("a try", "a lost answer", "given up"), (POST, "-: Suppress, Write none"))
DUE_OTHERWISE = {
    "unlogged": "Unlogged sent: LogOutcome sent",
    "unlogged with a line": "Unlogged sent: LogOutcome sent",
    "unlogged, given up": "Unlogged undelivered: LogOutcome undelivered",
    "line": "Attaching: Attach",
    "chart, line": "Attaching: Attach",
    "line for long": "Attaching: Attach",
}


def context(entry: Entry | None, attempt: Attempt | None = None, **changes: object) -> Context:
    edited = entry is not None and bool(entry.ts) and not isinstance(attempt, Attaching)
    made = Context(
        transition=OPEN,
        traits=SLACK,
        now=NOW,
        arrived=NOW - DAY,
        offset=7,
        method="edit" if edited else "post",
    )
    return replace(made, **changes)


def cell(attempt: Attempt, entry: Entry | None, event: Event, where: Context) -> str:
    """What `advance` says, in the words of the table."""
    try:
        after, asked = advance(attempt, entry, event, where)
    except AssertionError:
        return CANNOT_HAPPEN
    state = "-" if after is None else type(after).__name__
    state += f" {after.entry.state}" if isinstance(after, Unlogged) else ""
    return f"{state}: {', '.join(shown(one, entry) for one in asked)}" if asked else state


def shown(effect: effects.Effect, entry: Entry | None) -> str:
    name = type(effect).__name__
    match effect:
        case effects.Write(entry=written):
            return f"{name} *" if written == entry and entry is not None else f"{name} {state_of(written)}"
        case effects.LogOutcome(entry=written) | effects.Changed(entry=written):
            return f"{name} {state_of(written)}"
        case effects.Send(message=message):
            return f"{name} {'post' if message is None else 'edit'}"
        case effects.Again(seconds=seconds, method=method):
            return f"{name} {seconds:g}{'' if method is None else f' {method}'}"
        case effects.Pause(seconds=seconds):
            return f"{name} {seconds:g}"
    return name


def state_of(entry: Entry | None) -> str:
    return "none" if entry is None else entry.state


def expected(attempt: str, event: str, knowledge: str, silenced: bool) -> str:
    if event == "due":
        if attempt in DUE_OTHERWISE:
            return DUE_OTHERWISE[attempt]
        table = DUE | (DUE_WHEN_ABSENT if attempt == "absent" else {})
        return table[knowledge][silenced]
    if knowledge in EDITED and attempt in PENDING and event in TABLE_OF_EDITS:
        return TABLE_OF_EDITS[event][attempt]
    return TABLE[event][attempt].replace("Write *", "Write none" if KNOWN[knowledge] is None else "Write *")


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_what_follows_in_each_state_from_each_event_whatever_the_log_knows(attempt: str, event: str) -> None:
    for knowledge, entry in KNOWN.items():
        for transition in (OPEN, SILENCED):
            where = context(entry, ATTEMPTS[attempt], transition=transition)
            found = cell(ATTEMPTS[attempt], entry, EVENTS[event], where)
            wanted = expected(attempt, event, knowledge, transition is SILENCED)
            assert found == wanted, f"the log knows: {knowledge}; silenced: {transition is SILENCED}"


def test_the_table_has_every_state_every_event_and_everything_that_the_log_may_know() -> None:
    assert {type(one) for one in ATTEMPTS.values()} == set(get_args(Attempt))
    assert {*EVENTS.values()} >= set(AttemptSignal)
    assert {type(one) for one in EVENTS.values()} == {AttemptSignal, LookedUp, *get_args(Outcome)}
    assert {one.because for one in EVENTS.values() if isinstance(one, Refused)} == {"setup", "message", "target"}
    assert {one.state for one in KNOWN.values() if one is not None} == set(get_args(State))
    assert set(TABLE) | {"due"} == set(EVENTS)
    assert set(DUE) == set(KNOWN)
    for row in TABLE.values():
        assert set(row) == set(ATTEMPTS)


def every_step() -> Iterator[tuple[Attempt, Event, Entry | None, Context, Attempt | None, list[effects.Effect]]]:
    transitions = (OPEN, SILENCED, replace(OPEN, transition="resolved"))
    for attempt, event, entry, one in product(ATTEMPTS.values(), EVENTS.values(), KNOWN.values(), transitions):
        for traits, method in product((SLACK, Traits()), ("post", "edit")):
            where = context(entry, attempt, transition=one, traits=traits, method=method)
            if cell(attempt, entry, event, where) != CANNOT_HAPPEN:
                yield attempt, event, entry, where, *advance(attempt, entry, event, where)


ANSWERED = (effects.Send, effects.LookUp, effects.Attach, effects.LogOutcome)


def test_an_attempt_that_is_not_done_is_always_due_again_or_waits_for_an_answer() -> None:
    for *_, after, asked in every_step():
        assert not any(isinstance(one, (*ANSWERED, effects.Again)) for one in asked[:-1])
        goes_on = bool(asked) and isinstance(asked[-1], (*ANSWERED, effects.Again))
        assert goes_on == (after is not None)


def test_nothing_is_sent_after_it_was_delivered_and_no_message_is_posted_where_one_may_exist() -> None:
    for attempt, _, entry, where, _, asked in every_step():
        for send in (one for one in asked if isinstance(one, effects.Send)):
            assert isinstance(attempt, Deferred | Pending)
            assert send.intent.state == "intent"
            assert entry is None or (entry.state, entry.seq) != ("sent", where.transition.seq)
            unclear = entry is not None and entry.state in {"intent", "unknown", "undelivered"}
            if send.message is None and unclear and where.traits.can_look_up:
                assert isinstance(attempt, Pending)
                assert attempt.absent


def test_under_a_silence_no_first_message_is_sent() -> None:
    for _, _, entry, where, _, asked in every_step():
        if where.transition.silence is not None and any(isinstance(one, effects.Send) for one in asked):
            # It was sent before: an edit, or the next alert of a receiver that does not edit.
            assert entry is not None
            assert entry.ts or entry.state == "sent"


def test_a_method_that_the_queue_is_not_for_is_never_used() -> None:
    for *_, where, _, asked in every_step():
        for one in asked:
            if isinstance(one, effects.Send):
                assert (where.method == "post") == (one.message is None)
            if isinstance(one, effects.Attach):
                assert where.method == "post" or not one.attachment.posts
    post = Pending(), KNOWN["an older message"], AttemptSignal.DUE, context(None)
    assert advance(*post) == (Pending(), [effects.Again(method="edit")])


def test_a_limit_of_an_attachment_that_is_no_message_holds_up_nothing_else() -> None:
    _, asked = advance(Attaching((CHART,)), SENT, EVENTS["limited"], context(SENT))
    assert asked == [effects.Again(30.0, "limited")]


@pytest.mark.parametrize("event", [name for name in EVENTS if name not in {"due", "logged"}])
def test_a_digest_is_never_given_up(event: str) -> None:
    for attempt in (Pending(), Pending(tries=5), Pending(tries=10, plain=True)):
        where = context(None, offset=NO_OFFSET)
        after, asked = advance(attempt, None, EVENTS[event], where)
        written = [one.entry for one in asked if isinstance(one, effects.Write | effects.LogOutcome)]
        assert after is not None
        assert all(one is None or one.state != "undelivered" for one in written)


@pytest.mark.parametrize(("still_open", "after"), [(0, "-"), (1, "Pending: Send post")])
def test_a_digest_without_open_incidents_is_not_begun(still_open: int, after: str) -> None:
    summary = Summary(1, 3, still_open, 3 - still_open, 0, {}, [], [], [])
    assert cell(Pending(), None, AttemptSignal.DUE, context(None, offset=NO_OFFSET, summary=summary)) == after


def test_an_incident_whose_message_does_not_exist_under_a_silence_stays_in_its_digest() -> None:
    folded = Folded(storm=1, kind="k", cluster="c", job="", severity="warning", since=1, has_own_message=True)
    entry = replace(known("unknown"), folded=folded)
    _, asked = advance(Pending(absent=True), entry, AttemptSignal.DUE, context(entry, transition=SILENCED))
    kept = replace(entry, state="folded", folded=replace(folded, has_own_message=False), silenced=True)
    assert asked == [effects.Suppress("silence"), effects.Write(kept), effects.Changed(kept)]


@pytest.mark.parametrize(
    ("attempt", "after", "after_silenced"),
    [
        (Deferred(), Deferred(), Deferred()),
        (Pending(tries=3, plain=True), Pending(tries=3, plain=True), Pending(tries=3, plain=True)),
        (Unlogged(SENT, tries=2), Pending(tries=2), Pending(tries=2)),
        (Unlogged(SENT, (LINE,), tries=2), Attaching((LINE,), tries=2), Pending(tries=2)),
        (Attaching((LINE,), tries=2), Attaching((LINE,), tries=2), Pending(tries=2)),
    ],
    ids=str,
)
def test_a_newer_change_takes_the_place_of_one_and_keeps_its_tries(
    attempt: Attempt, after: Attempt, after_silenced: Attempt
) -> None:
    assert supersede(attempt, OPEN) == after
    assert supersede(attempt, SILENCED) == after_silenced


@pytest.mark.parametrize(
    ("knowledge", "event", "remembered"),
    [
        ("a lost answer", "found none", {"absent": True}),
        ("a lost answer", "found", {"absent": True}),
        ("a lost answer", "not looked up", {"tries": 1}),
        ("a lost answer", "away", {"tries": 1}),
        ("nothing", "wrong message", {"plain": True}),
        ("nothing", "no answer", {"tries": 1}),
    ],
)
def test_what_an_attempt_remembers(knowledge: str, event: str, remembered: dict[str, object]) -> None:
    entry = KNOWN[knowledge]
    assert advance(Pending(), entry, EVENTS[event], context(entry))[0] == Pending(**remembered)  # type: ignore[arg-type]


def test_after_a_lost_answer_the_message_is_looked_up_again() -> None:
    after, _ = advance(Pending(absent=True), None, EVENTS["no answer"], context(None))
    assert after == Pending(tries=1, absent=False)


def test_a_message_that_takes_the_place_of_one_that_is_gone_says_so() -> None:
    entry = KNOWN["an older message"]
    after, _ = advance(Pending(), entry, EVENTS["wrong target"], context(entry))
    assert isinstance(after, Pending)
    assert "takes its place" in after.note
    _, (send,) = advance(after, None, AttemptSignal.DUE, context(None))
    assert isinstance(send, effects.Send)
    assert send.notification.note == after.note


def test_a_message_that_is_gone_and_of_which_the_log_knows_nothing_is_replaced() -> None:
    _, asked = advance(Pending(), None, EVENTS["wrong target"], context(None, method="edit"))
    assert asked == [effects.Write(None), effects.Again()]
