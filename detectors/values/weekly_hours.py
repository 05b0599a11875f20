"""Hours that come back every week, in a time zone: quiet hours, maintenance windows."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_TIME = re.compile(r"\d{2}:\d{2}(:\d{2})?")


def _as_text(value: Any) -> Any:
    # YAML reads 22:00 without quotes as the number 1320, which pydantic would accept as 22 minutes after midnight.
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError('must be a local time in quotes, such as "22:00"')
    return value


def _known_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {value!r}; write a name such as Europe/Berlin or UTC") from None
    return value


TimeOfDay = Annotated[time, BeforeValidator(_as_text)]
TimeZone = Annotated[
    str, AfterValidator(_known_zone), Field(description="Time zone of the local times, such as Europe/Berlin.")
]

_AHEAD = 8
"""Days, after which the same hours have come at least once more."""


class WeeklyHours(BaseModel):
    """From `begin` to `end` on some days of the week."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    begin: TimeOfDay = Field(description='Local time at which the hours begin, such as "22:00".')
    end: TimeOfDay = Field(
        description="Local time at which they end. If it is before `begin`, that is on the next day."
    )
    days: tuple[Day, ...] = Field(default=DAYS, min_length=1, description="Days on which they begin.")
    time_zone: TimeZone = "UTC"

    @model_validator(mode="after")
    def _it_lasts(self) -> Self:
        if self.begin == self.end:
            raise ValueError("begin and end must differ")
        return self

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """(Begin, end) in UTC of the hours that may be in force at `now` (aware) and of those of the next week."""
        zone = ZoneInfo(self.time_zone)
        today = now.astimezone(zone).date()
        # Hours that began yesterday may still be in force.
        for day in (today + timedelta(days=n) for n in range(-1, _AHEAD)):
            if DAYS[day.weekday()] in self.days:
                begins = datetime.combine(day, self.begin, zone)
                ends = datetime.combine(day if self.end > self.begin else day + timedelta(days=1), self.end, zone)
                # Compared in UTC, because local times are ambiguous at a change to or from daylight saving time.
                yield begins.astimezone(UTC), ends.astimezone(UTC)

    def until(self, now: datetime) -> datetime | None:
        """The end of the hours in force at `now` (aware), None if there are none."""
        return max((ends for begins, ends in self.spans(now) if begins <= now < ends), default=None)
