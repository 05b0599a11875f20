"""The cause graph: which kind of finding explains which, as data.

`relation` is what both findings must share: the job, the TaskManager, the host, or only the cluster. A finding that
does not know its job, TaskManager or host is taken to share it. `within` is how far apart the two may begin, in ms,
in either order: the effect is often seen before its cause.
"""

from collections.abc import Collection
from typing import Literal

import msgspec

from detectors.events.hosts import short
from detectors.incident import SEVERITIES, Finding

Relation = Literal["job", "tm", "host", "cluster"]

_MINUTE = 60_000
FIELD = {"job": "job_id", "tm": "tm_id", "host": "host"}
"""The field of an entity in which the two findings of a relation must agree."""


class Link(msgspec.Struct, frozen=True):
    """`cause` explains `effect`; `critical`: only when the cause has become critical."""

    cause: str
    effect: str
    relation: Relation
    within: int
    critical: bool = False


def _chain(causes: str, effects: str, relation: Relation, minutes: int) -> tuple[Link, ...]:
    return tuple(Link(c, e, relation, minutes * _MINUTE) for c in causes.split() for e in effects.split())


_OUT_OF_MEMORY = "memory_limit_kill direct_memory_exhaustion metaspace_exhaustion"
_CHECKPOINTS = "checkpoint_overdue checkpoint_failing checkpoint_duration_creep"

LINKS: tuple[Link, ...] = (
    # Data in the way of barriers: slow input, late acknowledgements, expiry, restarts
    # Backpressure lasts for hours before it is felt. Late acknowledgements prove the same and say where: they lead.
    *_chain("backpressure", f"{_CHECKPOINTS} restart_loop", "job", 24 * 60),
    *_chain("late_barrier_acks", "backpressure", "job", 24 * 60),
    *_chain("late_barrier_acks", f"{_CHECKPOINTS} restart_loop", "job", 60),
    *_chain("checkpoint_duration_creep", "checkpoint_overdue checkpoint_failing", "job", 24 * 60),
    *_chain("checkpoint_overdue", "checkpoint_failing", "job", 60),
    # The restart that too many failed checkpoints bring reads from the storage that did not take them.
    *_chain("checkpoint_failing", "restart_loop restore_failed", "job", 60),
    # Memory
    # A leak takes months to fill a heap. Many go on for ever without doing so: a loss of which nobody says that it was
    # for memory is the leak's only when the heap was seen to fill.
    *_chain("zero_input_leak", "heap_exhaustion memory_limit_kill", "tm", 120 * 24 * 60),
    Link("zero_input_leak", "taskmanager_lost", "tm", 120 * 24 * 60 * _MINUTE, critical=True),
    # Its meaning is told by job and its memory by TaskManager.
    *_chain("zero_input_leak", "zero_input_leak", "job", 120 * 24 * 60),
    *_chain("heap_exhaustion", "taskmanager_lost telemetry_lost", "tm", 24 * 60),
    *_chain("heap_exhaustion", f"{_CHECKPOINTS} restart_loop backpressure", "job", 24 * 60),
    # One process may be known by its id and by its host, and the TaskManagers of a job fill alike.
    *_chain("heap_exhaustion", "heap_exhaustion", "job", 60),
    *_chain("memory_limit_kill direct_memory_exhaustion", "taskmanager_lost telemetry_lost", "tm", 15),
    *_chain("memory_limit_kill direct_memory_exhaustion", f"{_CHECKPOINTS} restart_loop", "job", 15),
    # Metaspace is warned of many deployments before it is exhausted.
    *_chain("metaspace_exhaustion", "taskmanager_lost telemetry_lost", "tm", 24 * 60),
    *_chain("metaspace_exhaustion", f"{_CHECKPOINTS} restart_loop", "job", 24 * 60),
    *_chain(_OUT_OF_MEMORY, "slots_unavailable", "cluster", 24 * 60),
    # The TaskManagers of a job fill alike, and one that is killed again is the same leak.
    *(Link(kind, kind, "cluster", 60 * _MINUTE) for kind in _OUT_OF_MEMORY.split()),
    # Nodes and the JobManager
    # From the time a node falls silent, as long as a patient YARN waits: ten minutes by default.
    *_chain("node_lost", "taskmanager_lost jobmanager_lost telemetry_lost", "host", 30),
    *_chain(
        "ha_connection_lost",
        f"jobmanager_lost taskmanager_lost telemetry_lost restart_loop {_CHECKPOINTS}",
        "cluster",
        15,
    ),
    *_chain(
        "jobmanager_lost",
        f"taskmanager_lost telemetry_lost restart_loop slots_unavailable {_CHECKPOINTS}",
        "cluster",
        15,
    ),
    # Nodes that go together are a rack or a switch; a JobManager that is replaced and lost again is one event, and so
    # are all of them when what they need is gone.
    *_chain("node_lost", "node_lost", "cluster", 2),
    *_chain("jobmanager_lost", "jobmanager_lost", "cluster", 10),
    # TaskManagers and slots
    *_chain("taskmanager_lost", "late_barrier_acks telemetry_lost", "tm", 15),
    *_chain("taskmanager_lost", f"slots_unavailable restart_loop {_CHECKPOINTS}", "cluster", 15),
    # What falls silent holds up checkpoints; several that do so together are one event.
    *_chain("telemetry_lost", f"telemetry_lost {_CHECKPOINTS}", "cluster", 15),
    # Several TaskManagers lost together are one event, whatever took them down.
    *_chain("taskmanager_lost", "taskmanager_lost", "cluster", 2),
    # Slots are the cluster's: all jobs that lack them are one event.
    *_chain("slots_unavailable", "restart_loop checkpoint_failing job_failed", "cluster", 60),
    # A job that ends ends by whatever troubled it.
    *_chain("restore_failed", "restart_loop", "job", 60),
    *_chain("restart_loop checkpoint_failing restore_failed", "job_failed", "job", 24 * 60),
    *_chain(
        f"taskmanager_lost jobmanager_lost ha_connection_lost {_OUT_OF_MEMORY} heap_exhaustion", "job_failed", "job", 15
    ),
)

