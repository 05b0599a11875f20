"""Whether to post, edit or leave it, and what waits in which order."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.incident import Silenced
from sinks.contract.notified import notified_state
from sinks.contract.sink import Traits
from sinks.delivery.dedup import Decision, Edit, Post, Skip, decide
from sinks.delivery.notification_log import Entry, State
from sinks.delivery.outbox import Outbox
from tests.unit.sinks.samples import OPENED_AT, make_transition

SLACK = Traits(can_look_up=True, min_severity="warning")


def entry(seq: int, state: State, ts: str = "") -> Entry:
    return Entry(incident="i", seq=seq, state=state, at=1_000, channel="C1" if ts else "", ts=ts)


@pytest.mark.parametrize(
    ("known", "seq", "step"),
    [
        (None, 1, Post()),
        (None, 5, Post()),
        (entry(1, "sent", "1.1"), 2, Edit("C1", "1.1")),
        (entry(2, "sent", "1.1"), 2, Skip("already sent")),
        (entry(3, "sent", "1.1"), 2, Skip("already sent")),
        (entry(1, "intent"), 1, Post(look_since=1_000)),
        (entry(1, "unknown"), 2, Post(look_since=1_000)),
        (entry(3, "intent", "1.1"), 3, Edit("C1", "1.1")),
        (entry(3, "unknown", "1.1"), 4, Edit("C1", "1.1")),
        (entry(3, "intent", "1.1"), 2, Skip("a newer change was tried")),
        (entry(3, "unknown"), 2, Skip("a newer change was tried")),
        (entry(1, "sent"), 2, Post()),
        # What was given up may have been tried for a day before.
        (entry(1, "undelivered"), 2, Post(look_since=1_000 - 2 * 86_400_000)),
    ],
)
def test_the_next_step_follows_from_what_is_known(known: Entry | None, seq: int, step: Decision) -> None:
    assert decide(known, make_transition(seq=seq), SLACK) == step


@pytest.mark.parametrize(
    ("changes", "minutes", "step"),
    [
        ({}, 9, Skip("only newer numbers")),
        ({}, 10, Post()),
        ({"severity": "critical"}, 0, Post()),
        ({"severity": "critical", "silence": Silenced("a", 1, "ann", "")}, 60, Skip("silenced")),
        ({"transition": "resolved", "silence": Silenced("a", 1, "ann", "")}, 0, Post()),
    ],
)
def test_where_nothing_is_edited_a_change_that_matters_is_another_message(
    changes: dict[str, Any], minutes: int, step: Decision
) -> None:
    first = make_transition()
    known = msgspec.structs.replace(
        entry(1, "sent"), notified=msgspec.structs.replace(notified_state(first), replied_at=OPENED_AT)
    )
    later = make_transition(seq=2, **({"transition": "updated"} | changes))
    now = OPENED_AT + minutes * 60_000
    assert decide(known, later, msgspec.structs.replace(SLACK, numbers_every=600_000), now=now) == step
    assert decide(known, later, SLACK, now=now) == Post(), "every change, without the trait"


def test_min_severity_counts_only_for_what_was_never_sent() -> None:
    info = make_transition(seq=2, severity="info")
    assert decide(None, info, SLACK) == Skip("below min_severity")
    assert decide(entry(1, "sent", "1.1"), info, SLACK) == Edit("C1", "1.1")


@pytest.mark.parametrize("known", [None, Entry(incident="i", seq=1, state="folded", at=1_000)])
def test_an_incident_that_is_over_before_it_was_told_is_told_only_where_the_past_is(known: Entry | None) -> None:
    over = make_transition(seq=2, transition="resolved")
    assert decide(known, over, SLACK) == Post()
    assert decide(known, over, msgspec.structs.replace(SLACK, notifies_already_resolved=False)) == Skip(
        "already resolved"
    )


def test_what_is_folded_and_has_a_message_is_edited() -> None:
    known = Entry(incident="i", seq=1, state="folded", at=1_000, channel="C1", ts="1.1")
    assert decide(known, make_transition(seq=2), SLACK) == Edit("C1", "1.1")


def test_an_incident_that_became_part_of_another_before_it_was_told_is_never_told() -> None:
    part = make_transition(seq=2, transition="resolved", part_of="other")
    assert decide(None, part, SLACK) == Skip("part of another incident")
    assert decide(entry(1, "sent", "1.1"), part, SLACK) == Edit("C1", "1.1")


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["intent", "sent", "unknown"]), st.booleans()), min_size=1)
)
def test_nothing_sent_is_ever_sent_again(history: list[tuple[int, State, bool]]) -> None:
    for seq, state, stands in history:
        step = decide(entry(seq, state, "1.1" if stands else ""), make_transition(seq=seq), SLACK)
        assert (state == "sent") == isinstance(step, Skip)


def test_the_outbox_gives_the_one_that_is_due_longest() -> None:
    outbox = Outbox()
    for number, now in ((1, 10.0), (2, 11.0)):
        outbox.put(make_transition(incident=str(number)), 0, number, now)
    first = outbox.next(12.0)
    assert first is not None
    assert first.transition.incident == "1"
    outbox.later(first, 20.0)
    second = outbox.next(12.0)
    assert second is not None
    assert second.transition.incident == "2"
    outbox.done("2")
    assert outbox.next(12.0) is None
    assert outbox.next_due() == 20.0
    assert outbox.next(20.0) is first


def test_a_newer_change_takes_the_place_of_the_older_and_keeps_its_time() -> None:
    outbox = Outbox()
    outbox.put(make_transition(seq=1), 0, 7, 0.0)
    waiting = outbox.next(0.0)
    assert waiting is not None
    outbox.later(waiting, 30.0)
    outbox.put(make_transition(seq=2), 0, 9, 1.0)
    outbox.put(make_transition(seq=1), 0, 11, 1.0)
    assert len(outbox) == 1
    assert outbox.next_due() == 30.0
    newest = outbox.next(30.0)
    assert newest is not None
    assert (newest.transition.seq, newest.offset) == (2, 9)


def test_the_lowest_waiting_offset_bounds_what_may_be_committed() -> None:
    outbox = Outbox()
    for offset, partition in ((5, 0), (6, 0), (2, 1)):
        outbox.put(make_transition(incident=f"{offset}"), partition, offset, 0.0)
    assert outbox.lowest_offset(0) == 5
    outbox.done("5")
    assert outbox.lowest_offset(0) == 6
    outbox.drop(0)
    assert outbox.lowest_offset(0) is None
    assert outbox.lowest_offset(1) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.floats(0, 100))))
def test_the_outbox_holds_the_newest_of_each_incident(puts: list[tuple[int, int, float]]) -> None:
    outbox, newest = Outbox(), dict[str, int]()
    for offset, (incident, seq, now) in enumerate(puts):
        outbox.put(make_transition(incident=str(incident), seq=seq), 0, offset, now)
        newest[str(incident)] = max(seq, newest.get(str(incident), 0))
    taken: dict[str, int] = {}
    while (waiting := outbox.next(100.0)) is not None:
        taken[waiting.transition.incident] = waiting.transition.seq
        outbox.done(waiting.transition.incident)
    assert taken == newest
