"""A JobManager is lost: it stopped with a fatal error, or its TaskManagers lost contact with it.

Opens `confirmation_delay` after the first proof: `Fatal error occurred in the cluster entrypoint`, `in ResourceManager`
or `on JobManager` (one incident, however many of them); a TaskManager that lost the JobManager in two ways (heartbeat
of the JobManager or of the ResourceManager, leadership lost, its address gated) or could not register for the whole
registration timeout; YARN's expiry of the application attempt. After a failover no other line shows the failure.

Not reported: a TaskManager that was frozen and blames a JobManager whose own log or metrics continue; a single
TaskManager while its peers keep the contact; SIGTERM or an orderly end of the JobManager; a TaskManager that closes its
connections because it ends itself. Resolved when a job runs or a checkpoint completes after the loss; in a cluster
without jobs when a TaskManager registers or a leader is granted. A new JobManager alone brings no job back: without
high availability it knows of no job.

Why it matters: without high availability all state since the last savepoint is lost. With it, nothing runs until
another JobManager leads, and the TaskManagers exit at their registration timeout. `ha_connection_lost` and `node_lost`
say why the JobManager was lost.

Reference: post-mortem 003 (FLINK-15836, FLINK-20417: a Kubernetes watch that expires stops the JobManager), 004.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink import timeouts
from detectors.flink.jobmanager_loss import JobManagerLoss, finding, jobs_of
from detectors.flink.jobmanagers import (
    BY_A_JOBMANAGER,
    STARTS,
    JobManagerProcess,
    JobManagers,
    TaskManagerView,
)
from detectors.flink.stack_traces import FAILURE
from detectors.flink.timeouts import Timeouts
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_SOURCES = 200
_MAX_LOSSES = 20
_MAX_RECORDS = 5
_SKEW_MS = 5_000
_MARKS = {
    "jm_timed_out": "heartbeat",
    "jm_unreachable": "unreachable",
    "jm_leader_lost": "leader",
    "rpc_gated": "gated",
    "registration_timed_out": "registration",
}
_AT_WORK = frozenset({"checkpoint_completed", "tm_registered", "leader_granted"})
_REFUSED = frozenset({"gated", "unreachable", "registration"})


class JobmanagerLost(Detector):
    """Detects JobManagers that stopped with a fatal error or lost contact with their TaskManagers."""

    kind = "jobmanager_lost"
    belongs_to = "cluster"
    event_types = frozenset(
        {
            *_MARKS,
            *BY_A_JOBMANAGER,
            *STARTS,
            *timeouts.MEANINGS,
            FAILURE,
            "jm_fatal",
            "jm_address",
            "jm_closed",
            "jm_silent",
            "process_signalled",
            "cluster_ending",
            "jm_heap_used",
            "checkpoints_in_progress",
        }
    ) - {"node_lost"}

    class Config(DetectorConfig):
        """Settings of the detector `jobmanager_lost`."""

        confirmation_delay: Duration = Field(
            2_000,
            description="Time to wait for the reason of the loss, or for a later line of another source that shows "
            "an orderly end.",
        )
        within: Duration = Field(
            180_000,
            description="Time within which two signs that a TaskManager lost the JobManager belong together.",
        )
        alone_for: Duration = Field(
            60_000,
            description="Time without any line or sample of the JobManager after which the report of a single "
            "TaskManager is trusted. Usually it is the TaskManager that froze.",
        )
        back_within: Duration = Field(
            60_000,
            description="Time after a new JobManager leads by which its jobs must run. Jobs that do not are reported "
            "as not recovered.",
        )
        orderly_for: Duration = Field(
            600_000,
            description="Time after an orderly end of the JobManager in which complaints of TaskManagers are ignored: "
            "heartbeat timeout and registration timeout together.",
        )

    class State(msgspec.Struct, array_like=True):
        """Losses by subject.

        `ended` is the event time up to which complaints of TaskManagers about an address belong to a resolved loss,
        `recovered` the event time of the last recovery.
        """

        known: JobManagers = msgspec.field(default_factory=JobManagers)
        losses: dict[str, JobManagerLoss] = {}
        ended: dict[str, int] = {}
        recovered: int = LONG_AGO
        timeouts: Timeouts = msgspec.field(default_factory=Timeouts)

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            state.known.measured(event)
            return
        state.timeouts.learn(event)
        if event.event_type in BY_A_JOBMANAGER:
            master = state.known.line(event, now.time)
            yield from self._job_or_leader_active(state, master, event, now, topology)
            return
        match event.event_type:
            case "process_version" | "rpc_started":
                state.known.started(event, now.time)
            case "process_signalled" | "cluster_ending":
                yield from self._orderly(state, event, now, topology)
            case "jm_fatal":
                self._fatal(state, event, now)
            case "failure":
                yield from self._explained(state, event, now, topology)
            case _:
                yield from self._from_taskmanager(state, event, now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report losses that no line has disproved in time, and jobs that have not come back with a JobManager."""
        for subject, loss in list(state.losses.items()):
            if loss.reported and loss.led and not loss.without and now >= loss.led + self.config.back_within:
                loss.without = True
                yield self._finding(state, loss, now, topology)
            if loss.reported or now < self._due(state, loss):
                continue
            if not loss.fatal and self._alive(state, loss):
                del state.losses[subject]
                continue
            loss.reported = True
            yield self._finding(state, loss, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the first loss is confirmed, or a job should have come back."""
        times = [self._due(state, loss) for loss in state.losses.values() if not loss.reported]
        times += [
            x.led + self.config.back_within for x in state.losses.values() if x.reported and x.led and not x.without
        ]
        return min(times, default=None)

    def _due(self, state: State, loss: JobManagerLoss) -> int:
        peers = [w for w in state.known.witnesses.values() if w.address and w.address == loss.address and not w.marks]
        doubtful = peers or self._master(state, loss) is None
        alone = not loss.fatal and not loss.refused and len(loss.tms) < 2 and doubtful
        return loss.at + (self.config.alone_for if alone else self.config.confirmation_delay)

    def _from_taskmanager(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.event_type:
            case "am_expired":
                state.known.yarn = True
                self._proof(state, event, now, "", "", "YARN no longer received heartbeats of the application attempt")
            case "jm_address":
                state.known.witness(event).register(event.fields.get("address", ""), now.time)
            case "jm_closed" | "jm_silent":
                self._connection_closed(state, event, now)
            case event_type if event_type in _MARKS:
                yield from self._lost_contact(state, event, _MARKS[event_type], now, topology)

    # Orderly ends

    def _orderly(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Take in SIGTERM to a JobManager, or the end of its cluster. After a fatal error that only looks orderly."""
        if event.event_type == "process_signalled":
            if event.source in state.known.witnesses or event.source in topology.tm_of_source:
                self._taskmanager_stopping(state, event.source, now.time)
                return
        elif any(loss.fatal and loss.source == event.source for loss in state.losses.values()):
            return
        state.known.ends(event.source, now.time)
        for subject, loss in list(state.losses.items()):
            if loss.fatal or not state.known.ended_orderly(loss.source, loss.last_proof, self.config.orderly_for):
                continue
            if loss.reported:
                yield self._ended(state, loss, now, topology, "it was stopped in an orderly way")
            state.losses.pop(subject, None)

    def _taskmanager_stopping(self, state: State, source: str, time: int) -> None:
        """Ignore complaints of a TaskManager that is ending itself."""
        witness = state.known.witnesses.get(source)
        if witness is not None:
            witness.marks, witness.stopped = {}, time
        for subject, loss in list(state.losses.items()):
            if not loss.reported and loss.tms == [source]:
                del state.losses[subject]

    # Proofs

    def _fatal(self, state: State, event: LogEvent, now: Now) -> None:
        state.known.master(event)
        address = state.known.address(event.source)
        loss = self._proof(state, event, now, event.source, address, "it stopped with a fatal error")
        if loss is not None and not loss.fatal:
            loss.fatal = True
            loss.host = loss.host or event.host

    def _explained(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Take the deepest cause in the stack trace of a fatal error as the reason."""
        if event.fields.get("of") != "jm_fatal":
            return
        for loss in state.losses.values():
            if loss.fatal and loss.source == event.source and now.clock - loss.at <= 2 * _SKEW_MS:
                name = event.fields.get("class", "").rpartition(".")[2]
                why = f"it stopped with {name}: {event.fields.get('message', '')}".rstrip(": ")[:240]
                if why != loss.why:
                    loss.why = why
                    if loss.reported:
                        yield self._finding(state, loss, now.clock, topology)

    def _connection_closed(self, state: State, event: LogEvent, now: Now) -> None:
        """Remember a closed connection. It proves nothing alone: a TaskManager that ends closes its connections too."""
        if event.source in state.known.masters:
            return
        witness = state.known.witness(event)
        witness.job = event.fields.get("job", "") or witness.job
        witness.suspect = event.fields.get("address", "") or witness.suspect
        self._remember(witness, event, now)

    def _lost_contact(
        self, state: State, event: LogEvent, mark: str, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        # JobMaster, ResourceManager and Dispatcher also monitor each other.
        if event.source in state.known.masters:
            return
        witness = state.known.witness(event)
        address = event.fields.get("address", "")
        if mark == "gated" and not state.known.may_lead(witness, address):
            return
        over = max(witness.registered, state.recovered, state.ended.get(witness.address, LONG_AGO))
        if now.time <= over or witness.stopping(now.time):
            return
        if mark == "heartbeat":
            mark += event.fields.get("peer", "")
        witness.marks = {k: t for k, t in witness.marks.items() if abs(now.time - t) <= self.config.within}
        # It lost the JobManager when it began to look for another one.
        since = now.time - (state.timeouts.registration if mark == "registration" else 0)
        witness.marks.setdefault(mark, since)
        witness.job = event.fields.get("job", "") or witness.job
        witness.suspect = address or witness.suspect
        self._remember(witness, event, now)
        if len(witness.marks) > 1 or mark == "registration" or self._also_elsewhere(state, witness, mark):
            yield from self._lost(state, event, witness, now, topology)

    def _also_elsewhere(self, state: State, witness: TaskManagerView, mark: str) -> bool:
        """Whether another TaskManager lost the same heartbeat. A TaskManager without a job can give no second sign."""
        others = (w for w in state.known.witnesses.values() if w is not witness)
        return mark.startswith("heartbeat") and any(mark in w.marks for w in others)

    def _lost(
        self, state: State, event: LogEvent, witness: TaskManagerView, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        address = witness.address or witness.suspect
        loss = self._proof(state, event, now, state.known.at(address), address, "")
        if loss is None:
            return
        before = (len(loss.tms), loss.exited)
        contact_lost = [t for k, t in witness.marks.items() if k != "gated"]
        loss.since = min(loss.since, *witness.marks.values())
        loss.left = min([t for t in (loss.left, *contact_lost) if t], default=now.time)
        loss.job = loss.job or witness.job
        loss.exited = loss.exited or "registration" in witness.marks
        if event.source not in loss.tms and len(loss.tms) < _MAX_SOURCES:
            loss.tms.append(event.source)
        loss.refused = loss.refused or not _REFUSED.isdisjoint(witness.marks)
        for record in witness.records:
            if record not in loss.records and len(loss.records) < _MAX_RECORDS:
                loss.records.append(record)
        if loss.reported and before != (len(loss.tms), loss.exited):
            yield self._finding(state, loss, now.clock, topology)

    def _proof(
        self, state: State, event: LogEvent, now: Now, source: str, address: str, why: str
    ) -> JobManagerLoss | None:
        """The new or known loss of this JobManager; None if its end was orderly."""
        orderly = state.known.ended_orderly(source, now.time, self.config.orderly_for)
        if now.time <= state.recovered or orderly:
            return None
        loss = next((x for x in state.losses.values() if _same(x.source, source) and _same(x.address, address)), None)
        if loss is None:
            known = (address, source, event.fields.get("job", ""), event.fields.get("attempt", ""))
            subject = next((name for name in known if name), "jobmanager")
            loss = JobManagerLoss(subject, now.time, now.time, now.clock)
            put_bounded(state.losses, subject, loss, _MAX_LOSSES)
        loss.since, loss.last_proof = min(loss.since, now.time), max(loss.last_proof, now.time)
        loss.source, loss.address = loss.source or source, loss.address or address
        loss.why = loss.why or why
        self._record(loss.records, event, now)
        return loss

    def _alive(self, state: State, loss: JobManagerLoss) -> bool:
        """Whether the JobManager was alive after a TaskManager lost it.

        A gated address means that it was gone from then on. A heartbeat that timed out means that it had been gone for
        most of the timeout.
        """
        master = self._master(state, loss)
        if master is None:
            return False
        gone = loss.since if loss.refused else loss.left - round(0.8 * state.timeouts.heartbeat)
        return master.last_seen > gone + _SKEW_MS

    def _master(self, state: State, loss: JobManagerLoss) -> JobManagerProcess | None:
        """The process that is lost. If addresses do not show which, the only JobManager."""
        if loss.source:
            return state.known.masters.get(loss.source)
        only = list(state.known.masters.values())
        return only[0] if len(only) == 1 else None

    # Ends

    def _job_or_leader_active(
        self, state: State, master: JobManagerProcess, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if event.event_type not in _AT_WORK and event.fields.get("state") != "RUNNING":
            return
        for loss in list(state.losses.values()):
            if now.time <= loss.last_proof:
                continue
            same = master is self._master(state, loss) and master.began <= loss.since
            if same and loss.fatal and now.time - loss.last_proof <= self.config.alone_for:
                continue
            if same and not loss.reported:
                del state.losses[loss.subject]
                continue
            if event.event_type in ("tm_registered", "leader_granted") and jobs_of(loss, topology):
                loss.led = loss.led or now.clock
                continue
            what = {
                "tm_registered": "a TaskManager registered",
                "leader_granted": "a JobManager was granted leadership",
            }
            why = what.get(event.event_type) or (
                f"checkpoint {event.fields.get('checkpoint', '')} completed"
                if event.event_type == "checkpoint_completed"
                else "the job runs again"
            )
            yield from self._recovered(state, loss, now, topology, why)

    def _recovered(
        self, state: State, loss: JobManagerLoss, now: Now, topology: Topology, why: str
    ) -> Iterator[Finding]:
        if not loss.reported:
            # A JobManager that was replaced within the waiting time was lost too: report the loss, then its end.
            yield self._finding(state, loss, now.clock, topology)
        state.recovered = max(state.recovered, now.time)
        for witness in state.known.witnesses.values():
            witness.marks, witness.records = {}, []
        # TaskManagers time out at different times: later complaints about the same JobManager are not a second loss.
        put_bounded(state.ended, loss.address, now.time + 2 * self.config.confirmation_delay, _MAX_SOURCES)
        yield self._ended(state, loss, now, topology, why)

    def _ended(self, state: State, loss: JobManagerLoss, now: Now, topology: Topology, why: str) -> Finding:
        state.losses.pop(loss.subject, None)
        finding = self._finding(state, loss, now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        return finding

    def _finding(self, state: State, loss: JobManagerLoss, now: int, topology: Topology) -> Finding:
        return finding(loss, self._master(state, loss), state.known, state.timeouts, now, topology)

    def _record(self, records: list[Evidence], event: LogEvent, now: Now) -> None:
        record = evidence(event, now.time)
        if len(records) < _MAX_RECORDS and record not in records:
            records.append(record)

    def _remember(self, witness: TaskManagerView, event: LogEvent, now: Now) -> None:
        witness.records = [r for r in witness.records if abs(now.time - r.time) <= self.config.within]
        self._record(witness.records, event, now)


def _same(one: str, other: str) -> bool:
    """Whether two names may be of the same process: an empty name fits any."""
    return not one or not other or one == other
