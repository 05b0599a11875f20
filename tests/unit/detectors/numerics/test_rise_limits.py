"""How far ahead a rise is believed, whether the load explains it, and when it has settled."""

import math
from collections.abc import Callable
from random import Random

import pytest

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.rise import Rise, rise, settled

MINUTE, HOUR = 60_000, 3_600_000
START = 1_700_000_000_000
USUAL = 1_000.0
Shape = Callable[[int], float]


def history(shape: Shape, count: int, load: Shape = lambda _: 0.0, noise: float = 0.01) -> MultiscaleSeries:
    chance, found = Random(2), MultiscaleSeries()
    for n in range(count):
        found.add(Point(START + n * MINUTE, USUAL * shape(n) * math.exp(chance.gauss(0, noise)), 0.0, load(n)))
    return found


def a_rise(shape: Shape, count: int, load: Shape = lambda _: 0.0) -> Rise:
    found = rise(history(shape, count, load), 0.5, 0.01)
    assert found is not None
    return found


def line(flat: int, slope: float = 0.05) -> Shape:
    return lambda n: 1 + slope * max(0, n - flat)


def test_a_level_is_reached_within_a_horizon_only_from_below() -> None:
    straight = a_rise(line(150), 190)
    ahead = straight.reaches_within(6 * USUAL, 2 * HOUR)
    assert ahead is not None
    assert ahead.at - straight.now == pytest.approx(60 * MINUTE, abs=15 * MINUTE)
    assert straight.reaches_within(6 * USUAL, ahead.at - straight.now) == ahead
    assert straight.reaches_within(6 * USUAL, ahead.at - straight.now - 1) is None
    assert straight.reaches_within(straight.level, 2 * HOUR) is None
    assert straight.reaches_within(USUAL, 2 * HOUR) is None


def test_it_is_believed_a_number_of_times_as_far_ahead_as_it_has_been_seen() -> None:
    straight = a_rise(line(150), 190)
    seen = straight.now - straight.points[0].time
    ahead = straight.reaches_within(6 * USUAL, 2 * HOUR)
    assert ahead is not None
    times = (ahead.at - straight.now) / seen
    assert straight.believed(6 * USUAL, 2 * HOUR, times * 1.01)
    assert not straight.believed(6 * USUAL, 2 * HOUR, times * 0.99)
    assert not straight.believed(6 * USUAL, MINUTE, 100.0)


def test_after_a_start_a_curve_is_believed_only_as_far_as_its_line() -> None:
    curve = a_rise(lambda n: math.exp(0.06 * n), 40)
    level = 20 * curve.level
    assert curve.fit.exponential
    established, filling = curve._replace(established=True), curve._replace(established=False)
    # The curve gets there within twice the time that it was seen for, the line takes many times as long.
    assert established.believed(level, 100 * HOUR, 3.0)
    assert not filling.believed(level, 100 * HOUR, 3.0)
    assert filling.believed(level, 100 * HOUR, 60.0)


@pytest.mark.parametrize(
    ("load", "follows"),
    [
        (lambda n: 100 * line(150)(n), True),
        (line(150), True),
        (lambda n: 100 * line(150, 0.01)(n), False),
        (lambda _: 100.0, False),
        (lambda n: 100.0 + n % 2, False),
        (lambda _: 0.0, False),
        (lambda _: -1.0, False),
    ],
)
def test_it_follows_a_load_that_has_grown_about_as_much(load: Shape, follows: bool) -> None:
    assert a_rise(line(150), 190, load).follows_load(1.2) is follows


def test_without_a_load_at_every_point_none_explains_it() -> None:
    assert not a_rise(line(150), 190, lambda n: 0.0 if n == 180 else 100 * line(150)(n)).follows_load(1.2)


def test_what_stays_flat_has_settled_at_its_median_since_the_first_of_the_points_looked_at() -> None:
    flat = settled(history(lambda _: 2.0, 100), 0, [100 * USUAL], HOUR)
    assert flat is not None
    assert flat[0] == pytest.approx(2 * USUAL, rel=0.02)
    assert flat[1] == 31 * MINUTE


def test_what_rises_has_not_settled() -> None:
    assert settled(history(line(0, 0.02), 100), 0, [100 * USUAL], HOUR) is None


def test_what_might_reach_a_level_in_time_has_not_settled_and_with_more_points_it_has() -> None:
    noisy = history(lambda _: 2.0, 100, noise=0.05)
    near = settled(noisy, 0, [2.2 * USUAL], 3 * HOUR)
    assert near is None
    assert settled(noisy, 0, [2.2 * USUAL], MINUTE) is not None
    assert settled(noisy, 0, [], 3 * HOUR) is not None
    after_a_bend = history(lambda n: 2.0 if n > 60 else 1.0 + n / 60, 125, noise=0.05)
    assert settled(after_a_bend, 0, [100 * USUAL], HOUR) is not None


def test_too_few_points_have_not_settled() -> None:
    assert settled(history(lambda _: 2.0, 31), 0, [], HOUR) is None
    assert settled(history(lambda _: 2.0, 32), 0, [], HOUR) is not None
    assert settled(history(lambda _: 2.0, 100), 5, [], HOUR) is None


def test_a_curve_whose_line_never_gets_there_is_not_believed() -> None:
    curve = a_rise(lambda n: math.exp(0.06 * n), 40)
    fit = curve.fit._replace(line=curve.fit.line._replace(slope=-1.0))
    assert curve._replace(fit=fit).reaches(20 * curve.level) is None
