"""Which peaks are usual at a time of the day."""

import pytest

from detectors.numerics.daily_peaks import DailyPeaks

HOUR = 3_600_000
DAY = 24 * HOUR
FIRST = 1_700_000_000_000


def with_peaks(*peaks: tuple[float, float]) -> DailyPeaks:
    """Peaks of (days after the first, level)."""
    known = DailyPeaks()
    for days, level in peaks:
        known.add(FIRST + round(days * DAY), level)
    return known


@pytest.mark.parametrize(
    ("peaks", "usual"),
    [
        ([], 0.0),
        ([(0, 500.0)], 0.0),
        ([(0, 500.0), (1, 700.0)], 500.0),
        ([(0, 100.0), (1, 700.0), (2, 600.0)], 600.0),
        ([(0, 500.0), (0.5, 9_000.0), (1, 700.0), (1.5, 9_000.0)], 500.0),
    ],
)
def test_the_lower_one_of_the_last_two_at_this_time_is_usual(peaks: list[tuple[float, float]], usual: float) -> None:
    assert with_peaks(*peaks).usual(FIRST + 3 * DAY) == usual


@pytest.mark.parametrize(
    ("off", "usual"), [(HOUR, 500.0), (HOUR + 1, 0.0), (-HOUR, 500.0), (-HOUR - 1, 0.0), (DAY // 2, 0.0)]
)
def test_at_this_time_means_within_an_hour(off: int, usual: float) -> None:
    assert with_peaks((0, 500.0), (1, 500.0)).usual(FIRST + 2 * DAY + off) == usual


def test_a_peak_of_the_last_hour_is_not_one_of_an_earlier_day() -> None:
    known = with_peaks((0, 500.0), (1, 500.0))
    assert known.usual(FIRST + DAY + 1) == 0.0


def test_a_dozen_peaks_a_day_do_not_hide_yesterday() -> None:
    known = with_peaks((0, 500.0), *((1 + n / 13, 600.0) for n in range(13)))
    assert known.usual(FIRST + 2 * DAY) == 500.0


def test_only_the_last_sixteen_are_kept() -> None:
    known = with_peaks(*((n, float(n)) for n in range(100)))
    assert [level for _, level in known.peaks] == [float(n) for n in range(84, 100)]
