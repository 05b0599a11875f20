"""Which stack belongs to which line, at its limits."""

import msgspec
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
    assert joined(failing(), timeless(thrown(1)), timeless(thrown(2)))[-1] is None
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


def again(event: LogEvent, after: int) -> LogEvent:
    """The same line, which the shipper sends again."""
    return msgspec.structs.replace(event, timestamp=event.timestamp + after, offset=event.offset + 10**6)


def timeless(event: LogEvent) -> LogEvent:
    """A line in a record of its own, without a time."""
    return msgspec.structs.replace(event, local_time=-1)


def stack(at: int, *names: str) -> list[LogEvent]:
    return [timeless(thrown(at + n, name, **({"caused": "yes"} if n else {}))) for n, name in enumerate(names)]


def causes(*events: LogEvent) -> list[tuple[str, str, str]]:
    """The failing line (its offset) and the first and the deepest throwable that each failure ends with."""
    found = {t["id"]: (t["id"].rpartition("/")[2], t["first"], t["class"]) for t in joined(*events) if t}
    return [*found.values()]


ONCE = [failing(), *stack(1, "a.A", "b.B", "c.C")]


@pytest.mark.parametrize("after", [4, 5_000, 60_000])
@pytest.mark.parametrize("lines", [[0], [1], [2], [3], [0, 1], [2, 3], [1, 2, 3], [0, 1, 2, 3]])
def test_lines_that_are_sent_again_explain_nothing_new(lines: list[int], after: int) -> None:
    first = joined(*ONCE)
    for one in joined(*ONCE, *(again(ONCE[n], after) for n in lines))[len(first) :]:
        assert one is None or (one["of"], one["again"]) == ("", "yes")


@pytest.mark.parametrize("lines", [[0], [2], [3], [2, 3]])
def test_lines_that_are_sent_again_take_no_later_failures_place(lines: list[int]) -> None:
    late = [again(ONCE[n], 5_000) for n in lines]
    other = [failing(2_000, attempt="b"), *stack(2_001, "x.X", "y.Y")]
    for place in range(len(other) + 1):
        after = [msgspec.structs.replace(e, timestamp=e.timestamp + 5_000) for e in other[place:]]
        told = causes(*ONCE, *other[:place], *late, *after)
        assert ("2000", "x.X: m", "y.Y") in told, place


def test_a_whole_stack_that_is_sent_again_before_a_later_one_is_not_its() -> None:
    other = [failing(2_000, attempt="b"), *stack(2_001, "x.X", "y.Y")]
    told = causes(*ONCE, *(again(e, 1_000) for e in ONCE), *other)
    assert [t for t in told if t[0] in ("0", "2000")] == [("0", "a.A: m", "c.C"), ("2000", "x.X: m", "y.Y")]


def test_the_same_stack_after_each_failing_line_is_told_each_time() -> None:
    loop = [e for n in range(5) for e in (failing(n * 1_000), *stack(n * 1_000 + 1, "a.A", "b.B"))]
    assert causes(*loop) == [(str(n * 1_000), "a.A: m", "b.B") for n in range(5)]


def test_the_same_stack_at_the_same_time_of_two_tasks_is_told_twice() -> None:
    loop = []
    for n in range(2):
        lines = [failing(attempt=str(n)), thrown(0, "a.A"), thrown(0, "b.B", caused="yes")]
        loop += [msgspec.structs.replace(e, offset=n * 10 + k) for k, e in enumerate(lines)]
    assert causes(*loop) == [("0", "a.A: m", "b.B"), ("10", "a.A: m", "b.B")]


def test_a_stack_that_is_printed_twice_ends_with_its_root_cause() -> None:
    lines = stack(1, "a.A", "b.B", "c.C")
    for printed in range(len(lines)):
        last = [one for one in joined(failing(), *lines, *lines[: printed + 1]) if one][-1]
        assert last["class"] == "c.C"


def test_a_throwable_without_a_failing_line_is_told_again_and_said_to_be_perhaps_the_same() -> None:
    line = timeless(thrown(0))
    first, second, later = joined(line, again(line, 3_000), again(line, 200_000))
    assert first
    assert second
    assert later
    assert ["again" in one for one in (first, second, later)] == [False, True, False]


def test_a_cause_comes_first_where_the_outermost_throwable_is_not_understood() -> None:
    (told,) = causes(failing(), timeless(thrown(1, "b.B", caused="yes")))
    assert told == ("0", "b.B: m", "b.B")


def test_what_is_known_of_lines_is_bounded_and_forgotten() -> None:
    throwables = StackTraces()
    for n in range(2_000):
        throwables.join(timeless(thrown(n, f"a.A{n}")))
    assert len(throwables.known) == 1_000
    throwables.join(timeless(thrown(10**6)))
    assert len(throwables.known) == 1


def test_a_text_that_is_no_unicode_does_no_harm() -> None:
    line = msgspec.structs.replace(thrown(0), text="java.lang.Error: \ud800")
    assert joined(failing(), line)[-1]
