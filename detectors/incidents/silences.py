"""Silences: matching incidents are still tracked, but no notifications are sent for them until a given time.

Whether a transition is silenced is decided once, in the stream and by its clock, and a replay decides the same.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from pydantic import AwareDatetime, Field, model_validator

from detectors.incident import Silenced
from detectors.values.name_pattern import NamePatterns, Pattern, fits

MAX_SILENCES = 500
"""Limit for silences from the configuration file, and again for those from the command line. Every bucket keeps all."""


class Silence(NamePatterns):
    """No notifications are sent for incidents that match every pattern, from `begins` until `until`."""

    id: str = Field(
        "", max_length=64, description="ID of the silence. If it is left out, it is derived from the other fields."
    )
    kinds: tuple[Pattern, ...] = Field(
        ("*",), min_length=1, description="Patterns for the kind of the incident's cause, one of which must match."
    )
    begins: AwareDatetime | None = Field(
        None,
        description="Time at which the silence begins, such as 2026-11-21T22:00:00+01:00. If it is left out, the "
        "silence begins at once.",
    )
    until: AwareDatetime = Field(
        description="Time at which the silence ends, such as 2026-11-22T06:00:00+01:00. A notification of each "
        "matching incident that is still open is sent then."
    )
    author: str = Field(min_length=1, max_length=200, description="Person who asked for the silence.")
    comment: str = Field(min_length=1, max_length=500, description="Reason for the silence, shown in messages.")

    @model_validator(mode="after")
    def _lasts_and_is_named(self) -> "Silence":
        if self.begins is not None and self.begins >= self.until:
            raise ValueError(f"ends before it begins: {self.until.isoformat()} is not after {self.begins.isoformat()}")
        if not self.id:
            # The model is frozen for everyone else. The ID depends on the values, not on how they were written.
            begins, until = self.edges()
            rest = self.model_dump(mode="json", exclude={"id", "begins", "until"})
            text = repr((sorted(rest.items()), begins, until))
            object.__setattr__(self, "id", sha256(text.encode()).hexdigest()[:8])
        return self

    def fits(self, cluster: str, job: str, cause: str) -> bool:
        """Whether the silence matches such an incident, regardless of the time."""
        return self.fits_cluster(cluster) and self.fits_job(job) and any(fits(kind, cause) for kind in self.kinds)

    def edges(self) -> tuple[int, int]:
        return (epoch_ms(self.begins) if self.begins is not None else 0), epoch_ms(self.until)

    def ended(self, now: int) -> "Silence":
        """The same silence, which ends at the clock `now`. A pending one has no start then."""
        begins = self.begins if self.edges()[0] < now else None
        return self.model_copy(update={"until": at(now), "begins": begins})

    def periods(self, now: int) -> Iterable[tuple[int, int]]:  # noqa: ARG002 - it has only one, whatever the time is
        """Begin and end of the silence (epoch ms)."""
        return (self.edges(),)

    def silenced(self, until: int) -> Silenced:
        return Silenced(self.id, until, self.author, self.comment)


class Mute(Protocol):
    """What mutes notifications: a silence, or a window that comes back."""

    def fits(self, cluster: str, job: str, cause: str) -> bool: ...
    def periods(self, now: int) -> Iterable[tuple[int, int]]: ...
    def silenced(self, until: int) -> Silenced: ...


def in_force(mutes: Iterable[Mute], cluster: str, job: str, cause: str, now: int) -> Silenced | None:
    """The silence of an incident at the clock `now`. If several match, the one that ends last."""
    found = [
        mute.silenced(until)
        for mute in mutes
        if mute.fits(cluster, job, cause)
        for begins, until in mute.periods(now)
        if begins <= now < until
    ]
    return max(found, key=lambda one: (one.until, one.id), default=None)


def next_edge(mutes: Iterable[Mute], cluster: str, job: str, cause: str, now: int) -> int | None:
    """The next clock time after `now` at which a matching silence begins or ends; None if there is none."""
    fitting = (mute for mute in mutes if mute.fits(cluster, job, cause))
    return min(
        (edge for mute in fitting for period in mute.periods(now) for edge in period if edge > now), default=None
    )


def at(ms: int) -> datetime:
    """An epoch time in ms as a value for `begins` or `until`."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def epoch_ms(time: datetime) -> int:
    """A time as epoch ms."""
    return int(time.timestamp() * 1000)
