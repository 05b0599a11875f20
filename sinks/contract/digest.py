"""A storm of incidents as one message: counts, and the worst by name.

Built from the ledger's entries, so that it cannot disagree with them and needs no memory of its own.
"""

import heapq
from collections import Counter
from collections.abc import Iterable

import msgspec

from detectors.incident import SEVERITIES, Severity, Transition
from sinks.contract.notified import Whole

PREFIX = "~digest/"
"""Begins the name under which the ledger keeps the digest of a storm; the time it began follows."""

_WORST_SHOWN = 10
_GROUPS_SHOWN = 8


class Folded(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the ledger keeps of an incident that is told in a digest: enough to count and to name it.

    `storm` is when the storm began (epoch ms, wall clock), `since` when the incident opened. `over`: it is resolved;
    `alone`: it has a message of its own since; `old`: it gets none unless it changes.
    """

    storm: Whole
    kind: str
    cluster: str
    job: str
    severity: Severity
    since: Whole
    over: bool = False
    alone: bool = False
    old: bool = False


class Summary(msgspec.Struct, frozen=True):
    """What a digest tells. `kinds` and `clusters` hold the greatest counts of incidents that are still open, `worst`
    their names; every count is complete: what is not listed is in `open`. `silenced` are open, too, but told to nobody.
    """

    storm: int
    total: int
    open: int
    over: int
    alone: int
    severities: dict[Severity, int]
    kinds: list[tuple[str, int]]
    clusters: list[tuple[str, int]]
    worst: list[tuple[str, Folded]]
    silenced: int = 0


def folded(transition: Transition, storm: int, *, old: bool = False) -> Folded:
    """A transition as an incident of a storm."""
    return Folded(
        storm=storm,
        kind=transition.cause,
        cluster=transition.cluster,
        job=transition.job_name or transition.job_id,
        severity=transition.severity,
        since=transition.opened_at or transition.at,
        over=transition.transition == "resolved",
        old=old,
    )


def summarise(storm: int, incidents: Iterable[tuple[str, Folded]], *, silenced: int = 0) -> Summary:
    """The digest of a storm, from the incidents that were folded into it; `silenced` are those left out."""
    total, over, alone = silenced, 0, 0
    kinds, clusters, severities = Counter[str](), Counter[str](), Counter[Severity]()
    still: list[tuple[str, Folded]] = []
    for name, one in incidents:
        total += 1
        if one.over:
            over += 1
        elif one.alone:
            alone += 1
        else:
            still.append((name, one))
            kinds[one.kind] += 1
            clusters[one.cluster] += 1
            severities[one.severity] += 1
    worst = heapq.nsmallest(_WORST_SHOWN, still, key=_badness)
    return Summary(
        storm=storm,
        total=total,
        open=len(still),
        over=over,
        alone=alone,
        severities=dict(severities),
        kinds=kinds.most_common(_GROUPS_SHOWN),
        clusters=clusters.most_common(_GROUPS_SHOWN),
        worst=worst,
        silenced=silenced,
    )


def _badness(named: tuple[str, Folded]) -> tuple[int, int, str]:
    name, one = named
    return -SEVERITIES.index(one.severity), one.since, name


def digest_transition(storm: int, seq: int, at: int) -> Transition:
    """The transition under which a digest goes through outbox and ledger as an incident does."""
    return Transition(
        incident=f"{PREFIX}{storm}",
        seq=seq,
        transition="updated",
        at=at,
        cluster="",
        cause="storm",
        severity="critical",
        summary="",
        findings=[],
        evidence=[],
        opened_at=storm,
    )
