"""When overviews are sent: an entry of `sinks.overviews`."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field

from detectors.values.weekly_hours import DAYS, Day, TimeOfDay, TimeZone

# A schedule has at least one time in a week; one day more, because a day may have 25 hours.
_WEEK = timedelta(days=8)


class OverviewSchedule(BaseModel):
    """Local times at which an overview is sent. It covers the time since the one before it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]{0,39}$",
        description="Name of the schedule, such as shift or week. It is shown in the message, and flinkwatch remembers "
        "under it what was sent.",
    )
    at: tuple[TimeOfDay, ...] = Field(
        min_length=1, max_length=24, description='Local times at which it is sent, such as ["08:00", "20:00"].'
    )
    days: tuple[Day, ...] = Field(default=DAYS, min_length=1, description="Days on which it is sent.")
    time_zone: TimeZone = "UTC"
    to: tuple[str, ...] = Field(
        min_length=1, description='Receivers that it is sent to: slack, "slack:<channel>" or webhook.'
    )
    send_empty: bool = Field(
        default=True,
        description="Whether to send one line if no incident opened, resolved or is open. If it is set to false, "
        "nothing is sent then.",
    )

    def newest(self, now_ms: int) -> int:
        """The newest of the times that are not after `now_ms`; both are epoch ms.

        A local time that a change of the clocks skips is moved forward; one that comes twice counts once.
        """
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        zone = ZoneInfo(self.time_zone)
        # The day in the time zone may be one ahead of that in UTC.
        first = (now - _WEEK).date()
        days = (first + timedelta(days=n) for n in range(_WEEK.days + 2))
        times = (
            datetime.combine(day, local, zone).astimezone(UTC)
            for day in days
            if DAYS[day.weekday()] in self.days
            for local in self.at
        )
        return int(max(one for one in times if one <= now).timestamp() * 1000)
