"""Which sources a replay trusts, at the very edge of what it tolerates."""

import pytest

from detectors.engine.replay_clock import trusted_clock

HOUR = 3_600_000


@pytest.mark.parametrize(("ahead", "trusted"), [(60_000, True), (60_001, False)])
def test_a_source_may_be_a_minute_ahead(ahead: int, trusted: bool) -> None:
    arrivals = [("ahead", ahead), ("a", 0), ("b", 0), ("a", 0)]
    assert trusted_clock(arrivals)[-1] == (ahead if trusted else 0)


def test_before_the_first_record_of_a_trusted_source_the_clock_is_at_the_oldest_of_them() -> None:
    arrivals = [("ahead", HOUR), ("a", 2_000), ("a", 1_000), ("a", 3_000), ("ahead", HOUR + 1)]
    assert trusted_clock(arrivals) == [1_000, 2_000, 2_000, 3_000, 3_000]


def test_a_source_whose_clock_is_set_ahead_in_between_is_not_trusted() -> None:
    arrivals = [("x", 0), ("x", HOUR), ("a", 1_000), ("b", 1_000), ("a", 2_000), ("b", 2_000)]
    assert trusted_clock(arrivals)[-1] == 2_000


def test_more_than_half_of_the_others_must_contradict_a_source() -> None:
    right, behind, too = [("right", HOUR - 1)] * 3, [("behind", 0)] * 3, [("behind too", 0)] * 3
    assert trusted_clock([("x", HOUR), *behind, *right])[-1] == HOUR
    assert trusted_clock([("x", HOUR), *behind, *too, *right])[-1] == HOUR - 1


def test_most_records_of_a_source_decide_whether_it_lags() -> None:
    assert trusted_clock([("x", HOUR), ("a", 0), ("a", HOUR - 1)])[-1] == HOUR
    assert trusted_clock([("x", HOUR), ("a", 0), ("a", HOUR - 1), ("a", 0)])[-1] == HOUR - 1
