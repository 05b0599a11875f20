"""Silences as they stand in the configuration and as they were made on the command line."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal, NamedTuple

from detectors.incident import Transition
from detectors.incidents.silences import Silence, at
from detectors.settings.live import PublishedSilence
from streaming.cli.silenced_incidents import muted
from streaming.configuration.effective import about
from streaming.configuration.topic import ConfigHistory
from streaming.errors import ConfigError

State = Literal["active", "pending", "ended"]


class SilenceRow(NamedTuple):
    """A silence with its state; `origin` is `configuration`, or `command line`.

    `mutes` are how many open incidents it matches: None for one that is not active, or where that is not known.
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
    """All there are at `now` (epoch ms): those in force first, by their end."""
    incidents = None if incidents is None else list(incidents)
    published = history.in_force
    found = [(s, "configuration") for s in (published.live().silences if published is not None else ())]
    found += [(s.read(), "command line") for s in history.silences.values()]
    order = ("active", "pending", "ended")
    rows = [_listed(silence, origin, now, incidents) for silence, origin in sorted(found, key=lambda f: f[0].until)]
    return sorted(rows, key=lambda row: order.index(row.state))


def expired(history: ConfigHistory, wanted: str, now: int) -> Silence:
    """The silence of the command line whose id begins with `wanted`, ended now. Raises ConfigError."""
    published = history.in_force
    for silence in published.live().silences if published is not None else ():
        if published is not None and silence.id == wanted:
            raise ConfigError(
                f"silence {wanted} is in the configuration ({published.hash}, published by {published.by}, origin: "
                f"{published.origin}), under `silences`: remove it there"
            )
    found = [s for i, s in history.silences.items() if wanted and i.startswith(wanted)]
    if len(found) != 1:
        there = ", ".join(row.id for row in listed(history, now) if row.state != "ended")
        active = f"Not ended are: {there}." if there else "There are no active silences."
        raise ConfigError(f"{'Several silences begin with' if found else 'No silence'} {wanted!r}. {active}")
    return _ended(found[0], now)


def _ended(published: PublishedSilence, now: int) -> Silence:
    silence = published.read()
    begins, until = silence.edges()
    if until <= now:
        raise ConfigError(f"silence {silence.id} has ended already: {silence.until.isoformat()}")
    # One that has not begun loses its beginning: it cannot end before it.
    return silence.model_copy(update={"until": at(now), "begins": silence.begins if begins < now else None})


def _listed(silence: Silence, origin: str, now: int, incidents: list[Transition] | None) -> SilenceRow:
    begins, until = silence.edges()
    state: State = "ended" if until <= now else "active" if begins <= now else "pending"
    return SilenceRow(
        silence.id,
        state,
        about(silence, silence.kinds),
        _iso(silence.begins) if silence.begins is not None else "",
        _iso(silence.until),
        silence.author,
        silence.comment,
        origin,
        len(muted(silence, incidents)) if incidents is not None and state == "active" else None,
    )


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
