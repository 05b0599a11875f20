"""What several kinds about one process share."""

from detectors.patterns.per_process import recurrence
from tests.unit.detectors.story import HOUR


def test_a_constant_period_is_reported() -> None:
    assert recurrence([0, HOUR]) == ""
    assert recurrence([0, HOUR, 2 * HOUR]).startswith("; 3 times so far, every 1 h: a constant period")
    assert recurrence([0, HOUR, 5 * HOUR]) == "; 3 times so far, not regularly"
