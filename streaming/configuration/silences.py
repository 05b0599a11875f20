"""The silences of the configuration file and of the command line, with their states."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from detectors.incident import Transition
from detectors.incidents.silences import Silence
from detectors.settings.live import PublishedSilence
from streaming.configuration.effective import about
from streaming.configuration.topic import ConfigHistory
from streaming.errors import ConfigError

State = Literal["active", "pending", "ended"]
_ORDER = ("active", "pending", "ended")


class SilenceRow(NamedTuple):
    """A silence with its state; `origin` is `configuration` or `command line`.

    `mutes` is the number of open incidents that it matches; None if it is not active or the number is not known.
    """

    id: str
    state: State
    match: str
    begins: str
    until: str
    author: str
    comment: str
    origin: str
    mutes: int | None = None


def listed(history: ConfigHistory, now: int, incidents: Iterable[Transition] | None = None) -> list[SilenceRow]:
    """All silences at `now` (epoch ms): active, pending, then ended ones, each sorted by end."""
    incidents = None if incidents is None else list(incidents)
    published = history.in_force
    found = [(s, "configuration") for s in (published.live().silences if published is not None else ())]
    found += [(s.read(), "command line") for s in history.silences.values()]
    rows = [_listed(silence, origin, now, incidents) for silence, origin in sorted(found, key=lambda f: f[0].until)]
    return sorted(rows, key=lambda row: _ORDER.index(row.state))


def muted(silence: Silence, found: Iterable[Transition]) -> list[Transition]:
    """The open incidents that a silence matches."""
    return [t for t in found if t.transition != "resolved" and silence.fits(t.cluster, t.job_name, t.cause)]


def expired(history: ConfigHistory, wanted: str, now: int) -> Silence:
    """The command line's silence whose id starts with `wanted`, with its end set to now. Raises ConfigError."""
    published = history.in_force
    if published is not None and any(silence.id == wanted for silence in published.live().silences):
        raise ConfigError(
            f"silence {wanted} is in the configuration ({published.hash}, published by {published.by}, origin: "
            f"{published.origin}): remove it from the section `silences`"
        )
    found = [s for i, s in history.silences.items() if wanted and i.startswith(wanted)]
    if len(found) != 1:
        there = ", ".join(row.id for row in listed(history, now) if row.state != "ended")
        active = f"Active and pending silences: {there}." if there else "There are no active silences."
        raise ConfigError(f"{'Several silences start with' if found else 'No silence'} {wanted!r}. {active}")
    return _ended(found[0], now)


def _ended(published: PublishedSilence, now: int) -> Silence:
    silence = published.read()
    if silence.edges()[1] <= now:
        raise ConfigError(f"silence {silence.id} has ended already: {silence.until.isoformat()}")
    return silence.ended(now)


def _listed(silence: Silence, origin: str, now: int, incidents: list[Transition] | None) -> SilenceRow:
    begins, until = silence.edges()
    state: State = "ended" if until <= now else "active" if begins <= now else "pending"
    match, mutes = about(silence, silence.kinds), None
    if incidents is not None and state == "active":
        mutes = len(muted(silence, incidents))
    edges = (_iso(silence.begins) if silence.begins is not None else "", _iso(silence.until))
    return SilenceRow(silence.id, state, match, *edges, silence.author, silence.comment, origin, mutes)


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
