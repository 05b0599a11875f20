"""What keeps state small keeps as much as it promises."""

import pytest

from detectors.values.bounded import intern_index, put_bounded, setdefault_bounded, to_int


def test_the_oldest_gives_way_when_there_are_as_many_as_may_be_and_a_known_one_keeps_its_place() -> None:
    entries: dict[str, int] = {}
    for n, key in enumerate("abc"):
        put_bounded(entries, key, n, 3)
    assert entries == {"a": 0, "b": 1, "c": 2}
    put_bounded(entries, "a", 9, 3)
    assert list(entries.items()) == [("a", 9), ("b", 1), ("c", 2)]
    put_bounded(entries, "d", 3, 3)
    assert list(entries.items()) == [("b", 1), ("c", 2), ("d", 3)]


def test_a_default_is_added_only_for_a_new_key_and_drops_the_oldest() -> None:
    entries = {"a": 0, "b": 1}
    assert setdefault_bounded(entries, "a", 9, 2) == 0
    assert setdefault_bounded(entries, "c", 2, 2) == 2
    assert list(entries.items()) == [("b", 1), ("c", 2)]


def test_names_are_numbered_as_they_come_and_what_is_too_much_has_no_number() -> None:
    names: list[str] = []
    assert [intern_index(names, name, 2) for name in ("a", "b", "a", "c", "b")] == [0, 1, 0, -1, 1]
    assert names == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "kept"),
    [(0.9, 0), (-0.9, 0), (1e15, 10**15), (1e16, 10**15), (-1e16, -(10**15)), (float("inf"), 10**15), (-7.5, -7)],
)
def test_a_sample_is_kept_as_a_whole_number_of_fifteen_digits(value: float, kept: int) -> None:
    assert to_int(value) == kept
