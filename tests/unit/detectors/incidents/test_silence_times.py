"""When a silence is in force, and what it matches: at its very edges, and with several patterns."""

import pytest
from pydantic import ValidationError

from detectors.incidents.silences import Silence, at, in_force, next_edge

BEGIN, END = 1_700_000_000_000, 1_700_000_060_000


def silence(begins: int | None = BEGIN, until: int = END, **more: object) -> Silence:
    edges = {"until": at(until)} | ({} if begins is None else {"begins": at(begins)})
    return Silence.model_validate({"author": "a", "comment": "b", **edges, **more})


@pytest.mark.parametrize(("now", "silenced"), [(BEGIN - 1, False), (BEGIN, True), (END - 1, True), (END, False)])
def test_it_is_in_force_from_its_beginning_until_its_end(now: int, silenced: bool) -> None:
    assert (in_force([silence()], "c", "j", "k", now) is not None) is silenced


@pytest.mark.parametrize(
    ("now", "edge"), [(0, BEGIN), (BEGIN - 1, BEGIN), (BEGIN, END), (END - 1, END), (END, None), (END + 1, None)]
)
def test_the_next_change_is_after_now(now: int, edge: int | None) -> None:
    assert next_edge([silence()], "c", "j", "k", now) == edge


def test_without_a_beginning_it_is_in_force_at_once() -> None:
    assert in_force([silence(None)], "c", "j", "k", 1) is not None
    assert next_edge([silence(None)], "c", "j", "k", 1) == END


def test_one_of_several_kinds_is_enough() -> None:
    two = silence(kinds=["restart_loop", "checkpoint_*"])
    assert [two.fits("c", "j", kind) for kind in ("restart_loop", "checkpoint_overdue", "job_failed")] == [
        True,
        True,
        False,
    ]


def test_it_lasts_for_some_time() -> None:
    assert silence(BEGIN, BEGIN + 1).edges() == (BEGIN, BEGIN + 1)
    with pytest.raises(ValidationError, match="ends before it begins"):
        silence(BEGIN, BEGIN)
