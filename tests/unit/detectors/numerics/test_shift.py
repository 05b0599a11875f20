"""The change-point test is scipy's rank-sum test at the best point, and finds steps on every scale, but no trend."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.shift import Shift, change_point, rank_sum, shift

MINUTE, HOUR = 60_000, 3_600_000
values = st.lists(st.integers(-30, 30).map(float), min_size=2, max_size=40)


@given(values, values)
def test_the_rank_sum_test_is_that_of_mann_and_whitney_in_scipy(before: list[float], after: list[float]) -> None:
    assume(len({*before, *after}) > 1)
    known = mannwhitneyu(after, before, alternative="greater", method="asymptotic", use_continuity=True)
    assert rank_sum(before, after) == pytest.approx(known.pvalue, rel=1e-9, abs=1e-300)


def test_equal_values_are_no_change() -> None:
    assert rank_sum([5, 5, 5], [5, 5, 5]) == 1.0


@given(st.lists(st.integers(0, 9).map(float), min_size=8, max_size=64))
def test_the_change_is_the_most_significant_split_times_the_number_of_splits(series: list[float]) -> None:
    found = change_point(series, 4, 3)
    splits = range(4, len(series) - 3 + 1)
    p = {n: rank_sum(series[:n], series[n:]) * len(splits) for n in splits}
    if not p:
        assert found is None
        return
    assert found is not None
    assert found.p == pytest.approx(min(1.0, *p.values()))
    assert min(1.0, p[found.before]) == pytest.approx(found.p)


def test_noise_has_a_change_no_more_often_than_it_may() -> None:
    chance = random.Random(1)
    found = [change_point([chance.gauss(0, 1) for _ in range(64)]) for _ in range(400)]
    assert sum(f is not None and f.p < 0.05 for f in found) <= 0.05 * 400


def series(shape: Callable[[int], float], count: int, sigma: float = 0.1, every: int = MINUTE) -> MultiscaleSeries:
    history, chance = MultiscaleSeries(), random.Random(2)
    for n in range(count):
        history.add(Point(n * every, shape(n) * chance.lognormvariate(0, sigma), 1e6, 100.0))
    return history


def found_in(history: MultiscaleSeries) -> Shift | None:
    return shift(history, 0.5, 0.01, 30 * MINUTE)


@pytest.mark.parametrize("every", [10_000, MINUTE, 10 * MINUTE])
@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.3])
def test_a_step_is_found_with_its_levels_and_its_beginning(every: int, sigma: float) -> None:
    late = range(300, 300 + max(30, 60 * MINUTE // every))
    found = next(f for n in late if (f := found_in(series(lambda n: 20.0 if n < 300 else 60.0, n, sigma, every))))
    assert found.before == pytest.approx(20, rel=0.2)
    assert found.after == pytest.approx(60, rel=0.2)
    assert abs(found.since - 300 * every) <= 64 * every
    assert found.now - found.since >= 30 * MINUTE


def test_a_step_counts_when_it_has_lasted() -> None:
    assert found_in(series(lambda n: 20.0 if n < 200 else 60.0, 225)) is None
    assert found_in(series(lambda n: 20.0 if n < 200 else 60.0, 235)) is not None


@pytest.mark.parametrize(
    "shape",
    [
        lambda n: 20.0,
        lambda n: 20.0 if n < 200 else 26.0,
        lambda n: 60.0 if n < 200 else 20.0,
        lambda n: 60.0 if 200 <= n < 240 else 20.0,
        lambda n: 20.0 + n / 5,
        lambda n: 20.0 * (2 - math.exp(-n / 40)),
        lambda n: 200.0 if n == 250 else 20.0,
        lambda n: 40.0 - 20 * math.cos(n / 60),
    ],
    ids=["level", "small", "down", "back again", "trend", "fills up", "one outlier", "waves"],
)
def test_what_is_no_step_is_none(shape: Callable[[int], float]) -> None:
    history, chance = MultiscaleSeries(), random.Random(3)
    for n in range(320):
        history.add(Point(n * MINUTE, shape(n) * chance.lognormvariate(0, 0.1)))
        assert n < 290 or found_in(history) is None, n


def test_a_level_that_came_every_day_before_is_none() -> None:
    history, chance = MultiscaleSeries(), random.Random(4)
    seen: list[float] = []
    for n in range(5 * 24 * 6):
        day = 8 <= n / 6 % 24 < 20
        history.add(Point(n * 10 * MINUTE, (60.0 if day else 20.0) * chance.lognormvariate(0, 0.1)))
        if found_in(history) is not None:
            seen.append(n / 6 / 24)
    assert seen
    assert all(at < 1 for at in seen)


def test_a_level_below_the_one_that_is_asked_for_is_none() -> None:
    history = series(lambda n: 20.0 if n < 200 else 60.0, 260)
    assert shift(history, 0.5, 0.01, 30 * MINUTE, 50.0) is not None
    assert shift(history, 0.5, 0.01, 30 * MINUTE, 80.0) is None


@pytest.mark.parametrize(("more", "follows"), [(1.0, False), (3.0, True), (1.5, False)])
def test_values_may_have_risen_with_the_load(more: float, follows: bool) -> None:
    history = MultiscaleSeries()
    for n in range(260):
        high = n >= 200
        history.add(Point(n * MINUTE, (60.0 if high else 20.0) + n % 5, 1e6, 100.0 * (more if high else 1)))
    found = found_in(history)
    assert found is not None
    assert found.follows_load(1.2) is follows
    without = found._replace(points=[p._replace(load=-1.0) for p in found.points])
    assert not without.follows_load(1.2)
