"""Which numbers rise steadily: on any scale, by an amount, to where they never were."""

from collections.abc import Callable
from random import Random

import pytest

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.steady_rise import SteadyRise, steady_rise

MINUTE = 60_000


def rise(level: Callable[[int], float], minutes: int, least: float = 50, **more: int) -> SteadyRise | None:
    """The last rise that any of the points of these minutes shows."""
    history, chance, found = MultiscaleSeries(), Random(1), None
    for minute in range(minutes):
        history.add(Point(minute * MINUTE, level(minute) + chance.gauss(0, 5)))
        found = steady_rise(history, least, 0.001, **more) or found
    return found


@pytest.mark.parametrize("hours", [1, 6, 24])
def test_a_rise_within_an_hour_or_within_days_is_found_with_its_line(hours: int) -> None:
    found = rise(lambda minute: 1_000 + 200 * minute / (hours * 60), hours * 60)
    assert found is not None
    assert abs(found.line.slope * hours * 60 * MINUTE - 200) < 40
    assert abs(found.last - 1_200) < 30


@pytest.mark.parametrize(
    "level",
    [
        lambda minute: 1_000,
        lambda minute: 1_000 - minute / 5,
        lambda minute: 1_000 if minute < 150 else 1_200,
        lambda minute: 1_000 + 100 * (minute % 100 < 50),
        lambda minute: 1_000 + 40 * minute / 300,
    ],
    ids=["level", "falls", "a step", "up and down", "by less than counts"],
)
def test_other_courses_are_no_rise(level: Callable[[int], float]) -> None:
    assert rise(level, 300) is None


def test_a_second_rise_to_where_it_was_before_is_none() -> None:
    def level(minute: int) -> float:
        return 1_300 if minute < 60 else 1_000 + (minute - 60) * 0.5

    assert rise(level, 500) is None
    again = rise(level, 1_000)
    assert again is not None
    assert again.last > 1_300


def test_the_first_points_of_a_process_and_short_rises_do_not_count() -> None:
    def fills(minute: int) -> float:
        return 1_000 + min(minute, 60) * 10

    assert rise(fills, 240) is not None
    assert rise(fills, 240, start=60 * MINUTE) is None
    assert rise(fills, 240, duration=120 * MINUTE) is None
