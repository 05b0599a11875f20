"""A storm of incidents as one message: counts, and the worst by name.

It is built from the notification log's entries, so it cannot disagree with them and needs no memory of its own.
"""

import heapq
from collections import Counter
from collections.abc import Iterable

import msgspec

from detectors.incident import SEVERITIES, Severity, Transition
from sinks.contract.notified import Whole

PREFIX = "~digest/"
"""First part of the name of a storm's digest in the notification log; the time at which the storm began follows."""

_WORST_SHOWN = 10
_GROUPS_SHOWN = 8


class Folded(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the notification log keeps of an incident that a digest reports: enough to count and to name it.

    `storm` is when the storm began (epoch ms, wall clock), `since` when the incident opened. `has_own_message`: a
    message of its own reports it by now. `backlog`: it gets none unless it changes.
    """

    storm: Whole
    kind: str
    cluster: str
    job: str
    severity: Severity
    since: Whole
    resolved: bool = False
    has_own_message: bool = False
    backlog: bool = False


class Summary(msgspec.Struct, frozen=True):
    """What a digest reports. `kinds` and `clusters` hold the largest counts of incidents that are still open, `worst`
    their names. Every count is complete: `open` includes what is not listed. `silenced` are open, too, but not sent.
    """

    storm: int
    total: int
    open: int
    resolved: int
    with_own_message: int
    severities: dict[Severity, int]
    kinds: list[tuple[str, int]]
    clusters: list[tuple[str, int]]
    worst: list[tuple[str, Folded]]
    silenced: int = 0


def folded(transition: Transition, storm: int, *, backlog: bool = False) -> Folded:
    return Folded(
        storm=storm,
        kind=transition.cause,
        cluster=transition.cluster,
        job=transition.job_name or transition.job_id,
        severity=transition.severity,
        since=transition.opened_at or transition.at,
        resolved=transition.transition == "resolved",
        backlog=backlog,
    )


def summarise(storm: int, incidents: Iterable[tuple[str, Folded]], *, silenced: int = 0) -> Summary:
    """The digest of a storm, from the incidents that were folded into it; `silenced` are those left out."""
    named = list(incidents)
    still = [(name, one) for name, one in named if not one.resolved and not one.has_own_message]
    resolved = sum(one.resolved for _, one in named)
    return Summary(
        storm=storm,
        total=len(named) + silenced,
        open=len(still),
        resolved=resolved,
        with_own_message=len(named) - len(still) - resolved,
        severities=dict(Counter(one.severity for _, one in still)),
        kinds=Counter(one.kind for _, one in still).most_common(_GROUPS_SHOWN),
        clusters=Counter(one.cluster for _, one in still).most_common(_GROUPS_SHOWN),
        worst=heapq.nsmallest(_WORST_SHOWN, still, key=_badness),
        silenced=silenced,
    )


def _badness(named: tuple[str, Folded]) -> tuple[int, int, str]:
    name, one = named
    return -SEVERITIES.index(one.severity), one.since, name
