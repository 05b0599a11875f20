"""When an overview is due: days of the week, midnight, and changes of the clocks."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sinks.contract.overview_schedule import OverviewSchedule


def schedule(*at: str, **more: Any) -> OverviewSchedule:
    return OverviewSchedule.model_validate({"name": "shift", "at": at or ("08:00", "20:00"), "to": ["slack"], **more})


def newest(found: OverviewSchedule, now: str) -> str:
    ms = found.newest(int(datetime.fromisoformat(now).timestamp() * 1000))
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="minutes").removesuffix("+00:00")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-11-22T08:00:00Z", "2026-11-22T08:00"),
        ("2026-11-22T07:59:59Z", "2026-11-21T20:00"),
        ("2026-11-22T23:59:59Z", "2026-11-22T20:00"),
    ],
)
def test_the_newest_time_is_the_last_one_that_has_come(now: str, due: str) -> None:
    assert newest(schedule(), now) == due


def test_a_weekly_schedule_is_due_on_its_day_until_the_next_one() -> None:
    weekly = schedule("09:00", days=["mon"])
    assert newest(weekly, "2026-11-23T08:59:00Z") == "2026-11-16T09:00"
    assert newest(weekly, "2026-11-29T23:00:00Z") == "2026-11-23T09:00"


def test_midnight_belongs_to_the_day_that_begins() -> None:
    assert newest(schedule("00:00", days=["mon"]), "2026-11-23T00:00:00Z") == "2026-11-23T00:00"


def test_a_day_is_one_of_the_time_zone() -> None:
    there = schedule("08:00", days=["mon"], time_zone="Pacific/Auckland")
    assert newest(there, "2026-11-22T20:00:00Z") == "2026-11-22T19:00"


def test_local_times_stay_the_same_over_a_change_of_the_clocks() -> None:
    there = schedule("08:00", time_zone="Europe/Berlin")
    assert newest(there, "2026-03-28T12:00:00Z") == "2026-03-28T07:00"
    assert newest(there, "2026-03-29T12:00:00Z") == "2026-03-29T06:00"


def test_a_local_time_that_does_not_exist_is_moved_forward() -> None:
    there = schedule("02:30", time_zone="Europe/Berlin")
    assert newest(there, "2026-03-29T01:29:00Z") == "2026-03-28T01:30"
    assert newest(there, "2026-03-29T12:00:00Z") == "2026-03-29T01:30"


def test_a_local_time_that_comes_twice_counts_once() -> None:
    there = schedule("02:30", time_zone="Europe/Berlin")
    assert newest(there, "2026-10-25T00:30:00Z") == "2026-10-25T00:30"
    assert newest(there, "2026-10-25T01:30:00Z") == "2026-10-25T00:30"


@given(
    st.integers(1_577_836_800, 2_208_988_800),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati"]),
    st.sampled_from(["mon", "sat", "sun"]),
)
def test_the_newest_time_is_at_most_a_week_and_an_hour_ago_and_stays_until_the_next(
    now_s: int, zone: str, day: str
) -> None:
    found, now_ms = schedule("02:30", days=[day], time_zone=zone), now_s * 1000
    due = found.newest(now_ms)
    assert timedelta(0) <= timedelta(milliseconds=now_ms - due) <= timedelta(days=7, hours=1)
    assert found.newest(due) == due


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"at": []}, "at least 1 item"),
        ({"at": [480]}, 'must be a local time in quotes, such as "22:00"'),
        ({"time_zone": "Berlin"}, "unknown time zone 'Berlin'"),
        ({"days": ["monday"]}, "'mon'"),
        ({"name": "Early shift"}, "should match pattern"),
        ({"to": []}, "at least 1 item"),
    ],
)
def test_a_wrong_schedule_is_an_error_that_says_what_is_allowed(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        schedule(**fields)
