"""A node is lost: YARN received no heartbeat of its NodeManager, or Kubernetes none of its kubelet, until expiry.

Opens at YARN's `Expired:<node> Timed out after N secs`, `Deactivating Node <node> as it is now LOST`, `Node
Transitioned from RUNNING to LOST`, and at Kubernetes' event `NodeNotReady`: one finding for each node, with the
containers that are killed with it. Critical if a process of this cluster is known to be on the node, else a warning.
Nodes that are decommissioned or shut down are not losses. Resolved when the node has rejoined, or when lines show that
the job runs elsewhere.

Why it matters: every process on the node is lost, and is replaced only now, minutes after the node stopped answering.
`jobmanager_lost` and `taskmanager_lost` report what was lost with it.

Reference: post-mortem 004, where YARN took 600 s; Hadoop, `yarn.nm.liveness-monitor.expiry-interval-ms`.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.events.names import short
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_NODES = 100
_MAX_HOSTS = 400
_MAX_CONTAINERS = 20
_MAX_RECORDS = 5
_MAX_MISSING_S = 86_400


class NodeLoss(msgspec.Struct, array_like=True):
    """One lost node: event time, clock and source of the first line, and the containers killed with it."""

    since: int
    at: int
    source: str
    missing_s: int = 0
    containers: list[str] = []
    records: list[Evidence] = []
    reported: bool = False


class NodeLost(Detector):
    """Detects nodes that YARN or Kubernetes has lost."""

    kind = "node_lost"
    belongs_to = "cluster"
    event_types = frozenset(
        [
            "node_lost",
            "node_back",
            "container_killed",
            "jm_address",
            "leader_granted",
            "tm_registered",
            "job_state",
            "checkpoint_completed",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `node_lost`."""

        confirmation_delay: Duration = Field(
            2_000, description="Time to wait for lines about the containers that are killed with the node."
        )
        killed_within: Duration = Field(
            10_000,
            description="Time after the loss of a node in which killed containers are attributed to it. Their lines "
            "name no node.",
        )
        recovered_without: Duration = Field(
            60_000,
            description="Time after the loss from which a completed checkpoint resolves the finding. Before that, "
            "processes on the lost node may still take part.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by node, event times at which losses ended, and hosts of JobManagers."""

        losses: dict[str, NodeLoss] = {}
        ended: dict[str, int] = {}
        hosts: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        fields = event.fields
        host = fields.get("address", "").rpartition(":")[0]
        if host and event.event_type in ("jm_address", "leader_granted"):
            put_bounded(state.hosts, host, now.time, _MAX_HOSTS)
        match event.event_type:
            case "node_lost":
                self._lost(state, event, now)
            case "node_back":
                loss = state.losses.get(fields.get("node", ""))
                if loss is not None and now.time > loss.since:
                    yield from self._ended(state, fields["node"], loss, now, topology, "the node has rejoined")
            case "container_killed":
                yield from self._killed(state, event, now, topology)
            case "tm_registered":
                yield from self._elsewhere(state, now, topology, 0, "a TaskManager registered after the loss")
            case "leader_granted":
                yield from self._elsewhere(
                    state, now, topology, 0, "a JobManager was granted leadership after the loss"
                )
            case "job_state" if fields.get("state") == "RUNNING":
                yield from self._elsewhere(state, now, topology, 0, "the job is RUNNING again")
            case "checkpoint_completed":
                why = f"checkpoint {fields.get('checkpoint', '')} completed after the loss"
                yield from self._elsewhere(state, now, topology, self.config.recovered_without, why)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report losses whose wait for containers has ended."""
        for node, loss in state.losses.items():
            if not loss.reported and now >= loss.at + self.config.confirmation_delay:
                loss.reported = True
                yield self._finding(state, node, loss, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the first loss is to be reported."""
        return min(
            (loss.at + self.config.confirmation_delay for loss in state.losses.values() if not loss.reported),
            default=None,
        )

    def _lost(self, state: State, event: LogEvent, now: Now) -> None:
        node = event.fields.get("node", "")
        if not node or now.time <= state.ended.get(node, now.time - 1):
            return
        loss = state.losses.get(node)
        if loss is None:
            loss = NodeLoss(now.time, now.clock, event.source)
            put_bounded(state.losses, node, loss, _MAX_NODES)
        loss.since = min(loss.since, now.time)
        loss.missing_s = min(int(event.fields.get("silent", loss.missing_s)), _MAX_MISSING_S)
        self._add(loss, event, now)

    def _killed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Attribute a killed container to the node that was lost last in the same log."""
        near = [
            (node, loss)
            for node, loss in state.losses.items()
            if loss.source == event.source and 0 <= now.time - loss.since <= self.config.killed_within
        ]
        container = event.fields.get("container", "")
        if not near or not container or any(container in loss.containers for _, loss in near):
            return
        node, loss = max(near, key=lambda n: n[1].since)
        if len(loss.containers) < _MAX_CONTAINERS:
            loss.containers.append(container)
            self._add(loss, event, now)
            if loss.reported:
                yield self._finding(state, node, loss, now.clock, topology)

    def _elsewhere(self, state: State, now: Now, topology: Topology, after: int, why: str) -> Iterator[Finding]:
        for node, loss in list(state.losses.items()):
            if now.time > loss.since + after:
                yield from self._ended(state, node, loss, now, topology, why)

    def _ended(
        self, state: State, node: str, loss: NodeLoss, now: Now, topology: Topology, why: str
    ) -> Iterator[Finding]:
        del state.losses[node]
        put_bounded(state.ended, node, now.time, _MAX_NODES)
        finding = self._finding(state, node, loss, now.clock, topology)
        if not loss.reported:
            yield msgspec.structs.replace(finding)
        finding.closed_at, finding.closed_because = now.clock, why
        yield finding

    def _add(self, loss: NodeLoss, event: LogEvent, now: Now) -> None:
        record = evidence(event, now.time)
        if len(loss.records) < _MAX_RECORDS and record not in loss.records:
            loss.records.append(record)

    def _finding(self, state: State, node: str, loss: NodeLoss, now: int, topology: Topology) -> Finding:
        host = node.rpartition(":")[0] or node
        tms = [tm for tm, known in topology.tms.items() if short(known.host) == short(host)]
        ours = [*loss.containers, *(tm for tm in tms if tm not in loss.containers)]
        leads = any(short(h) == short(host) for h in state.hosts)
        shown = ", ".join(ours[:3]) + (f" and {len(ours) - 3} more" if len(ours) > 3 else "")
        lost = [part for part in (shown, "the JobManager" if leads else "") if part]
        with_it = f"; lost with it: {' and '.join(lost)}" if lost else ""
        reason = f"no heartbeat for {humanize(loss.missing_s * 1_000)}" if loss.missing_s else "it does not answer"
        job, name = topology.only_job()
        return Finding(
            kind=self.kind,
            subject=node,
            entity={"node": node, "host": host, "job_id": job, "job_name": name},
            # The node has not answered since then, and its processes may have been missing since then too.
            since=loss.since - loss.missing_s * 1_000,
            at=now,
            severity="critical" if ours or leads else "warning",
            summary=f"node {node} is lost: {reason}{with_it}",
            confidence="sure",
            evidence=list(loss.records),
            advice=f"Check whether {host} is up, and whether its NodeManager or kubelet runs and can reach the master. "
            "Its processes start on other nodes by themselves if there is room. For good: a shorter expiry time, high "
            "availability with a standby JobManager on another node.",
        )
