"""Clusters with more jobs or TaskManagers than flinkwatch keeps, and how many entries were cut from their state.

New entries always replace old ones. An entry counts as cut only if its job or TaskManager was alive.
"""

from typing import NamedTuple

from detectors.incident import Reading

_NAME = "cluster_entries_cut_total"


class EntriesCut(NamedTuple):
    """Number of live entries of one cluster that were cut since it was first seen; `what` is jobs or taskmanagers."""

    cluster: str
    what: str
    number: int


def news(cluster: str, before: dict[str, int], now: dict[str, int]) -> tuple[EntriesCut, ...]:
    """The counts to log: the first one, and whenever a count has gained a decimal digit.

    >>> news("prod", {"jobs": 3}, {"jobs": 9}), news("prod", {"jobs": 9}, {"jobs": 12})
    ((), (EntriesCut(cluster='prod', what='jobs', number=12),))
    """
    return tuple(
        EntriesCut(cluster, what, count)
        for what, count in sorted(now.items())
        if what not in before or len(str(count)) > len(str(before[what]))
    )


def readings(cluster: str, cut: dict[str, int], now: int) -> list[Reading]:
    """The counters of one cluster; empty if nothing was cut."""
    return [
        Reading(name=_NAME, labels={"cluster": cluster, "what": what}, value=float(count), at=now, type="counter")
        for what, count in sorted(cut.items())
    ]
