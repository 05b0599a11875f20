"""The chart of a finding: all of a series is in the picture, in words too, and no number breaks it."""

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Forecast, Series
from sinks.web.chart import draw_chart
from tests.unit.sinks.samples import SINCE
from tests.unit.sinks.web.page_samples import MINUTE, numbers

TIMES = st.one_of(st.integers(-(2**60), 2**60), st.integers(SINCE, SINCE + 10_000_000))
POINTS = st.lists(st.tuples(TIMES, st.floats()), max_size=80)
AHEAD = Forecast("it expires", SINCE + 15 * MINUTE, SINCE + 14 * MINUTE, SINCE + 17 * MINUTE)


def parts(html: str, name: str) -> list[str]:
    return re.findall(rf'class="{name}"', html)


def test_points_limit_trend_failures_forecast_and_changes_are_drawn() -> None:
    html = draw_chart(numbers(12), AHEAD, [SINCE, SINCE + MINUTE])
    counts = {name: len(parts(html, name)) for name in ("dot", "limit", "fit", "failed", "band", "ahead", "change")}
    assert counts == {"dot": 12, "limit": 1, "fit": 1, "failed": 1, "band": 1, "ahead": 1, "change": 2}


def test_who_cannot_see_it_reads_the_same_numbers() -> None:
    words = re.search(r"<desc.*?>(.*?)</desc>", draw_chart(numbers(12)))
    assert words is not None
    assert "first 1 s, last 4.667 s; lowest 1 s, highest 4.667 s; limit 30 s; failed at 14:06:24 UTC: 20 s." in words[1]


def test_values_have_the_unit_that_fits() -> None:
    series = Series("heap", "bytes", [(SINCE, 3e9), (SINCE + MINUTE, 4e9)], threshold=8e9)
    assert "heap, GB" in draw_chart(series)
    assert "limit 7.451 GB" in draw_chart(series)


@pytest.mark.parametrize("far", [1e9, float("inf"), -1e12])
def test_a_limit_far_away_is_named_and_does_not_flatten_the_curve(far: float) -> None:
    html = draw_chart(Series("age", "", [(SINCE, 1.0), (SINCE + MINUTE, 2.0)], threshold=far))
    assert not parts(html, "limit")
    assert ("outside the chart" in html) == (abs(far) < float("inf"))


def test_a_forecast_far_away_is_named() -> None:
    late = Forecast("the heap is full", SINCE + 10**9, SINCE + 10**9, SINCE + 10**9)
    html = draw_chart(numbers(12), late)
    assert not parts(html, "band")
    assert "the heap is full, 2026-03-13 03:48:04 UTC (outside the chart)" in html


def test_a_series_of_which_nothing_can_be_drawn_has_no_chart() -> None:
    assert draw_chart(Series("x", "s", [(SINCE, float("nan")), (-5, 1.0)])) == ""


def test_labels_of_the_axis_of_time_are_whole_steps() -> None:
    html = draw_chart(numbers(12))
    assert re.findall(r'text-anchor="middle">(.*?)<', html) == ["14:02", "14:04", "14:06", "14:08", "14:10", "14:12"]


@settings(max_examples=50, deadline=None)
@given(POINTS, POINTS, POINTS, st.none() | st.floats(), TIMES, TIMES, TIMES)
def test_whatever_the_numbers_the_picture_is_well_formed_and_inside_its_frame(
    points: list[tuple[int, float]],
    fit: list[tuple[int, float]],
    failed: list[tuple[int, float]],
    limit: float | None,
    at: int,
    earliest: int,
    latest: int,
) -> None:
    series = Series("a < b & c", "s", points, threshold=limit, fit=fit, failed=failed)
    html = draw_chart(series, Forecast("then", at, earliest, latest), [at, earliest, SINCE])
    if not html:
        return
    picture = ET.fromstring(html)
    places = [float(one.get(key, "0")) for one in picture.iter("circle") for key in ("cx", "cy")]
    assert all(0 <= place <= 480 for place in places)
    assert "nan" not in html
    assert "inf" not in html
    assert len(html) < 20_000
