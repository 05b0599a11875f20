"""The statistics are those of scipy, and robust where scipy's would not be."""

import math
import random
from statistics import median

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kendalltau, norm, theilslopes

from detectors.numerics.trend import Slope, autocorrelation, crossing, mann_kendall, quantile, theil_sen, thin

wholes = st.integers(-1_000, 1_000).map(float)
series = st.lists(wholes, min_size=3, max_size=70)
timed = st.lists(st.tuples(st.integers(0, 200).map(float), wholes), min_size=3, max_size=70)


@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt")
@given(timed)
def test_slope_intercept_and_interval_are_those_of_scipy(points: list[tuple[float, float]]) -> None:
    times, values = [t for t, _ in points], [v for _, v in points]
    assume(len(set(times)) > 1)
    known = theilslopes(values, times, 0.95)
    fit = theil_sen(times, values)
    assert fit.slope == pytest.approx(known.slope)
    assert fit.intercept == pytest.approx(known.intercept)
    # Where ties outweigh the rest, scipy takes the root of a negative variance.
    if not math.isnan(known.low_slope):
        assert (fit.low, fit.high) == pytest.approx((known.low_slope, known.high_slope))


@given(series)
def test_the_rank_test_is_kendalls_with_a_correction_for_continuity(values: list[float]) -> None:
    assume(len(set(values)) > 1)
    n = len(values)
    score = sum((values[j] > values[i]) - (values[j] < values[i]) for i in range(n) for j in range(i + 1, n))
    known = kendalltau(range(n), values, alternative="greater", method="asymptotic")
    assume(score != 0)
    sigma = score / norm.isf(known.pvalue)
    assume(math.isfinite(sigma))
    assert mann_kendall(values) == pytest.approx(norm.sf((score - 1) / sigma), rel=1e-4, abs=1e-9)


@given(series, st.floats(0, 0.9))
def test_correlated_values_count_as_fewer(values: list[float], correlation: float) -> None:
    independent, p = mann_kendall(values), mann_kendall(values, correlation)
    assume(0 < independent < 1)
    wider = math.sqrt((1 + correlation) / (1 - correlation))
    assert p == pytest.approx(norm.sf(norm.isf(independent) / wider), rel=1e-4, abs=1e-9)


@given(series)
def test_the_correlation_of_neighbours_is_that_of_the_sample(values: list[float]) -> None:
    rest = np.array(values) - np.mean(values)
    assume(float(rest @ rest) > 0)
    assert autocorrelation(values) == pytest.approx(max(0.0, float(rest[1:] @ rest[:-1]) / float(rest @ rest)))


def test_values_that_hardly_vary_are_correlated_and_those_that_do_not_vary_are_not() -> None:
    assert autocorrelation([0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(0.4)
    assert autocorrelation([5.0, 5.0, 5.0]) == 0.0


@given(st.permutations(range(12)))
def test_the_rank_test_is_close_to_the_exact_one_from_ten_values_on(values: list[int]) -> None:
    exact = kendalltau(range(12), values, alternative="greater", method="exact").pvalue
    assert mann_kendall(values) == pytest.approx(exact, abs=0.03)


@given(timed, st.sampled_from([0.001, 1000.0]))
def test_time_units_scale(points: list[tuple[float, float]], unit: float) -> None:
    times, values = [t for t, _ in points], [v for _, v in points]
    one, other = theil_sen(times, values), theil_sen([t * unit for t in times], values)
    assert other.slope * unit == pytest.approx(one.slope)
    assert other.intercept == pytest.approx(one.intercept)


def test_a_quarter_of_wild_points_does_not_turn_the_line() -> None:
    chance = random.Random(7)
    times = list(range(64))
    values = [3.0 * t + chance.gauss(0, 2) for t in times]
    for i in chance.sample(times, 16):
        values[i] = chance.choice([0.0, 5_000.0])
    fit = theil_sen(times, values)
    assert fit.low < 3.0 < fit.high
    assert fit.slope == pytest.approx(3.0, abs=0.3)


def test_points_of_one_time_have_no_slope() -> None:
    assert theil_sen([5, 5, 5], [1, 2, 9]) == Slope(0.0, 2, -math.inf, math.inf)
    assert theil_sen([5], [1]) == Slope(0.0, 1, -math.inf, math.inf)


def test_noise_is_called_a_trend_no_more_often_than_the_p_value_permits() -> None:
    chance = random.Random(11)
    found = sum(mann_kendall([chance.lognormvariate(0, 1) for _ in range(40)]) < 0.05 for _ in range(600))
    assert found <= 600 * 0.05 * 1.5


@given(st.floats(0.01, 100), st.floats(-1_000, 1_000), st.floats(0, 1_000), st.floats(0.01, 1_000_000))
def test_a_line_is_at_the_level_when_it_crosses_it(slope: float, intercept: float, now: float, above: float) -> None:
    line = Slope(slope, intercept, slope / 2, slope * 2)
    found = crossing(line, line.at(now) + above, now)
    assert found is not None
    assert line.at(found.at) == pytest.approx(line.at(now) + above, abs=slope + 1e-6)
    assert now - 1 <= found.earliest <= found.at <= found.latest


def test_a_level_that_is_reached_is_crossed_now_and_a_flat_line_never_crosses() -> None:
    assert crossing(Slope(1.0, 0.0, 0.5, 2.0), 5, now=10) == (10, 10, 10)
    assert crossing(Slope(0.0, 0.0, -1.0, 1.0), 5, now=10) is None
    assert crossing(Slope(-1.0, 0.0, -2.0, -0.5), 5, now=10) is None


def test_the_range_of_a_crossing_turns_the_line_about_its_value_now() -> None:
    assert crossing(Slope(2.0, 0.0, 1.0, 4.0), 100, now=10) == (50, 30, 90)


def test_an_uncertain_slope_gives_a_latest_time_that_is_far_but_finite() -> None:
    found = crossing(Slope(1.0, 0.0, -1.0, 2.0), 100, now=0)
    assert found == (100, 50, 10_000)


@given(st.lists(st.tuples(st.integers(0, 10**13), wholes), max_size=300, unique_by=lambda p: p[0]), st.integers(3, 64))
def test_a_thinned_series_is_a_part_of_it_with_both_ends(points: list[tuple[int, float]], limit: int) -> None:
    points.sort()
    kept = thin(points, limit)
    assert len(kept) == min(limit, len(points))
    assert set(kept) <= set(points)
    assert kept == sorted(kept)
    assert kept[:1] == points[:1]
    assert kept[-1:] == points[-1:]


@given(st.integers(1, 298))
def test_a_spike_stays_in_a_thinned_series(at: int) -> None:
    points = [(t, 1.0) for t in range(300)]
    points[at] = (at, 50.0)
    assert (at, 50.0) in thin(points)


@given(st.lists(wholes, min_size=1))
def test_the_middle_quantile_is_the_median(values: list[float]) -> None:
    assert quantile(values, 0.5) == pytest.approx(median(values))


def test_a_thinned_series_keeps_what_stands_out_against_the_mean_of_the_next_points() -> None:
    # Against the next point alone, which is high, the dip would stand out. The next two are low on average.
    points = [(0, 0.0), (1, 1.0), (2, -1.5), (3, 10.0), (4, -20.0), (5, 0.0)]
    assert thin(points, 4)[1] == (1, 1.0)
