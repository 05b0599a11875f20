"""Recurring incidents: from the third incident of a kind on the same job, the notification has count and period.

A constant period points to a leak (memory is full after the same time) or to something on a schedule. TaskManagers
change their IDs with every restart, so occurrences are grouped by job, or by cluster if no job is known.
"""

from itertools import pairwise
from statistics import median

import msgspec

from detectors.incident import Recurrence
from detectors.values.durations import humanize

_MAX_PAST = 100
# A gap that differs from the median by no more than this share still counts as the same period.
_STEADY = 0.2
_SUFFIX = {1: "st", 2: "nd", 3: "rd"}


class Occurrence(msgspec.Struct, array_like=True):
    """One incident: `at` is the clock when it opened, `kind` is its cause."""

    incident: str
    at: int
    kind: str
    place: str


def record_occurrence(past: list[Occurrence], incident: str, at: int) -> None:
    """Adds an incident that opens. One that reopens is no other incident."""
    past.append(Occurrence(incident, at, "", ""))
    del past[:-_MAX_PAST]


def set_cause(past: list[Occurrence], incident: str, kind: str, place: str) -> None:
    """Sets the cause and place of the incident that are known by now."""
    for one in past:
        if one.incident == incident:
            one.kind, one.place = kind, place


def recurrence(past: list[Occurrence], incident: str, within: int, at_least: int) -> Recurrence | None:
    """Count and period at `incident`; None below `at_least` incidents like it in `within` ms."""
    last = next((o for o in reversed(past) if o.incident == incident), None)
    if last is None:
        return None
    alike = (o.at for o in past if (o.kind, o.place) == (last.kind, last.place))
    times = sorted(at for at in alike if last.at - within <= at <= last.at)
    if len(times) < at_least:
        return None
    gaps = [b - a for a, b in pairwise(times)]
    period = round(median(gaps))
    steady = len(gaps) > 1 and all(abs(gap - period) <= _STEADY * period for gap in gaps)
    return Recurrence(len(times), times[0], period, steady)


def recurred(past: list[Occurrence], incident: str, since: int) -> list[int]:
    """The times of later incidents like this one since a clock time."""
    one = next((o for o in past if o.incident == incident), None)
    if one is None:
        return []
    alike = (o.at for o in past if o.incident != incident and (o.kind, o.place) == (one.kind, one.place))
    return sorted(at for at in alike if at >= since)


def humanize_recurrence(one: Recurrence) -> str:
    """Count and period for a message.

    >>> humanize_recurrence(Recurrence(3, 0, 46_800_000, True))
    '3rd occurrence, every 13 h (a constant period suggests a leak or a schedule)'
    """
    number = f"{one.count}{'th' if one.count % 100 in (11, 12, 13) else _SUFFIX.get(one.count % 10, 'th')}"
    why = " (a constant period suggests a leak or a schedule)" if one.steady else ""
    return f"{number} occurrence, {'' if one.steady else 'about '}every {humanize(one.period)}{why}"
