"""Which shapes are a rise: the newest stretch that grows for good, and none of all that looks like it for a while."""

import math
from collections.abc import Callable
from random import Random

import pytest

from detectors.numerics.multiscale import MultiscaleSeries, Point
from detectors.numerics.rise import Rise, rise
from detectors.numerics.trend import Crossing

MINUTE, HOUR = 60_000, 3_600_000
START = 1_700_000_000_000
USUAL = 1_000.0
Shape = Callable[[int], float]


def judged(shape: Shape, count: int, step: int = MINUTE, growth: float = 0.5, noise: float = 0.03) -> Rise | None:
    chance, history = Random(1), MultiscaleSeries()
    for n in range(count):
        history.add(Point(START + n * step, USUAL * shape(n) * math.exp(chance.gauss(0, noise))))
    return rise(history, growth, 0.01)


def line(flat: int, growth: float) -> Shape:
    return lambda n: 1 + growth * max(0, n - flat)


RISES: dict[str, tuple[Shape, int]] = {
    "a line from the beginning": (line(0, 0.05), 60),
    "a line after a flat hour": (line(60, 0.05), 100),
    "a curve after a flat hour": (lambda n: math.exp(0.06 * max(0, n - 60)), 100),
    "a slow line over hours": (line(200, 0.004), 600),
    "a steep line of few points": (line(0, 0.5), 14),
    "a line whose newest points have a gap": (lambda n: line(60, 0.05)(n) * (0.6 if n == 97 else 1), 100),
    "a line of small numbers from the beginning": (lambda n: line(0, 0.05)(n) / 10_000, 60),
    "a line of small numbers": (lambda n: line(60, 0.05)(n) / 10_000, 100),
    "a line with a spike in seven": (lambda n: line(40, 0.05)(n) * (4 if n % 7 == 0 else 1), 90),
    "above all days and nights before": (lambda n: 1.3 + 0.3 * math.sin(n / 40) + 0.02 * max(0, n - 700), 900),
}
NONE: dict[str, tuple[Shape, int]] = {
    "too few points": (line(0, 0.2), 11),
    "flat": (line(0, 0), 300),
    "a jump": (lambda n: 3.0 if n > 60 else 1.0, 90),
    "two jumps that lie far back": (lambda n: 1.0 + (n > 40) + (n > 50), 120),
    "a line that has ended": (lambda n: 1 + 0.05 * min(max(0, n - 40), 30), 120),
    "a line that has come back": (lambda n: 1 + 0.1 * max(0, 25 - abs(n - 60)), 110),
    "a fall": (lambda n: 5 - 0.03 * n, 120),
    "day and night": (lambda n: 1.5 + math.sin(n / 40), 900),
    "less growth than asked for": (line(60, 0.005), 120),
    "a line that levels off": (lambda n: 1 + 0.1 * min(n, 28) + 0.03 * max(0, n - 28), 40),
    "spikes that come more often": (lambda n: 5.0 if n > 60 and n % 3 == 0 else 1.0, 100),
}


@pytest.mark.parametrize("what", RISES)
def test_it_is_a_rise(what: str) -> None:
    found = judged(*RISES[what])
    assert found is not None
    assert found.fit.line.low > 0
    assert found.level > 1.5 * found.usual
    assert found.points[0].time <= found.since(0.25) <= found.now


@pytest.mark.parametrize("what", NONE)
def test_it_is_no_rise(what: str) -> None:
    assert judged(*NONE[what]) is None


def test_a_rise_from_a_flat_past_is_established_and_one_since_the_start_is_not() -> None:
    flat, filling = judged(line(150, 0.05), 180), judged(*RISES["a line from the beginning"])
    assert flat is not None
    assert filling is not None
    assert (flat.established, filling.established) == (True, False)
    assert flat.usual == pytest.approx(USUAL, rel=0.1)


def test_the_fit_covers_the_part_that_has_grown_and_not_the_flat_part_before() -> None:
    found = judged(line(60, 0.05), 104)
    assert found is not None
    assert found.points[0].time < START + 60 * MINUTE
    assert found.now == START + 103 * MINUTE
    assert found.fit.line.slope * MINUTE == pytest.approx(0.05 * USUAL, rel=0.08)


