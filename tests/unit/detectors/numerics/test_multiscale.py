"""The past of a series: what a scale keeps is medians of four of the finer one, within the digits it has."""

import math
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.numerics.multiscale import WINDOW, MultiscaleSeries, Point

START = 1_700_000_000_000
values = st.floats(0.01, 1e9)
points = st.lists(
    st.tuples(st.integers(0, 600_000), values, st.one_of(st.just(-1.0), st.floats(1, 1e12)), st.floats(1, 1e6)),
    min_size=1,
    max_size=300,
)


def added(given: list[tuple[int, float, float, float]]) -> tuple[MultiscaleSeries, list[Point]]:
    history, known, time = MultiscaleSeries(), [], START
    for gap, *rest in given:
        time += gap
        known.append(Point(time, *rest))
        history.add(known[-1])
    return history, known


def same(found: list[Point], expected: list[Point], depth: int) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        # Each scale cuts times to 10 ms, and medians of four halve what lies between.
        assert abs(one.time - other.time) <= 10 * (depth + 1)
        assert one.value == pytest.approx(other.value, rel=1e-5)
        for a, b in ((one.size, other.size), (one.load, other.load)):
            assert a == pytest.approx(b, rel=5e-3) if b >= 1 else a == -1.0


@settings(max_examples=60, deadline=None)
@given(points)
def test_each_scale_has_the_last_64_medians_of_four_of_the_finer_one(
    given: list[tuple[int, float, float, float]],
) -> None:
    history, _ = added([(gap, value, -1.0, load) for gap, value, _, load in given])
    finer = added([(gap, value, -1.0, load) for gap, value, _, load in given])[1]
    for scale in range(len(history.scales)):
        same(history.points(scale), finer[-WINDOW:], scale)
        assert history.scales[scale].waiting == len(finer) % 4
        fours = [finer[i : i + 4] for i in range(0, len(finer) - 3, 4)]
        finer = [
            Point(round(median(p.time for p in f)), median(p.value for p in f), -1.0, median(p.load for p in f))
            for f in fours
        ]
    assert finer == []


@settings(max_examples=60, deadline=None)
@given(points)
def test_the_newest_points_are_as_they_were_measured(given: list[tuple[int, float, float, float]]) -> None:
    history, known = added(given)
    same(history.points(0), known[-WINDOW:], 0)
    same(history.points(0, 5), known[-5:], 0)
    assert history.scales[0].values() == [p.value for p in history.points(0)]
    assert history.last == known[-1].time
    assert history.time(0, -1) == history.points(0)[-1].time
    assert history.points(len(history.scales)) == []


@settings(max_examples=60, deadline=None)
@given(points, st.integers(-1, 64), st.sampled_from([-10, -1, 0, 1, 10]))
def test_what_was_before_a_time_is_what_has_a_lower_one(
    given: list[tuple[int, float, float, float]], place: int, off: int
) -> None:
    history, _ = added(given)
    own = history.points(0)
    time = own[min(place, len(own) - 1)].time + off
    assert history.before(0, time) == [p.value for p in own if p.time < time]


@pytest.mark.parametrize(
    ("value", "kept"), [(0.0, 1e-3), (-5.0, 1e-3), (1e-3, 1e-3), (2e38, 2e38), (1e300, 3e38), (math.inf, 3e38)]
)
def test_values_beyond_what_is_kept_are_the_least_or_the_most(value: float, kept: float) -> None:
    history = MultiscaleSeries()
    history.add(Point(START, value))
    assert history.points(0)[0].value == pytest.approx(kept)


@pytest.mark.parametrize(("size", "kept"), [(-1.0, -1.0), (0.0, -1.0), (0.99, -1.0), (1.0, 1.0), (1e300, 4.6e40)])
def test_sizes_below_one_are_not_known_and_the_largest_have_a_bound(size: float, kept: float) -> None:
    history = MultiscaleSeries()
    history.add(Point(START, 1.0, size))
    assert history.points(0)[0].size == pytest.approx(kept, rel=0.05)


def test_a_history_that_spans_more_than_its_times_hold_begins_again() -> None:
    longest = ((1 << 32) - 1) * 10
    history, _ = added([(0, 1.0, -1.0, 1.0), (longest, 2.0, -1.0, 1.0)])
    assert [p.value for p in history.points(0)] == [1.0, 2.0]
    assert history.points(0)[1].time == START + longest
    history, _ = added([(0, 1.0, -1.0, 1.0), (longest + 1, 2.0, -1.0, 1.0)])
    assert [p.value for p in history.points(0)] == [2.0]


def test_eight_scales_are_kept_and_all_of_them_are_forgotten_together() -> None:
    history = MultiscaleSeries()
    for n in range(4**8 + 4):
        history.add(Point(START + n * 1_000, 1.0))
    assert len(history.scales) == 8
    history.clear()
    assert (history.scales, history.last < 0) == ([], True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 600_000), max_size=400))
def test_the_history_is_bounded_and_in_order(values: list[int]) -> None:
    history = MultiscaleSeries()
    for i, value in enumerate(values):
        history.add(Point(i, value))
    assert sum(map(len, history.scales)) <= 8 * WINDOW
    for own in history.scales:
        assert len(own.sizes) == len(own.loads) == 2 * len(own)
    assert len(history.points(0)) == min(len(values), WINDOW)
    for scale in range(len(history.scales)):
        points = history.points(scale)
        assert [p.time for p in points] == sorted(p.time for p in points)
        assert all(min(values) <= p.value <= max(values) for p in points)


def test_a_series_that_was_cleared_may_begin_earlier() -> None:
    history, _ = added([(0, 1.0, -1.0, -1.0)])
    history.clear()
    history.add(Point(START - 90_000, 2.0))
    assert [(p.time, p.value) for p in history.points(0)] == [(START - 90_000, 2.0)]


def test_the_smallest_size_and_load_are_exact() -> None:
    history, _ = added([(0, 1.0, 1.0, 1.0)])
    (point,) = history.points(0)
    assert (point.size, point.load) == (1.0, 1.0)
