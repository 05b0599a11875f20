"""Clusters that are larger than what is kept of one: which they are, and how many entries were cut.

Old entries make room for new ones all the time. An entry counts as cut when its job or TaskManager was alive.
"""

from typing import NamedTuple

from detectors.incident import Reading

_NAME = "cluster_entries_cut_total"


class EntriesCut(NamedTuple):
    """How many live entries of one cluster have been cut since it was first seen."""

    cluster: str
    what: str
    number: int


def news(cluster: str, before: dict[str, int], now: dict[str, int]) -> tuple[EntriesCut, ...]:
    """The counts to report in the log: the first entry, and each time that the count has ten times as many.

    >>> news("prod", {}, {"jobs": 3}), news("prod", {"jobs": 3}, {"jobs": 9}), news("prod", {"jobs": 9}, {"jobs": 12})
    ((EntriesCut(cluster='prod', what='jobs', number=3),), (), (EntriesCut(cluster='prod', what='jobs', number=12),))
    """
    return tuple(
        EntriesCut(cluster, what, count)
        for what, count in sorted(now.items())
        if what not in before or len(str(count)) > len(str(before[what]))
    )


def readings(cluster: str, cut: dict[str, int], now: int) -> list[Reading]:
    """The counters of one cluster; none for a cluster that was never cut."""
    return [
        Reading(name=_NAME, labels={"cluster": cluster, "what": what}, value=float(count), at=now, type="counter")
        for what, count in sorted(cut.items())
    ]
