"""Rises of a sink's counter of errors: restarts, wrong samples, and scrapes that arrive in parts."""

from itertools import count

import pytest

from detectors.flink.sink_errors import ErrorCounter


def counted(*samples: tuple[int, int]) -> int:
    """The errors counted from samples of (errors, records sent), a second apart."""
    counter = ErrorCounter(value=samples[0][0], time=0, sent=samples[0][1], sent_before=samples[0][1])
    for second, (errors, sent) in zip(count(1), samples[1:], strict=False):
        counter.sent = sent
        counter.take(errors, second, 0.01)
    return counter.rises.errors


def test_errors_are_counted_where_they_are_a_share_of_what_was_sent() -> None:
    assert counted((0, 1_000), (50, 2_000), (55, 3_000), (105, 4_000)) == 100


def test_without_the_records_sent_every_error_counts() -> None:
    assert counted((0, 0), (1, 0), (3, 0)) == 3


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_value_that_is_wrong_once_adds_nothing(wrong: int) -> None:
    assert counted((500, 1_000), (wrong, 2_000), (500, 3_000), (550, 4_000)) == 50


def test_after_a_restart_errors_are_counted_from_zero() -> None:
    assert counted((500, 9_000), (0, 0), (60, 1_000), (120, 2_000)) == 120


def test_errors_that_arrive_before_the_records_sent_are_judged_with_them() -> None:
    assert counted((0, 1_000), (5, 1_000), (5, 2_000), (10, 2_000), (10, 3_000)) == 0


def test_a_sink_that_sends_nothing_any_more_still_has_errors() -> None:
    assert counted((0, 1_000), *((10 * n, 1_000) for n in range(1, 7))) == 60
