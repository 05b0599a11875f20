"""Maintenance windows: silences that come back every week, such as a nightly redeploy."""

from collections.abc import Iterator
from hashlib import sha256

from pydantic import Field

from detectors.incident import Silenced
from detectors.incidents.silences import at, epoch_ms
from detectors.values.name_pattern import NamePatterns, Pattern, fits
from detectors.values.weekly_hours import WeeklyHours

MAX_WINDOWS = 100
"""Limit for maintenance windows. Every bucket keeps all."""

_AUTHOR = "maintenance"


class MaintenanceWindow(NamePatterns, WeeklyHours):
    """No notifications are sent for incidents that match every pattern, from `begin` to `end` on the given days."""

    kinds: tuple[Pattern, ...] = Field(
        ("*",), min_length=1, description="Patterns for the kind of the incident's cause, one of which must match."
    )
    comment: str = Field(min_length=1, max_length=500, description="Reason for the window, shown in messages.")

    def fits(self, cluster: str, job: str, cause: str) -> bool:
        """Whether the window matches such an incident, regardless of the time."""
        return self.fits_cluster(cluster) and self.fits_job(job) and any(fits(kind, cause) for kind in self.kinds)

    def periods(self, now: int) -> Iterator[tuple[int, int]]:
        """Begin and end (epoch ms) of the window near `now`, at least up to its next one."""
        for begins, ends in self.spans(at(now)):
            yield epoch_ms(begins), epoch_ms(ends)

    def silenced(self, until: int) -> Silenced:
        """The window as the silence in force of an incident."""
        name = sha256(self.model_dump_json().encode()).hexdigest()[:8]
        return Silenced(f"{_AUTHOR}-{name}", until, _AUTHOR, self.comment)
