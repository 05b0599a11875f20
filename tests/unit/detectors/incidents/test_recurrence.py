"""How often an incident has come, and whether it comes at a constant pace."""

from collections.abc import Iterable

import pytest

from detectors.incident import Recurrence
from detectors.incidents.recurrence import Occurrence, humanize_recurrence, record_occurrence, recurrence, set_cause

DAY = 86_400_000


def past(times: Iterable[int]) -> list[Occurrence]:
    found: list[Occurrence] = []
    for number, at in enumerate(times):
        record_occurrence(found, f"i{number}", at)
        set_cause(found, f"i{number}", "restart_loop", "orders")
    return found


def last_of(times: list[int], at_least: int = 3, within: int = DAY) -> Recurrence | None:
    return recurrence(past(times), f"i{len(times) - 1}", within, at_least)


def test_occurrences_are_counted_in_order_of_their_time_though_a_partition_that_is_read_ahead_dates_one_later() -> None:
    assert last_of([0, 200, 100, 300]) == Recurrence(4, 0, 100, True)


@pytest.mark.parametrize(
    ("times", "steady"),
    [([0, 100, 200, 300], True), ([0, 100, 200, 400], False), ([0, 100, 220], True), ([0, 100, 251], False)],
)
def test_a_pace_is_constant_where_every_gap_is_near_the_median(times: list[int], steady: bool) -> None:
    found = last_of(times)
    assert found is not None
    assert found.steady is steady


def test_one_gap_is_no_pace() -> None:
    assert last_of([0, 100], at_least=2) == Recurrence(2, 0, 100, False)
    assert last_of([0, 100], at_least=3) is None


def test_what_is_longer_ago_than_asked_for_does_not_count() -> None:
    assert last_of([0, 100, 200, 300], within=200) == Recurrence(3, 100, 100, True)
    assert last_of([0, 100, 200, 300], within=199) is None


def test_a_hundred_occurrences_are_kept_the_newest_ones() -> None:
    assert last_of([*range(0, 1_500, 10)]) == Recurrence(100, 500, 10, True)


def test_an_incident_that_is_not_known_has_no_recurrence() -> None:
    assert recurrence(past([0, 1, 2]), "another", DAY, 1) is None


@pytest.mark.parametrize(
    ("count", "number"),
    [(3, "3rd"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"), (22, "22nd"), (24, "24th")],
)
def test_the_number_is_written_as_it_is_spoken(count: int, number: str) -> None:
    assert humanize_recurrence(Recurrence(count, 0, 120_000, False)) == f"{number} occurrence, about every 2 min"
