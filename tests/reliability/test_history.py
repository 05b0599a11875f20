"""The checker sees what it is there to see."""

from typing import Any

from detectors.incident import Silenced
from tests.fake_slack.server import Call, Posted
from tests.reliability.history import judge
from tests.unit.sinks.samples import make_transition

ONE, TWO, THREE = (make_transition(seq=seq, transition="updated") for seq in (1, 2, 3))


def told(method: str, seq: int) -> Call:
    return Call(method, 0.0, {"metadata": metadata(seq)})


def stands(seq: int) -> Posted:
    return Posted("C1", "1.1", metadata=metadata(seq))


def metadata(seq: int) -> dict[str, Any]:
    return {"event_payload": {"incident": ONE.incident, "seq": seq}}


def test_a_change_that_a_newer_one_overtook_is_not_lost() -> None:
    verdict = judge([ONE, TWO, THREE], [told("chat.postMessage", 1), told("chat.update", 3)], [stands(3)])
    assert (verdict.lost, verdict.out_of_order, verdict.doubled, verdict.edited_again) == ([], [], {}, 0)
    assert (verdict.transitions, verdict.calls) == (3, 2)


def test_an_incident_that_nobody_told_or_whose_end_is_missing_is_lost() -> None:
    assert judge([ONE], [], []).lost == [ONE.incident]
    assert judge([ONE, TWO], [told("chat.postMessage", 1)], [stands(1)]).lost == [ONE.incident]
    assert judge([ONE, TWO], [told("chat.postMessage", 1), told("chat.update", 2)], [stands(1)]).lost == [ONE.incident]


def test_an_older_change_after_a_newer_one_is_out_of_order() -> None:
    calls = [told("chat.postMessage", 1), told("chat.update", 3), told("chat.update", 2)]
    assert judge([ONE, TWO, THREE], calls, [stands(3)]).out_of_order == [ONE.incident]


def test_a_second_message_is_a_double_and_a_repeated_edit_is_counted_apart() -> None:
    posts = [told("chat.postMessage", 1), told("chat.postMessage", 1)]
    verdict = judge([ONE], posts, [stands(1), stands(1)])
    assert (verdict.doubled, verdict.edited_again) == ({ONE.incident: 1}, 0)
    edits = [told("chat.postMessage", 1), told("chat.update", 2), told("chat.update", 2)]
    verdict = judge([ONE, TWO], edits, [stands(2)])
    assert (verdict.doubled, verdict.edited_again) == ({}, 1)


def test_a_silenced_change_needs_no_message_but_what_stands_must_show_it_and_a_new_one_is_a_breach() -> None:
    hushed = make_transition(seq=2, silence=Silenced("a", 1, "ann", "why"))
    assert judge([ONE, hushed], [], []).lost == []
    assert judge([ONE, hushed], [told("chat.postMessage", 1)], [stands(1)]).lost == [ONE.incident]
    edited = judge([ONE, hushed], [told("chat.postMessage", 1), told("chat.update", 2)], [stands(2)])
    assert (edited.lost, edited.told_under_silence) == ([], [])
    assert judge([ONE, hushed], [told("chat.postMessage", 2)], [stands(2)]).told_under_silence == [ONE.incident]
    assert judge([ONE, hushed, THREE], [], []).lost == [ONE.incident]