_BY_KINDS = {(link.cause, link.effect): link for link in LINKS}

KINDS: frozenset[str] = frozenset(k for link in LINKS for k in (link.cause, link.effect))
"""Every kind that the graph knows."""

UNLINKED: frozenset[str] = frozenset({"clock_skew", "unread_records_lost"})
"""Kinds that explain no other and that no other explains."""


def explains(cause: Finding, effect: Finding) -> bool:
    """Whether the graph lets `cause` be the reason for `effect`: not when it began after the effect had ended."""
    link = _BY_KINDS.get((cause.kind, effect.kind))
    return (
        link is not None
        and (effect.closed_at is None or cause.since <= effect.closed_at)
        and abs(cause.since - effect.since) <= link.within
        and (not link.critical or cause.severity == "critical")
        and _share(cause, effect, link.relation)
    )


def joined(one: Finding, other: Finding) -> bool:
    """Whether two findings belong to one incident."""
    return explains(one, other) or explains(other, one)


def leading(findings: list[Finding], present: Finding | None = None, left: Collection[Finding] = ()) -> Finding:
    """The cause: of the findings that no other explains the one that explains most, directly or through others.

    Then the worst, then the earliest. Findings of severity info support a cause and are none beside others. `present`
    is the cause so far and `left` are those before it: none of these leads again unless it explains `present`.
    """
    weighty = [f for f in findings if f.severity != "info"] or findings
    above = _ancestors(weighty)
    below = [sum(1 << j for j, up in enumerate(above) if up >> i & 1) for i in range(len(weighty))]
    # Findings that explain each other, such as TaskManagers lost together, stand on one step.
    roots = [i for i in range(len(weighty)) if not above[i] & ~below[i]]
    best = sorted(roots, key=lambda i: _precedence(weighty[i], below[i] & ~above[i]))
    now = next((i for i, f in enumerate(weighty) if f is present), None)
    for i in best:
        deeper = now is not None and above[now] >> i & 1
        if deeper or not any(f is weighty[i] for f in left):
            return weighty[i]
    return weighty[now] if now is not None else weighty[best[0]]


def _ancestors(findings: list[Finding]) -> list[int]:
    """For each finding the set (as bits) of those that explain it, directly or through others."""
    above = [sum(1 << j for j, c in enumerate(findings) if i != j and explains(c, f)) for i, f in enumerate(findings)]
    for via in range(len(findings)):
        for i in range(len(findings)):
            if above[i] >> via & 1:
                above[i] |= above[via]
    return above


def _precedence(finding: Finding, explained: int) -> tuple[int, int, int, str, str]:
    return (
        -explained.bit_count(),
        -SEVERITIES.index(finding.severity),
        finding.since,
        finding.kind,
        finding.subject,
    )


def _share(one: Finding, other: Finding, relation: Relation) -> bool:
    if relation == "cluster":
        return True
    field = FIELD[relation]
    a, b = one.entity.get(field, ""), other.entity.get(field, "")
    if relation == "host":
        a, b = short(a), short(b)
    return not a or not b or a == b
