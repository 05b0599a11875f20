"""The cause graph: which kind of finding explains which other kind, as data.

`relation` is what both findings must share: the job, the TaskManager, the host, or only the cluster. A finding whose
job, TaskManager or host is unknown is assumed to share it. `within` is the longest time in ms between the beginnings
of the two, in either order, because the effect is often seen before its cause.
"""

from collections.abc import Collection
from typing import Literal

import msgspec

from detectors.events.names import OF_JOBMANAGER, short
from detectors.incident import SEVERITIES, Finding

Relation = Literal["job", "tm", "host", "cluster"]

_MINUTE = 60_000
FIELD = {"job": "job_id", "tm": "tm_id", "host": "host"}
"""The field of an entity in which the two findings of a relation must agree."""


class Link(msgspec.Struct, frozen=True):
    """`cause` explains `effect`. If `critical` is set, it does so only once the cause is critical."""

    cause: str
    effect: str
    relation: Relation
    within: int
    critical: bool = False


def _chain(causes: str, effects: str, relation: Relation, minutes: int) -> tuple[Link, ...]:
    return tuple(Link(c, e, relation, minutes * _MINUTE) for c in causes.split() for e in effects.split())


_OUT_OF_MEMORY = "memory_limit_kill direct_memory_exhaustion metaspace_exhaustion thread_exhaustion"
_CHECKPOINTS = "checkpoint_overdue checkpoint_failing checkpoint_duration_creep"
_OF_JOBMANAGERS = f"taskmanager_lost telemetry_lost restart_loop {_CHECKPOINTS}"

