"""Timeouts as Flink writes them."""

import pytest

from detectors.flink.timeouts import flink_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("60 s", 60_000),
        ("5 min", 300_000),
        ("10000", 10_000),
        ("300000 ms", 300_000),
        ("8s", 8_000),
        ("PT20S", 20_000),
        ("PT1M30S", 90_000),
        ("PT1H", 3_600_000),
        ("1 day", 86_400_000),
        ("2 hours", 7_200_000),
        ("Inf", None),
        ("", None),
        ("PT", None),
    ],
)
def test_durations_are_read_as_flink_writes_them(text: str, ms: int | None) -> None:
    assert flink_duration(text) == ms