def test_only_what_is_clearly_a_curve_is_taken_for_one_since_it_reaches_any_level_soon() -> None:
    curve, straight = judged(*RISES["a curve after a flat hour"]), judged(*RISES["a line after a flat hour"])
    assert curve is not None
    assert straight is not None
    assert (curve.fit.exponential, straight.fit.exponential) == (True, False)
    assert curve.fit.at(curve.now) == pytest.approx(USUAL * math.exp(0.06 * 39), rel=0.15)
    assert straight.fit.at(straight.now) == pytest.approx(USUAL * (1 + 0.05 * 39), rel=0.1)


def test_a_level_is_reached_when_the_line_or_the_curve_gets_there() -> None:
    straight, curve = judged(*RISES["a line after a flat hour"]), judged(*RISES["a curve after a flat hour"])
    assert straight is not None
    assert curve is not None
    reached = straight.reaches(6 * USUAL)
    assert isinstance(reached, Crossing)
    assert reached.at == pytest.approx(START + 160 * MINUTE, abs=15 * MINUTE)
    assert reached.earliest <= reached.at <= reached.latest
    soon = curve.reaches(100 * USUAL)
    assert soon is not None
    assert soon.at == pytest.approx(START + (60 + math.log(100) / 0.06) * MINUTE, abs=15 * MINUTE)
    # The range covers the line, which gets there much later.
    assert soon.latest > soon.at + 5 * HOUR
    assert straight.reaches(USUAL) == (straight.now, straight.now, straight.now)


def test_the_beginning_is_where_the_fit_had_grown_by_so_much_and_now_where_it_has_not() -> None:
    straight = judged(line(60, 0.05), 100, noise=0.0)
    assert straight is not None
    assert straight.since(0.5) == pytest.approx(START + 70 * MINUTE, abs=2 * MINUTE)
    assert straight.since(50.0) == straight.now


def test_the_coarser_scales_are_looked_at_only_when_they_have_another_point() -> None:
    history = MultiscaleSeries()
    shape, found = line(200, 0.004), []
    for n in range(600):
        history.add(Point(START + n * MINUTE, USUAL * shape(n)))
        if rise(history, 0.5, 0.01, only_new=True) is not None:
            found.append(n)
    assert found
    chance = Random(3)
    noisy = MultiscaleSeries()
    seen = []
    for n in range(600):
        noisy.add(Point(START + n * MINUTE, USUAL * shape(n) * math.exp(chance.gauss(0, 0.3))))
        risen = rise(noisy, 0.5, 0.01, only_new=True)
        if risen is not None and risen.scale:
            seen.append(n)
    assert {(n + 1) % 4 for n in seen} <= {0}
    noisy.add(Point(START + 600 * MINUTE, USUAL * shape(600)))
    assert rise(noisy, 0.5, 0.01, only_new=True) is None
    assert rise(noisy, 0.5, 0.01) is not None, "all scales are looked at otherwise"


@pytest.mark.parametrize(("slope", "risen"), [(0.003, False), (0.008, True)])
def test_without_a_past_ten_of_the_newest_twelve_are_a_quarter_above_the_beginning(slope: float, risen: bool) -> None:
    assert (judged(line(0, slope), 60, growth=0.1, noise=0.01) is not None) is risen


def test_a_rise_over_hours_that_fell_back_in_the_last_minutes_is_none() -> None:
    """The coarse scale still rises; the newest values of the finest one have fallen behind it."""
    slow = line(200, 0.004)
    assert judged(slow, 600, noise=0.2) is not None
    assert judged(lambda n: 1.0 if n >= 592 else slow(n), 600, noise=0.2) is None


@pytest.mark.parametrize(("growth", "risen"), [(0.5, True), (1.0, False)])
def test_a_rise_has_grown_by_as_much_as_is_asked_for(growth: float, risen: bool) -> None:
    """By four fifths here, which the quick look would let pass as a doubling."""
    assert (judged(line(60, 0.021), 100, growth=growth) is not None) is risen
