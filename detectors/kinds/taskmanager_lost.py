"""A TaskManager is lost: it is gone without an orderly end.

Opens `confirmation_delay` after the first hard line about a TaskManager: its heartbeat timed out, it is no longer
reachable, or its connection was closed or its worker terminated for such a reason. One finding for each TaskManager,
however many lines. Orderly ends are not losses: SIGTERM in its own log, `The TaskExecutor is shutting down`, the idle
timeout, the end of the job or of the cluster. Resolved when a TaskManager registers in its place (or it comes back), or
when checkpoints have completed for `recovered_without` and so the job runs without it.

A single "address is now gated" is only a hint that dates the first symptom. `Connection unexpectedly closed by remote
task manager` names the lost TaskManager in its text, although a healthy one writes it.

Reference: Flink, FLINK-23209 (no longer reachable after 2 failed RPCs since 1.14); post-mortem 004.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_TMS = 400
_MAX_RECORDS = 4
_ALL = "*"
_BACK = "it registered again under the same id, so it was paused or disconnected (unless ids are fixed)"
_KILLED = ("beyond the", "running beyond", "oomkilled", "exit code is 137", "exitcode=137")
_LOST = ("timed out", "no longer reachable", "exit code", "exitcode", "killing container", "pod terminated", "lost")
_ORDERLY = (
    "shutting down",
    "idle timeout",
    "stopping jobmaster",
    "leader changed",
    "lost leadership",
    "application status",
    "killed by the applicationmaster",
    "exitcode=0",
    "exitcode=143",
)
_REASONS = {
    "tm_timed_out": "its heartbeat timed out",
    "tm_unreachable": "it is no longer reachable",
    "tm_terminated": "its actor system ended",
}


class TaskManagerLoss(msgspec.Struct, array_like=True):
    """The loss of one TaskManager: event time of the first symptom, clock of the first hard line, reason and records.

    `killed`: by YARN or Kubernetes. They send SIGTERM first, so a line about a signal does not disprove the loss.
    """

    since: int
    at: int
    why: str
    records: list[Evidence]
    reported: bool = False
    killed: bool = False


class TaskManagerLost(Detector):
    """Detects TaskManagers that are lost without an orderly end."""

    kind = "taskmanager_lost"
    belongs_to = "cluster"
    event_types = frozenset(
        [
            "tm_timed_out",
            "tm_unreachable",
            "tm_closed",
            "tm_terminated",
            "tm_registered",
            "tm_connection_closed",
            "rpc_gated",
            "process_signalled",
            "cluster_ending",
            "checkpoint_completed",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `taskmanager_lost`."""

        confirmation_delay: Duration = Field(
            2_000, description="Time to wait for a line of another source that shows an orderly end of the TaskManager."
        )
        orderly_exit_grace: Duration = Field(
            60_000,
            description="Time after an orderly end in which a loss of the same TaskManager is attributed to that end.",
        )
        gated_hint_max_age: Duration = Field(
            120_000,
            description="Maximum age of a line in which Flink's RPC library (Akka or Pekko) calls the address of the "
            "TaskManager gated. A younger line is taken as the beginning of the loss.",
        )
        recovered_without: Duration = Field(
            300_000,
            description="Time after the loss from which a completed checkpoint resolves the finding, because the "
            "job runs without that TaskManager.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by TaskManager id.

        `orderly` holds the clock of orderly ends ("*": all TaskManagers), `hints` the event time of gated addresses,
        `ended` the event time at which a loss ended: older lines that come again or late belong to that loss.
        """

        losses: dict[str, TaskManagerLoss] = {}
        orderly: dict[str, int] = {}
        hints: dict[str, int] = {}
        replacements: list[str] = []
        ended: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.event_type:
            case "process_signalled":
                for tm in self._signalled(event, topology):
                    self._orderly(state, tm, now)
            case "cluster_ending":
                self._orderly(state, _ALL, now)
            case "rpc_gated":
                put_bounded(state.hints, event.fields["address"], now.time, _MAX_TMS)
            case "tm_registered":
                yield from self._registered(state, event.fields["tm"], now, topology)
            case "checkpoint_completed":
                yield from self._recovered(state, now, topology)
            case "tm_connection_closed":
                self._connection_closed(state, event, now)
            case "tm_closed":
                self._closed(state, event, now)
            case _:
                self._lost(state, event, _REASONS[event.event_type], now)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report losses that no line has disproved in time."""
        for tm, loss in state.losses.items():
            if not loss.reported and now >= loss.at + self.config.confirmation_delay:
                loss.reported = True
                yield self._finding(tm, loss, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the first unconfirmed loss is confirmed."""
        return min(
            (loss.at + self.config.confirmation_delay for loss in state.losses.values() if not loss.reported),
            default=None,
        )

    def _signalled(self, event: LogEvent, topology: Topology) -> list[str]:
        """The TaskManagers that a signal ends: the one that got it, those of its host, or all of the cluster."""
        tm = topology.tm_of_source.get(event.source)
        if tm is not None:
            return [tm]
        return [t for t, known in topology.tms.items() if known.host and known.host == event.host] or [_ALL]

    def _orderly(self, state: State, tm: str, now: Now) -> None:
        put_bounded(state.orderly, tm, now.clock, _MAX_TMS)
        for lost in [
            t for t, loss in state.losses.items() if tm in (_ALL, t) and not loss.reported and not loss.killed
        ]:
            del state.losses[lost]

    def _closed(self, state: State, event: LogEvent, now: Now) -> None:
        reason = event.fields["reason"].lower()
        why = event.fields["reason"].rstrip(". ")
        if any(word in reason for word in _KILLED):
            self._lost(state, event, why, now, killed=True)
        elif any(word in reason for word in _ORDERLY):
            # The end of one job's JobMaster does not show that the process ended.
            if "jobmaster" not in reason:
                self._orderly(state, event.fields["tm"], now)
        elif any(word in reason for word in _LOST):
            self._lost(state, event, why, now)

    def _lost(self, state: State, event: LogEvent, why: str, now: Now, killed: bool = False) -> None:
        tm = event.fields.get("tm") or event.fields["address"]
        ended = max(state.orderly.get(tm, LONG_AGO), state.orderly.get(_ALL, LONG_AGO))
        orderly = now.clock - ended <= self.config.orderly_exit_grace and not killed
        if orderly or now.time <= state.ended.get(tm, now.time - 1):
            return
        loss = state.losses.get(tm)
        if loss is None:
            loss = TaskManagerLoss(self._first_symptom(state, tm, now), now.clock, why, [])
            put_bounded(state.losses, tm, loss, _MAX_TMS)
        if killed:
            loss.killed, loss.why = True, why
        self._add(loss, evidence(event, now.time))
        # A frozen process comes back under the same id and may be lost again.
        state.replacements = [r for r in state.replacements if r != tm]

    def _connection_closed(self, state: State, event: LogEvent, now: Now) -> None:
        """A peer saw the connection close: a hint that dates a later loss, and evidence for a known one."""
        tm = event.fields.get("tm")
        if tm is None:
            return
        if tm not in state.hints:
            put_bounded(state.hints, tm, now.time, _MAX_TMS)
        if tm in state.losses:
            self._add(state.losses[tm], evidence(event, now.time))

    def _first_symptom(self, state: State, tm: str, now: Now) -> int:
        address = tm.rsplit("-", 1)[0]
        hints = [state.hints[k] for k in (tm, address) if k in state.hints]
        return min([h for h in hints if 0 <= now.time - h <= self.config.gated_hint_max_age], default=now.time)

    def _add(self, loss: TaskManagerLoss, record: Evidence) -> None:
        if len(loss.records) < _MAX_RECORDS and record not in loss.records:
            loss.records.append(record)

    def _registered(self, state: State, tm: str, now: Now, topology: Topology) -> Iterator[Finding]:
        """Close the loss of this TaskManager, or of the one that it replaces: on the same host, else the oldest."""
        state.hints.pop(tm, None)
        if tm in state.losses:
            if now.time > state.losses[tm].since:
                # The same line again must not replace a second lost TaskManager.
                state.replacements = [*state.replacements, tm][-_MAX_TMS:]
                yield from self._ended(state, tm, now, topology, _BACK)
            return
        missing = [t for t, loss in state.losses.items() if loss.since < now.time]
        if missing and tm not in state.replacements and not self._registered_before(topology, tm, now):
            host = topology.host_of(tm)
            same = [t for t in missing if host and topology.host_of(t) == host]
            lost = same[0] if same else min(missing, key=lambda t: state.losses[t].at)
            state.replacements = [*state.replacements, tm][-_MAX_TMS:]
            yield from self._ended(state, lost, now, topology, f"TaskManager {tm} registered in its place")
            # JobMaster and ResourceManager time out at different times: a later line of one is not a second loss.
            state.ended[lost] = now.time + self.config.orderly_exit_grace

    def _registered_before(self, topology: Topology, tm: str, now: Now) -> bool:
        known = topology.tms.get(tm)
        return known is not None and 0 < known.registered < now.time

    def _recovered(self, state: State, now: Now, topology: Topology) -> Iterator[Finding]:
        for tm, loss in list(state.losses.items()):
            if now.clock - loss.at >= self.config.recovered_without:
                why = f"checkpoints have completed without it for {humanize(now.clock - loss.at)}"
                yield from self._ended(state, tm, now, topology, why)

    def _ended(self, state: State, tm: str, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        loss = state.losses.pop(tm)
        put_bounded(state.ended, tm, now.time, _MAX_TMS)
        finding = self._finding(tm, loss, now.clock, topology)
        if not loss.reported:
            # A TaskManager that was replaced within the waiting time was lost too: report the loss, then its end.
            yield msgspec.structs.replace(finding)
        finding.closed_at, finding.closed_because = now.clock, why
        yield finding

    def _finding(self, tm: str, loss: TaskManagerLoss, now: int, topology: Topology) -> Finding:
        host = topology.host_of(tm)
        job, name = topology.only_job()
        where = f" on host {host}" if host and host not in tm else ""
        return Finding(
            kind=self.kind,
            subject=tm,
            entity={"tm_id": tm, "host": host, "job_id": job, "job_name": name},
            since=loss.since,
            at=now,
            severity="critical",
            summary=f"TaskManager {tm}{where} is lost: {loss.why}",
            confidence="sure",
            evidence=list(loss.records),
            advice=f"Check whether its process, pod or container still runs on {host or 'its host'}, and why it ended: "
            "the last lines of its own log, an OutOfMemoryError in .out, OOMKilled, the node. The job waits for slots "
            "until another TaskManager registers; then Flink itself restarts it from the last checkpoint.",
        )
