"""A node is gone: YARN heard nothing of its NodeManager, or Kubernetes of its kubelet, for the whole expiry time.

Fires on YARN's `Expired:<node> Timed out after N secs`, `Deactivating Node <node> as it is now LOST`, `Node
Transitioned from RUNNING to LOST`, and on Kubernetes' event `NodeNotReady`: one finding a node, with the containers
that are killed with it. Critical when a process of this cluster is known to be on it, else a warning. Nodes that are
decommissioned or shut down are no losses. Ends when the node is back, or when the job evidently runs elsewhere.

Why an operator cares: everything on the node is gone, and moves only now, minutes after it stopped to answer.
`jobmanager_lost` and `taskmanager_lost` tell what it took with it.

Reference: post-mortem 004, where YARN took 600 s; Hadoop, `yarn.nm.liveness-monitor.expiry-interval-ms`.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.events.hosts import short
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_MAX_NODES = 100
_MAX_HOSTS = 400
_MAX_CONTAINERS = 20
_MAX_RECORDS = 5
_MAX_SILENT_S = 86_400


class NodeLoss(msgspec.Struct, array_like=True):
    """One lost node: event time and clock of the first line, who told it, and what was killed with it."""

    since: int
    at: int
    source: str
    silent: int = 0
    containers: list[str] = []
    records: list[Evidence] = []
    said: bool = False


class NodeLost(Detector):
    """See the module."""

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
        """Thresholds of node_lost."""

        confirmation_delay: Duration = Field(
            2_000, description="Wait this long for the containers that are killed with the node."
        )
        killed_within: Duration = Field(
            10_000, description="Containers killed this soon after a node was lost were on it: the line names no node."
        )
        recovered_without: Duration = Field(
            60_000,
            description="A checkpoint that completes this long after the loss ends it: what runs there until then does "
            "not know yet that it was given up.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by node; event times at which losses ended; hosts of JobManagers."""

        losses: dict[str, NodeLoss] = {}
        ended: dict[str, int] = {}
        hosts: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold one line about a node, or one that shows where the job runs."""
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
                    yield from self._ended(state, fields["node"], loss, now, topology, "the node is back")
            case "container_killed":
                yield from self._killed(state, event, now, topology)
            case "tm_registered":
                yield from self._elsewhere(state, now, topology, 0, "a TaskManager registered after it")
            case "leader_granted":
                yield from self._elsewhere(state, now, topology, 0, "a JobManager leads after it")
            case "job_state" if fields.get("state") == "RUNNING":
                yield from self._elsewhere(state, now, topology, 0, "the job runs again")
            case "checkpoint_completed":
                why = f"checkpoint {fields.get('checkpoint', '')} completed after it"
                yield from self._elsewhere(state, now, topology, self.config.recovered_without, why)

    def expire(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Say the losses that have waited for their containers."""
        for node, loss in state.losses.items():
            if not loss.said and now >= loss.at + self.config.confirmation_delay:
                loss.said = True
                yield self._finding(state, node, loss, now, topology)

    def due(self, state: State) -> int | None:
        """When the first loss is said."""
        return min(
            (loss.at + self.config.confirmation_delay for loss in state.losses.values() if not loss.said), default=None
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
        loss.silent = min(int(event.fields.get("silent", loss.silent)), _MAX_SILENT_S)
        self._add(loss, event, now)

    def _killed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """A container belongs to the node that was lost last, in the same log."""
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
            if loss.said:
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
        if not loss.said:
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
        what = f", with {', '.join(ours[:3])}" + (f" and {len(ours) - 3} more" if len(ours) > 3 else "") if ours else ""
        silent = f"nothing heard of it for {humanize(loss.silent * 1_000)}" if loss.silent else "it does not answer"
        running = [(j, k.name) for j, k in topology.jobs.items() if k.state in ("RUNNING", "RESTARTING", "FAILING")]
        job, name = running[0] if len(running) == 1 else ("", "")
        return Finding(
            kind=self.kind,
            subject=node,
            entity={"node": node, "host": host, "job_id": job, "job_name": name},
            # It has not answered since then: what it took with it may have been seen to be gone long before.
            since=loss.since - loss.silent * 1_000,
            at=now,
            severity="critical" if ours or leads else "warning",
            summary=f"node {node} is lost: {silent}{what}" + (" and the JobManager" if leads else ""),
            confidence="sure",
            evidence=list(loss.records),
            advice=f"See whether {host} is up and its NodeManager or kubelet runs and reaches the master. What ran "
            "there starts on other nodes by itself when they have room. For good: a shorter expiry time, high "
            "availability with a standby JobManager on another node.",
        )
