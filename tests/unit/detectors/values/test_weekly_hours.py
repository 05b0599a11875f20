"""Hours that come back every week."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from detectors.values.weekly_hours import WeeklyHours

SATURDAY = datetime(2026, 11, 21, tzinfo=UTC)


def hours(**fields: object) -> WeeklyHours:
    return WeeklyHours.model_validate({"begin": "22:00", "end": "06:00"} | fields)


@pytest.mark.parametrize(
    ("at", "until"),
    [("21:59", None), ("22:00", "2026-11-22T06:00"), ("05:59", "2026-11-21T06:00"), ("06:00", None)],
)
def test_hours_over_midnight_belong_to_the_day_on_which_they_begin(at: str, until: str | None) -> None:
    hour, minute = map(int, at.split(":"))
    found = hours().until(SATURDAY.replace(hour=hour, minute=minute))
    assert (found and f"{found:%Y-%m-%dT%H:%M}") == until


def test_only_the_days_that_are_named_count() -> None:
    assert hours(days=["fri"]).until(SATURDAY.replace(hour=23)) is None
    assert hours(days=["fri"]).until(SATURDAY.replace(hour=5)) is not None


def test_the_next_hours_are_always_among_the_spans() -> None:
    begins = [begin for begin, _ in hours(days=["fri"]).spans(SATURDAY.replace(hour=7)) if begin > SATURDAY]
    assert begins == [datetime(2026, 11, 27, 22, tzinfo=UTC)]


def test_local_time_counts_over_a_change_of_daylight_saving() -> None:
    berlin = hours(begin="02:00", end="04:00", time_zone="Europe/Berlin")
    spans = list(berlin.spans(datetime(2026, 10, 25, 12, tzinfo=UTC)))
    assert {(begin.hour, end.hour) for begin, end in spans} == {(0, 2), (0, 3), (1, 3)}


@pytest.mark.parametrize("wrong", [{"time_zone": "Mars/Base"}, {"end": "22:00"}, {"begin": 1320}])
def test_wrong_hours_are_an_error(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        hours(**wrong)
