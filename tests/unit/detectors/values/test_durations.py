"""Durations as Flink writes them."""

import pytest

from detectors.values.durations import flink_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        *(("30 s", 30_000), ("10min", 600_000), ("600000", 600_000), ("5 minutes", 300_000), ("2h", 7_200_000)),
        *(("1 day", 86_400_000), ("7 ms", 7), ("'3 sec'", 3_000), (' "4 hours" ', 14_400_000), ("9 millis", 9)),
        *(("60 s", 60_000), ("5 min", 300_000), ("10000", 10_000), ("300000 ms", 300_000), ("8s", 8_000)),
        *(("PT20S", 20_000), ("PT1M30S", 90_000), ("PT1H", 3_600_000), ("PT1M", 60_000), ("P1DT0.5S", 86_400_000)),
        *(("Inf", 0), ("PT", 0), ("", 0), ("s", 0), ("5 weeks", 0), ("-5 s", 0), ("1234567890123", 0)),
    ],
)
def test_a_duration_is_read_as_flink_writes_it(text: str, ms: int) -> None:
    assert flink_duration(text) == ms
