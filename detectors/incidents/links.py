"""The cause graph: which kind of finding explains which, as data.

`relation` is what both findings must share: the job, the TaskManager, the host, or only the cluster. A finding that
does not know its job, TaskManager or host is taken to share it. `within` is how far apart the two may begin, in ms,
in either order: the effect is often seen before its cause.
"""

from typing import Literal

import msgspec

from detectors.incidents.incident import Finding

Relation = Literal["job", "tm", "host", "cluster"]

_MINUTE = 60_000
_FIELD = {"job": "job_id", "tm": "tm_id", "host": "host"}


class Link(msgspec.Struct, frozen=True):
    """`cause` explains `effect`."""

    cause: str
    effect: str
    relation: Relation
    within: int


LINKS: tuple[Link, ...] = (
    Link("late_barrier_acks", "checkpoint_overdue", "job", 60 * _MINUTE),
    Link("taskmanager_lost", "checkpoint_overdue", "cluster", 15 * _MINUTE),
    Link("taskmanager_lost", "late_barrier_acks", "tm", 15 * _MINUTE),
    # Several TaskManagers lost together are one event, whatever took them down.
    Link("taskmanager_lost", "taskmanager_lost", "cluster", 2 * _MINUTE),
)

_BY_KINDS = {(link.cause, link.effect): link for link in LINKS}


def explains(cause: Finding, effect: Finding) -> bool:
    """Whether the graph lets `cause` be the reason for `effect`."""
    link = _BY_KINDS.get((cause.kind, effect.kind))
    return link is not None and abs(cause.since - effect.since) <= link.within and _share(cause, effect, link.relation)


def joined(one: Finding, other: Finding) -> bool:
    """Whether two findings belong to one incident."""
    return explains(one, other) or explains(other, one)


def leading(findings: list[Finding]) -> Finding:
    """The cause: the finding that explains others and is explained by none of another kind; the earliest of several."""
    roots = [f for f in findings if not any(c.kind != f.kind and explains(c, f) for c in findings)]
    return min(roots or findings, key=lambda f: (not any(explains(f, e) for e in findings if e is not f), f.since))


def _share(one: Finding, other: Finding, relation: Relation) -> bool:
    if relation == "cluster":
        return True
    field = _FIELD[relation]
    a, b = one.entity.get(field, ""), other.entity.get(field, "")
    return not a or not b or a == b
