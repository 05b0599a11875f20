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

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.names import short
from detectors.flink import facts
from detectors.incident import Evidence, Finding
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import Duration, humanize

_MAX_NODES = 100
_MAX_HOSTS = 400
_MAX_CONTAINERS = 20
_MAX_RECORDS = 5
_MAX_MISSING_S = 86_400

_View: TypeAlias = "View[NodeLost.Config, NodeLost.State]"


class NodeLoss(msgspec.Struct, array_like=True):
    """One lost node: event time, clock and source of the first line, and the containers killed with it."""

    node: str
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

    class Config(DetectorConfig):
        """Settings of the detector `node_lost`."""

        confirmation_delay: Duration = threshold(
            2_000, "Time to wait, after a node is lost, for lines about the containers killed with it."
        )
        killed_within: Duration = threshold(
            10_000,
            "Time after the loss of a node in which killed containers are attributed to it. Their lines name no node.",
        )
        recovered_without: Duration = threshold(
            60_000,
            "Time after the loss from which a completed checkpoint resolves the finding. Before that, processes on the "
            "lost node may still take part.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by node, event times at which losses ended, and hosts of JobManagers."""

        losses: dict[str, NodeLoss] = {}
        ended: dict[str, int] = {}
        hosts: dict[str, int] = {}

    config: Config

    @on(facts.NodeExpired)
    def lost(self, view: _View, fact: facts.NodeExpired) -> None:
        if view.time <= view.state.ended.get(fact.node, view.time - 1):
            return
        loss = view.state.losses.get(fact.node)
        if loss is None:
            loss = NodeLoss(fact.node, view.time, view.clock, view.event.source)
            put_bounded(view.state.losses, fact.node, loss, _MAX_NODES)
        loss.since = min(loss.since, view.time)
        loss.missing_s = min(fact.missing_s or loss.missing_s, _MAX_MISSING_S)
        append_new(loss.records, view.record(), _MAX_RECORDS)

    @on(facts.NodeBack)
    def back(self, view: _View, fact: facts.NodeBack) -> None:
        loss = view.state.losses.get(fact.node)
        if loss is not None and view.time > loss.since:
            self._end(view, loss, "the node has rejoined")

    @on(facts.ContainerKilled)
    def killed(self, view: _View, fact: facts.ContainerKilled) -> None:
        """Attribute a killed container to the node that was lost last in the same log."""
        near = [
            loss
            for loss in view.state.losses.values()
            if loss.source == view.event.source and 0 <= view.time - loss.since <= self.config.killed_within
        ]
        if not near or any(fact.container in loss.containers for loss in near):
            return
        loss = max(near, key=lambda n: n.since)
        if append_new(loss.containers, fact.container, _MAX_CONTAINERS):
            append_new(loss.records, view.record(), _MAX_RECORDS)
            if loss.reported:
                view.report(self._finding(view, loss))

    @on(facts.JobManagerFound)
    def jobmanager_found(self, view: _View, fact: facts.JobManagerFound) -> None:
        _keep_host(view, fact.address)

    @on(facts.LeadershipGranted)
    def leadership_granted(self, view: _View, fact: facts.LeadershipGranted) -> None:
        _keep_host(view, fact.address)
        self._runs_elsewhere(view, "a JobManager was granted leadership after the loss")

    @on(facts.TaskManagerRegistered, needs="losses")
    def registered(self, view: _View, _: facts.TaskManagerRegistered) -> None:
        self._runs_elsewhere(view, "a TaskManager registered after the loss")

    @on(facts.JobStateChanged, needs="losses")
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        if fact.state == "RUNNING":
            self._runs_elsewhere(view, "the job is RUNNING again")

    @on(facts.CheckpointCompleted, needs="losses")
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        why = f"checkpoint {fact.number} completed after the loss"
        self._runs_elsewhere(view, why, self.config.recovered_without)

    def on_deadline(self, view: _View) -> None:
        """Report losses whose wait for containers has ended."""
        for loss in view.state.losses.values():
            if not loss.reported and view.clock >= loss.at + self.config.confirmation_delay:
                loss.reported = True
                view.report(self._finding(view, loss))

    def next_deadline(self, view: _View) -> int | None:
        """When the first loss is to be reported."""
        waiting = [loss.at for loss in view.state.losses.values() if not loss.reported]
        return min(waiting) + self.config.confirmation_delay if waiting else None

    def _runs_elsewhere(self, view: _View, why: str, after: int = 0) -> None:
        for loss in list(view.state.losses.values()):
            if view.time > loss.since + after:
                self._end(view, loss, why)

    def _end(self, view: _View, loss: NodeLoss, why: str) -> None:
        del view.state.losses[loss.node]
        put_bounded(view.state.ended, loss.node, view.time, _MAX_NODES)
        finding = self._finding(view, loss)
        if not loss.reported:
            view.report(finding)
        view.close(finding, why)

    def _finding(self, view: _View, loss: NodeLoss) -> Finding:
        topology = view.topology
        host = loss.node.rpartition(":")[0] or loss.node
        tms = [tm for tm, known in topology.tms.items() if short(known.host) == short(host)]
        ours = [*loss.containers, *(tm for tm in tms if tm not in loss.containers)]
        leads = any(short(h) == short(host) for h in view.state.hosts)
        shown = ", ".join(ours[:3]) + (f" and {len(ours) - 3} more" if len(ours) > 3 else "")
        lost = [part for part in (shown, "the JobManager" if leads else "") if part]
        with_it = f"; lost with it: {' and '.join(lost)}" if lost else ""
        reason = f"no heartbeat for {humanize(loss.missing_s * 1_000)}" if loss.missing_s else "it does not answer"
        job, name = topology.only_job()
        return view.finding(
            loss.node,
            {"node": loss.node, "host": host, "job_id": job, "job_name": name},
            # The node has not answered since then, and its processes may have been missing since then too.
            since=loss.since - loss.missing_s * 1_000,
            severity="critical" if ours or leads else "warning",
            summary=f"node {loss.node} is lost: {reason}{with_it}",
            evidence=loss.records,
            advice=f"Check whether {host} is up, and whether its NodeManager or kubelet runs and can reach the master. "
            "YARN and Kubernetes start its processes on other nodes if there is room. To recover faster next time: a "
            "shorter expiry time of nodes, high availability with a standby JobManager on another node.",
        )


def _keep_host(view: _View, address: str) -> None:
    if host := address.rpartition(":")[0]:
        put_bounded(view.state.hosts, host, view.time, _MAX_HOSTS)
