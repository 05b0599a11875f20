"""Which stack belongs to which line, at its limits."""

import pytest

from detectors.events.event import LogEvent
from detectors.events.vocabulary.match import THROWS
from detectors.flink.stack_traces import StackTraces
from tests.unit.detectors.streams import log

FAILS = "task_state"


def failing(at: int = 0, source: str = "jm", **fields: str) -> LogEvent:
    return log(FAILS, at, at, source, 0, **{"state": "FAILED", "attempt": "a", **fields})


def thrown(at: int, name: str = "a.First", source: str = "jm", **fields: str) -> LogEvent:
    return log("thrown", at, 1_000 + at, source, 0, **{"class": name, "message": "m", **fields})


def frame(at: int, text: str = "com.example.A.b(A.java:1)", source: str = "jm") -> LogEvent:
    return log("frame", at, 2_000 + at, source, 0, frame=text)


def joined(*events: LogEvent) -> list[dict[str, str] | None]:
    throwables = StackTraces()
    found = [throwables.join(event) for event in events]
    return [one.fields if one is not None else None for one in found]


def test_a_line_that_may_throw_is_reported_as_soon_as_its_throwable_comes() -> None:
    assert FAILS in THROWS
    nothing, failure = joined(failing(), thrown(1))
    assert nothing is None
    assert failure is not None
    assert (failure["of"], failure["id"], failure["attempt"], failure["first"]) == (
        FAILS,
        "flink.logs/0/0",
        "a",
        "a.First: m",
    )
    assert (failure["class"], failure["message"], failure["frame"]) == ("a.First", "m", "")


@pytest.mark.parametrize(("after", "of"), [(0, FAILS), (10_000, FAILS), (10_001, "")])
def test_a_throwable_belongs_to_the_line_of_its_source_up_to_ten_seconds_before(after: int, of: str) -> None:
    failure = joined(failing(), thrown(after))[-1]
    assert failure is not None
    assert failure["of"] == of
    assert ("attempt" in failure) == bool(of)


def test_a_throwable_before_its_line_belongs_to_no_line() -> None:
    failure = joined(failing(5), thrown(4))[-1]
    assert failure is not None
    assert failure["of"] == ""


def test_one_that_declares_itself_an_orphan_belongs_to_no_line() -> None:
    failure = joined(failing(), thrown(1, orphan="yes"))[-1]
    assert failure is not None
    assert failure["of"] == ""


@pytest.mark.parametrize(("state", "of"), [("RUNNING", ""), ("CREATED", ""), ("FAILED", FAILS), ("CANCELED", FAILS)])
def test_a_state_that_explains_nothing_has_no_stack(state: str, of: str) -> None:
    failure = joined(failing(), failing(1, state=state), thrown(2))[-1]
    assert failure is not None
    assert failure["of"] == of
    assert failure["id"] == ("flink.logs/0/1" if of else "flink.logs/0/1002")


def test_the_root_cause_is_the_deepest_and_the_frame_the_first_own_one_under_it() -> None:
    events = (failing(), thrown(1), frame(2, "x.Outer.a(O.java:1)"), thrown(3, "b.Root", caused="yes"))
    failures = joined(*events, frame(4, "y.Inner.b(I.java:2)"), frame(5, "z.Later.c(L.java:3)"))
    assert [t is not None for t in failures] == [False, True, True, True, True, False]
    last = failures[4] or {}
    assert (last["first"], last["class"], last["frame"]) == ("a.First: m", "b.Root", "y.Inner.b(I.java:2)")
    assert (failures[3] or {})["frame"] == "x.Outer.a(O.java:1)"


def test_a_second_throwable_is_anothers_and_the_same_line_again_is_a_record_that_came_twice() -> None:
    assert (joined(failing(), thrown(1), thrown(2))[-1] or {})["of"] == FAILS
    assert (joined(failing(), thrown(1), thrown(2, "c.Other"))[-1] or {})["of"] == ""
    assert (joined(failing(), thrown(1), thrown(2, "c.Other", caused="yes"))[-1] or {})["of"] == FAILS


def test_a_throwable_without_a_message_is_named_without_a_colon() -> None:
    assert (joined(failing(), thrown(1, message=""))[-1] or {})["first"] == "a.First"


def test_frames_without_a_throwable_and_lines_that_mean_something_else_are_of_no_failure() -> None:
    assert joined(frame(0), failing(1), frame(2), log("checkpoint_expired", 3)) == [None] * 4


def test_sources_do_not_mix_and_are_bounded() -> None:
    throwables = StackTraces()
    for n in range(201):
        throwables.join(failing(n, f"s{n}"))
    assert len(throwables.stacks) == 200
    assert "s0" not in throwables.stacks
    for n in range(300):
        throwables.join(thrown(n, source=f"t{n}"))
    assert len(throwables.stacks) == 200
    other = joined(failing(0, "a"), thrown(1, source="b"))[-1] or {}
    assert other["of"] == ""
