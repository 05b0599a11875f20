"""Silences: incidents that are followed as ever, and told to nobody until a time.

They are part of the stream, like the rest of the configuration: which transition was silenced is decided once, by the
stream's clock, and a replay decides the same.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256

from pydantic import AwareDatetime, Field, model_validator

from detectors.incident import Silenced
from detectors.values.name_pattern import NamePatterns, Pattern, fits

MAX_SILENCES = 500
"""Of the configuration, and of the command line: every bucket of clusters keeps them all."""


class Silence(NamePatterns):
    """Incidents that fit every pattern are told to nobody from `begins` until `until`."""

    id: str = Field("", max_length=64, description="Its name; without one it is made from the rest.")
    kinds: tuple[Pattern, ...] = Field(("*",), min_length=1, description="Patterns of the kind of the cause.")
    begins: AwareDatetime | None = Field(
        None, description="When it begins, such as 2026-11-21T22:00:00+01:00; without it at once."
    )
    until: AwareDatetime = Field(description="When it ends, such as 2026-11-22T06:00:00+01:00.")
    author: str = Field(min_length=1, max_length=200, description="Who wants it.")
    comment: str = Field(min_length=1, max_length=500, description="Why.")

    @model_validator(mode="after")
    def _lasts(self) -> "Silence":
        if self.begins is not None and self.begins >= self.until:
            raise ValueError(f"ends before it begins: {self.until.isoformat()} is not after {self.begins.isoformat()}")
        return self

    @model_validator(mode="after")
    def _named(self) -> "Silence":
        if not self.id:
            # Frozen for all others: the name is made from what was read, however it was written.
            begins, until = self.edges()
            rest = self.model_dump(mode="json", exclude={"id", "begins", "until"})
            text = repr((sorted(rest.items()), begins, until))
            object.__setattr__(self, "id", sha256(text.encode()).hexdigest()[:8])
        return self

    def fits(self, cluster: str, job: str, cause: str) -> bool:
        """Whether it is about such an incident, whatever the time."""
        return self.fits_cluster(cluster) and self.fits_job(job) and any(fits(kind, cause) for kind in self.kinds)

    def edges(self) -> tuple[int, int]:
        """When it begins and ends, epoch ms."""
        return (_ms(self.begins) if self.begins is not None else 0), _ms(self.until)

    def silenced(self) -> Silenced:
        """What a transition under it carries."""
        return Silenced(self.id, self.edges()[1], self.author, self.comment)


def in_force(silences: Iterable[Silence], cluster: str, job: str, cause: str, now: int) -> Silenced | None:
    """The silence of an incident at the clock `now`: of several the one that lasts longest."""
    found = [s for s in silences if (edges := s.edges())[0] <= now < edges[1] and s.fits(cluster, job, cause)]
    return max(found, key=lambda s: (s.until, s.id)).silenced() if found else None


def next_edge(silences: Iterable[Silence], cluster: str, job: str, cause: str, now: int) -> int | None:
    """The next clock time after `now` at which a silence of such an incident begins or ends."""
    edges = [edge for s in silences if s.fits(cluster, job, cause) for edge in s.edges() if edge > now]
    return min(edges, default=None)


def at(ms: int) -> datetime:
    """An epoch time as the field of a silence."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)
