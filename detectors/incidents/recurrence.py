"""Incidents that come again: the third of a kind on the same job says so, with its period.

A constant period is the mark of a leak (memory that is full after the same time) or of something on a schedule.
TaskManagers change their ids with every restart, so what comes again is told by the job, or by the cluster where no
job is known.
"""

from itertools import pairwise

import msgspec

from detectors.incident import Recurrence
from detectors.numerics.trend import quantile
from detectors.values.durations import humanize

_MAX_PAST = 100
_STEADY = 0.2
_SUFFIX = {1: "st", 2: "nd", 3: "rd"}


class Occurrence(msgspec.Struct, array_like=True):
    """One coming of an incident: `at` is the clock when it opened, or came back after its end; `kind` its cause."""

    incident: str
    at: int
    kind: str
    place: str


def came(past: list[Occurrence], incident: str, at: int) -> None:
    """An incident opens, or is back after it was resolved. Bounded: the oldest is forgotten."""
    past.append(Occurrence(incident, at, "", ""))
    del past[:-_MAX_PAST]


def named(past: list[Occurrence], incident: str, kind: str, place: str) -> None:
    """Its cause and place as they are known now: all its comings are of that kind."""
    for one in past:
        if one.incident == incident:
            one.kind, one.place = kind, place


def recurrence(past: list[Occurrence], incident: str, within: int, at_least: int) -> Recurrence | None:
    """What the last coming of `incident` continues; None below `at_least` comings in the time `within`."""
    last = next((o for o in reversed(past) if o.incident == incident), None)
    if last is None:
        return None
    times = [
        o.at for o in past if o.kind == last.kind and o.place == last.place and last.at - within <= o.at <= last.at
    ]
    if len(times) < at_least:
        return None
    times.sort()
    gaps = [b - a for a, b in pairwise(times)]
    period = round(quantile(gaps, 0.5))
    steady = len(gaps) > 1 and all(abs(gap - period) <= _STEADY * period for gap in gaps)
    return Recurrence(len(times), times[0], period, steady)


def spoken_recurrence(one: Recurrence) -> str:
    """As a person says it.

    >>> spoken_recurrence(Recurrence(3, 0, 46_800_000, True))
    'the 3rd time, every 13 h: a constant period marks a leak or a schedule'
    """
    number = f"{one.count}{'th' if one.count % 100 in (11, 12, 13) else _SUFFIX.get(one.count % 10, 'th')}"
    if one.steady:
        return f"the {number} time, every {humanize(one.period)}: a constant period marks a leak or a schedule"
    return f"the {number} time, most often {humanize(one.period)} apart"