LINKS: tuple[Link, ...] = (
    # Data in the way of barriers: slow input, late acknowledgements, expiry, restarts
    # Backpressure can last for hours before checkpoints suffer. Late acknowledgements prove the same and also name the
    # place, so they are the cause.
    *_chain("backpressure", f"{_CHECKPOINTS} restart_loop", "job", 24 * 60),
    *_chain("late_barrier_acks", "backpressure", "job", 24 * 60),
    *_chain("late_barrier_acks", f"{_CHECKPOINTS} restart_loop", "job", 60),
    # A task that processes nothing lets no barrier through, and every task before it waits for it.
    *_chain(
        "task_stuck", f"late_barrier_acks backpressure {_CHECKPOINTS} watermark_stalled restart_loop", "job", 24 * 60
    ),
    # Without watermarks no window is emitted, so state grows.
    *_chain("watermark_stalled", "checkpoint_duration_creep heap_exhaustion", "job", 24 * 60),
    *_chain("checkpoint_duration_creep", "checkpoint_overdue checkpoint_failing", "job", 24 * 60),
    *_chain("checkpoint_overdue", "checkpoint_failing", "job", 60),
    # Too many failed checkpoints restart the job, which then reads from the storage that did not accept them.
    *_chain("checkpoint_failing", "restart_loop restore_failed", "job", 60),
    # Input and output: brokers, and lag
    # Without brokers, sources wait and sinks block until checkpoints expire, in all jobs.
    *_chain(
        "broker_unreachable",
        f"task_stuck watermark_stalled lag_growing backpressure late_barrier_acks {_CHECKPOINTS} savepoint_failed"
        " transaction_timeout sink_data_lost restart_loop job_failed",
        "cluster",
        60,
    ),
    # A slow operator, a heap that is nearly full or a job that restarts again and again reads less than arrives.
    *_chain("task_stuck backpressure late_barrier_acks heap_exhaustion restart_loop", "lag_growing", "job", 24 * 60),
    *_chain(f"{_OUT_OF_MEMORY} checkpoint_failing restore_failed", "lag_growing", "job", 60),
    *_chain("taskmanager_lost jobmanager_lost ha_connection_lost slots_unavailable", "lag_growing", "cluster", 60),
    # Memory
    # A leak takes months to fill a heap, and many leaks never do. A lost TaskManager without a memory error is
    # therefore blamed on a leak only if the heap was seen to fill.
    *_chain("zero_input_leak", "heap_exhaustion memory_limit_kill", "tm", 120 * 24 * 60),
    Link("zero_input_leak", "taskmanager_lost", "tm", 120 * 24 * 60 * _MINUTE, critical=True),
    # The job's finding shows what the leak is, the TaskManager's finding shows its memory.
    *_chain("zero_input_leak", "zero_input_leak", "job", 120 * 24 * 60),
    *_chain("heap_exhaustion", "taskmanager_lost telemetry_lost", "tm", 24 * 60),
    *_chain("heap_exhaustion", f"{_CHECKPOINTS} restart_loop backpressure", "job", 24 * 60),
    # A process that only collects garbage, or that is frozen, processes no records.
    *_chain("heap_exhaustion", "task_stuck", "tm", 24 * 60),
    # One process may be known both by its ID and by its host, and the heaps of a job's TaskManagers fill in parallel.
    *_chain("heap_exhaustion", "heap_exhaustion", "job", 60),
    *_chain("direct_memory_exhaustion", "taskmanager_lost telemetry_lost", "tm", 15),
    *_chain("memory_limit_kill direct_memory_exhaustion", f"{_CHECKPOINTS} restart_loop", "job", 15),
    # The warning about Metaspace comes many deployments before it is exhausted, those about memory and threads hours.
    *_chain(
        "memory_limit_kill metaspace_exhaustion thread_exhaustion", "taskmanager_lost telemetry_lost", "tm", 24 * 60
    ),
    *_chain("metaspace_exhaustion thread_exhaustion", f"{_CHECKPOINTS} restart_loop", "job", 24 * 60),
    # Each thread has a stack outside the heap.
    *_chain("thread_exhaustion", "memory_limit_kill", "tm", 24 * 60),
    *_chain(_OUT_OF_MEMORY, "slots_unavailable", "cluster", 24 * 60),
    # The TaskManagers of a job fill in parallel, and repeated kills of one of them are the same leak.
    *(Link(kind, kind, "cluster", 60 * _MINUTE) for kind in _OUT_OF_MEMORY.split()),
    # Network memory that a TaskManager cannot allocate keeps it from starting.
    *_chain("network_buffers_exhausted", "slots_unavailable", "cluster", 60),
    *_chain("network_buffers_exhausted", "restart_loop job_failed", "job", 24 * 60),
    # Disks. They fill hours before the job gives up, and those of a job's TaskManagers fill in parallel.
    *_chain("disk_full", "taskmanager_lost", "tm", 60),
    *_chain("disk_full", "jobmanager_lost", "host", 60),
    *_chain("disk_full", "checkpoint_failing savepoint_failed restore_failed restart_loop job_failed", "job", 24 * 60),
    *_chain("disk_full", "disk_full", "cluster", 60),
    # Transactions of sinks: whatever holds up a checkpoint or a recovery holds up the commit.
    *_chain(_CHECKPOINTS, "transaction_timeout", "job", 60),
    *_chain("taskmanager_lost jobmanager_lost", "transaction_timeout", "cluster", 60),
    *_chain("transaction_timeout", "sink_data_lost restart_loop job_failed", "job", 24 * 60),
    # With connector 4 a fenced producer also fails while the task is cleaned up, and that ends the TaskManager.
    *_chain("transaction_timeout", "slots_unavailable", "job", 60),
    *_chain("sink_data_lost", "restart_loop job_failed", "job", 24 * 60),
    # Nodes and the JobManager
    # Counted from the node's last heartbeat: YARN waits ten minutes by default before it reports a lost node.
    *_chain("node_lost", "taskmanager_lost jobmanager_lost telemetry_lost", "host", 30),
    *_chain("ha_connection_lost", f"jobmanager_lost {_OF_JOBMANAGERS}", "cluster", 15),
    *_chain("jobmanager_lost", f"slots_unavailable {_OF_JOBMANAGERS}", "cluster", 15),
    # Nodes lost at the same time share a rack or a switch. A JobManager that is replaced and lost again is one event,
    # and so are several JobManagers that lose the same dependency.
    *_chain("node_lost", "node_lost", "cluster", 2),
    *_chain("jobmanager_lost", "jobmanager_lost", "cluster", 10),
    # TaskManagers and slots
    *_chain("taskmanager_lost", "late_barrier_acks task_stuck telemetry_lost", "tm", 15),
    *_chain("taskmanager_lost", f"slots_unavailable restart_loop {_CHECKPOINTS}", "cluster", 15),
    # A process without telemetry holds up checkpoints. Several that stop reporting together are one event.
    *_chain("telemetry_lost", f"telemetry_lost {_CHECKPOINTS}", "cluster", 15),
    # Several TaskManagers lost together are one event, whatever the reason.
    *_chain("taskmanager_lost", "taskmanager_lost", "cluster", 2),
    # Slots belong to the cluster, so all jobs that lack slots are one event.
    *_chain("slots_unavailable", "restart_loop checkpoint_failing job_failed", "cluster", 60),
    # Pods that cannot start are missing TaskManagers or JobManagers, and an operator that fails submits no job.
    *_chain("operator_failing", "slots_unavailable job_missing restart_loop telemetry_lost lag_growing", "cluster", 60),
    *_chain(
        f"node_lost taskmanager_lost jobmanager_lost {_OUT_OF_MEMORY} heap_exhaustion restore_failed job_failed"
        " disk_full network_buffers_exhausted",
        "operator_failing",
        "cluster",
        60,
    ),
    # An image, a quota and a full cluster have the same effect, and the operator repeats what Kubernetes says.
    *_chain("operator_failing", "operator_failing", "cluster", 60),
    # A job that is not there, because of what took it away or keeps it from starting.
    *_chain("jobmanager_lost ha_connection_lost slots_unavailable", "job_missing", "cluster", 60),
    *_chain("restore_failed job_failed", "job_missing", "job", 60),
    # Jobs that are cancelled together, or that a JobManager came back without, are one event.
    *_chain("job_missing", "job_missing", "cluster", 2),
    # What holds up checkpoints holds up savepoints.
    *_chain("backpressure late_barrier_acks heap_exhaustion", "savepoint_failed", "job", 24 * 60),
    *_chain(f"{_CHECKPOINTS} {_OUT_OF_MEMORY}", "savepoint_failed", "job", 60),
    *_chain("taskmanager_lost jobmanager_lost restart_loop", "savepoint_failed", "job", 15),
    # A job fails because of the trouble that it already had.
    *_chain("restore_failed", "restart_loop", "job", 60),
    *_chain("restart_loop checkpoint_failing restore_failed", "job_failed", "job", 24 * 60),
    *_chain(
        f"taskmanager_lost jobmanager_lost ha_connection_lost {_OUT_OF_MEMORY} heap_exhaustion", "job_failed", "job", 15
    ),
)

JOBMANAGER_LINKS: tuple[Link, ...] = (
    # All TaskManagers depend on the JobManager, so its heap explains what happens to any of them. It gives all of them
    # up in its last collections, before its own OutOfMemoryError.
    *_chain("heap_exhaustion memory_limit_kill thread_exhaustion", "jobmanager_lost", "cluster", 24 * 60),
    *_chain(
        "heap_exhaustion",
        f"slots_unavailable job_failed job_missing ha_connection_lost {_OF_JOBMANAGERS}",
        "cluster",
        60,
    ),
)
"""What findings about a JobManager explain whose kind also finds TaskManagers."""

_BY_KINDS = {(link.cause, link.effect): link for link in LINKS}
_BY_KINDS_OF_JOBMANAGERS = {(link.cause, link.effect): link for link in JOBMANAGER_LINKS}
_ALSO_OF_JOBMANAGERS = frozenset(link.cause for link in JOBMANAGER_LINKS)

KINDS: frozenset[str] = frozenset(k for link in LINKS for k in (link.cause, link.effect))
"""Every kind in the graph."""

UNLINKED: frozenset[str] = frozenset({"clock_skew", "late_records_dropped", "platform_incident", "unread_records_lost"})
"""Kinds that explain no other and that no other explains."""


def explains(cause: Finding, effect: Finding) -> bool:
    """Whether the graph allows `cause` as the reason for `effect`: it must have begun before the effect ended."""
    link = _link(cause, effect)
    return (
        link is not None
        and (effect.closed_at is None or cause.since <= effect.closed_at)
        and abs(cause.since - effect.since) <= link.within
        and (not link.critical or cause.severity == "critical")
        and _share(cause, effect, link.relation)
    )


def _link(cause: Finding, effect: Finding) -> Link | None:
    """The link of two findings. Nothing that a TaskManager does fills the heap of a JobManager."""
    if _of_jobmanager(effect):
        return None
    links = _BY_KINDS_OF_JOBMANAGERS if _of_jobmanager(cause) else _BY_KINDS
    return links.get((cause.kind, effect.kind))


def _of_jobmanager(finding: Finding) -> bool:
    return finding.kind in _ALSO_OF_JOBMANAGERS and finding.subject.startswith(OF_JOBMANAGER)


def joined(one: Finding, other: Finding) -> bool:
    """Whether two findings belong to one incident."""
    return explains(one, other) or explains(other, one)


def leading(findings: list[Finding], present: Finding | None = None, left: Collection[Finding] = ()) -> Finding:
    """The cause: of the findings that no other finding explains, the one that explains most others, directly or not.

    Ties are decided by severity, then by the earliest beginning. A finding of severity info is the cause only if it is
    alone. An earlier cause, one of `left`, becomes the cause again only if it explains `present`, the current one.
    """
    weighty = [f for f in findings if f.severity != "info"] or findings
    above = _ancestors(weighty)
    below = [sum(1 << j for j, up in enumerate(above) if up >> i & 1) for i in range(len(weighty))]
    # Findings that explain each other, such as TaskManagers lost together, have the same rank.
    roots = [i for i in range(len(weighty)) if not above[i] & ~below[i]]
    best = sorted(roots, key=lambda i: _precedence(weighty[i], below[i] & ~above[i]))
    now = next((i for i, f in enumerate(weighty) if f is present), None)
    for i in best:
        deeper = now is not None and above[now] >> i & 1
        if deeper or not any(f is weighty[i] for f in left):
            return weighty[i]
    return weighty[now] if now is not None else weighty[best[0]]


def _ancestors(findings: list[Finding]) -> list[int]:
    """For each finding the set (as bits) of the findings that explain it, directly or through others."""
    above = [sum(1 << j for j, c in enumerate(findings) if i != j and explains(c, f)) for i, f in enumerate(findings)]
    for via in range(len(findings)):
        for i in range(len(findings)):
            if above[i] >> via & 1:
                above[i] |= above[via]
    return above


def _precedence(finding: Finding, explained: int) -> tuple[int, int, int, str, str]:
    severity = SEVERITIES.index(finding.severity)
    return -explained.bit_count(), -severity, finding.since, finding.kind, finding.subject


def _share(one: Finding, other: Finding, relation: Relation) -> bool:
    if relation == "cluster":
        return True
    a, b = (finding.entity.get(FIELD[relation], "") for finding in (one, other))
    return not a or not b or a == b or (relation == "host" and short(a) == short(b))
