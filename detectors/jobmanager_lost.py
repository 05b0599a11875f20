"""A JobManager is gone: it stopped itself with a fatal error, or its TaskManagers lost it.

Fires `confirm` after the first proof: `Fatal error occurred in the cluster entrypoint`, `in ResourceManager` or `on
JobManager` (one incident, however many of them); a TaskManager that gave up the JobManager in two ways (heartbeat of
the JobManager or of the ResourceManager, leadership lost, its address gated) or that could not register for the whole
registration timeout; YARN's expiry of the application attempt. After a failover nothing else tells that it failed.

No loss: a TaskManager that was frozen and blames the JobManager, whose own log or metrics go on; one TaskManager alone
while its peers keep the contact; SIGTERM or an orderly end of the JobManager; a TaskManager that closes its
connections because it ends itself. Ends when a TaskManager registers, a leader is granted, a job runs or a checkpoint
completes after it.

Why an operator cares: without high availability all state since the last savepoint is gone; with it, nothing runs until
another JobManager leads, and the TaskManagers exit at their registration timeout. `ha_connection_lost` and `node_lost`
are the better choice for why it went.

Reference: post-mortem 003 (FLINK-15836, FLINK-20417: a Kubernetes watch that expires stops the JobManager), 004.
"""

import re
from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors import timeouts
from detectors.bounded import put
from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.incidents.incident import Evidence, Finding, Forecast
from detectors.throwables import FAILURE
from detectors.timeouts import Timeouts
from detectors.topology import Topology
from detectors.units import Duration, spoken

_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")
_MAX_SOURCES = 200
_MAX_JOBS = 100
_MAX_LOSSES = 20
_MAX_RECORDS = 5
_SKEW_MS = 5_000
_LONG_AGO = -(1 << 62)
_MARKS = {
    "jm_timed_out": "heartbeat",
    "jm_unreachable": "unreachable",
    "jm_leader_lost": "leader",
    "rpc_gated": "gated",
    "registration_timed_out": "registration",
}
_BY_A_JOBMANAGER = frozenset(
    {
        "checkpoint_triggered",
        "checkpoint_completed",
        "job_state",
        "tm_registered",
        "tm_timed_out",
        "tm_unreachable",
        "leader_granted",
    }
)
_AT_WORK = frozenset({"checkpoint_completed", "tm_registered", "leader_granted"})
_REFUSED = frozenset({"gated", "unreachable", "registration"})
_UNKNOWN_ENDED_MS = 60_000


class Master(msgspec.Struct, array_like=True):
    """A JobManager by its own log: RPC address, host, and event times of its start and of its last sign of life."""

    host: str = ""
    address: str = ""
    began: int = _LONG_AGO
    heard: int = _LONG_AGO


class Witness(msgspec.Struct, array_like=True):
    """A TaskManager by its own log: the JobManager it registered with, and in which ways it has lost it since."""

    address: str = ""
    registered: int = _LONG_AGO
    marks: dict[str, int] = {}
    records: list[Evidence] = []
    job: str = ""
    suspect: str = ""
    stopped: int = _LONG_AGO


class Rhythm(msgspec.Struct, array_like=True):
    """A job's checkpoints: the last completed one, when and how large, and the triggers' distance."""

    checkpoint: str = ""
    completed: int = 0
    bytes: int = 0
    triggered: int = 0
    interval: int = 0


class Loss(msgspec.Struct, array_like=True):
    """One loss. `since` is the event time of the first symptom, `told` of the last proof, `left` of the first
    TaskManager that gave up; `at` is the clock of the first proof. `refused`: connections are, not only silent.
    """

    subject: str
    since: int
    told: int
    at: int
    source: str = ""
    address: str = ""
    host: str = ""
    job: str = ""
    why: str = ""
    fatal: bool = False
    refused: bool = False
    left: int = 0
    exited: bool = False
    tms: list[str] = []
    records: list[Evidence] = []
    said: bool = False


class JobmanagerLost(Detector):
    """See the module."""

    kind = "jobmanager_lost"
    wants = frozenset(
        {
            *_MARKS,
            *_BY_A_JOBMANAGER,
            *timeouts.MEANINGS,
            FAILURE,
            "jm_fatal",
            "jm_address",
            "jm_closed",
            "jm_silent",
            "rpc_started",
            "process_version",
            "process_signalled",
            "cluster_ending",
            "jm_heap_used",
            "checkpoints_in_progress",
        }
    ) - {"node_lost"}

    class Config(DetectorConfig):
        """Thresholds of jobmanager_lost."""

        confirm: Duration = Field(
            2_000, description="Wait this long for the reason, or for an orderly end that another source brings later."
        )
        within: Duration = Field(
            180_000, description="Two signs that a TaskManager lost it belong together within this time."
        )
        alone_for: Duration = Field(
            60_000,
            description="One TaskManager of several that lost it is believed when nothing is heard of the JobManager "
            "for this long: more often it is the TaskManager that froze.",
        )
        orderly_for: Duration = Field(
            600_000,
            description="After an orderly end TaskManagers may complain this long: heartbeat and registration timeout.",
        )

    class State(msgspec.Struct, array_like=True):
        """Processes by source; `orderly` the clock of orderly ends by source; `ended` the event time up to which
        what TaskManagers say of a JobManager belongs to a loss that is over.
        """

        masters: dict[str, Master] = {}
        witnesses: dict[str, Witness] = {}
        addresses: dict[str, str] = {}
        losses: dict[str, Loss] = {}
        orderly: dict[str, int] = {}
        ended: dict[str, int] = {}
        recovered: int = _LONG_AGO
        rhythms: dict[str, Rhythm] = {}
        timeouts: Timeouts = msgspec.field(default_factory=Timeouts)
        yarn: bool = False

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold one line of a JobManager or a TaskManager, or a sign of life among the metrics."""
        if isinstance(event, MetricEvent):
            for master in state.masters.values():
                if master.host and master.host == event.host:
                    master.heard = max(master.heard, event.time)
            return
        state.timeouts.learn(event)
        if event.meaning in _BY_A_JOBMANAGER:
            self._heard(state, event, now)
            yield from self._at_work(state, event, now, topology)
            return
        match event.meaning:
            case "process_version" | "rpc_started":
                self._started(state, event, now)
            case "process_signalled" | "cluster_ending":
                yield from self._orderly(state, event, now, topology)
            case "jm_fatal":
                self._fatal(state, event, now)
            case "failure":
                yield from self._explained(state, event, now, topology)
            case _:
                yield from self._of_a_peer(state, event, now, topology)

    def expire(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Losses that nothing has taken back in time."""
        for subject, loss in list(state.losses.items()):
            if loss.said or now < self._due(state, loss):
                continue
            if not loss.fatal and self._alive(state, loss):
                del state.losses[subject]
                continue
            loss.said = True
            yield self._finding(state, loss, now, topology)

    def due(self, state: State) -> int | None:
        """When the first loss is confirmed."""
        return min((self._due(state, loss) for loss in state.losses.values() if not loss.said), default=None)

    def _due(self, state: State, loss: Loss) -> int:
        peers = [w for w in state.witnesses.values() if w.address and w.address == loss.address and not w.marks]
        alone = not loss.fatal and not loss.refused and len(loss.tms) < 2 and peers
        return loss.at + (self.config.alone_for if alone else self.config.confirm)

    def _of_a_peer(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.meaning:
            case "am_expired":
                state.yarn = True
                self._proof(state, event, now, "", "", "YARN heard nothing of the application attempt any more")
            case "jm_address":
                self._registered(state, event, now)
            case "jm_closed" | "jm_silent":
                self._noted(state, event, now)
            case meaning if meaning in _MARKS:
                yield from self._given_up(state, event, _MARKS[meaning], now, topology)

    # What processes say of themselves

    def _started(self, state: State, event: LogEvent, now: Now) -> None:
        if event.meaning == "rpc_started":
            put(state.addresses, event.source, event.fields.get("address", ""), _MAX_SOURCES)
            return
        what = event.fields.get("what", "")
        state.yarn = state.yarn or "YARN" in what.upper()
        if "Entrypoint" in what or ("JobManager" in what and "TaskManager" not in what):
            put(state.masters, event.source, Master(event.host, "", now.time, now.time), _MAX_SOURCES)
            state.orderly.pop(event.source, None)
            state.addresses.pop(event.source, None)

    def _heard(self, state: State, event: LogEvent, now: Now) -> None:
        master = state.masters.get(event.source)
        if master is None:
            master = Master(event.host)
            put(state.masters, event.source, master, _MAX_SOURCES)
        master.heard = max(master.heard, now.time)
        if event.meaning == "leader_granted":
            master.began = max(master.began, now.time)
            master.address = event.fields.get("address", "") or master.address
            state.orderly.pop(event.source, None)
        elif event.meaning == "checkpoint_triggered" and "savepoint" not in event.fields.get("type", "").lower():
            rhythm = self._rhythm(state, event)
            if rhythm.triggered and now.time > rhythm.triggered:
                rhythm.interval = now.time - rhythm.triggered
            rhythm.triggered = max(rhythm.triggered, now.time)
        elif event.meaning == "checkpoint_completed" and now.time > (rhythm := self._rhythm(state, event)).completed:
            rhythm.checkpoint, rhythm.completed = event.fields.get("checkpoint", ""), now.time
            rhythm.bytes = int(event.fields.get("bytes", 0))

    def _rhythm(self, state: State, event: LogEvent) -> Rhythm:
        job = event.fields.get("job", "")
        if job not in state.rhythms:
            put(state.rhythms, job, Rhythm(), _MAX_JOBS)
        return state.rhythms[job]

    def _orderly(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """SIGTERM of a JobManager, or the end of its cluster; after a fatal error that end only looks orderly."""
        if event.meaning == "process_signalled":
            if event.source in state.witnesses or event.source in topology.tm_of_source:
                self._forget(state, event.source, now.time)
                return
        elif any(loss.fatal and loss.source == event.source for loss in state.losses.values()):
            return
        put(state.orderly, event.source, now.clock, _MAX_SOURCES)
        for subject, loss in list(state.losses.items()):
            if loss.fatal or (loss.source and loss.source != event.source):
                continue
            if loss.said:
                yield self._ended(state, loss, now, topology, "it had been stopped in an orderly way")
            state.losses.pop(subject, None)

    def _forget(self, state: State, source: str, time: int) -> None:
        """A TaskManager that ends itself is no witness."""
        witness = state.witnesses.get(source)
        if witness is not None:
            witness.marks, witness.stopped = {}, time
        for subject, loss in list(state.losses.items()):
            if not loss.said and loss.tms == [source]:
                del state.losses[subject]

    # Proofs

    def _fatal(self, state: State, event: LogEvent, now: Now) -> None:
        if now.clock - state.orderly.get(event.source, _LONG_AGO) <= self.config.orderly_for:
            return
        if event.source not in state.masters:
            put(state.masters, event.source, Master(event.host), _MAX_SOURCES)
        address = self._address(state, event.source)
        loss = self._proof(state, event, now, event.source, address, "it stopped with a fatal error")
        if loss is not None and not loss.fatal:
            loss.fatal = True
            loss.host = loss.host or event.host

    def _explained(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """The stack of a fatal error: the deepest cause is the reason."""
        if event.fields.get("of") != "jm_fatal":
            return
        for loss in state.losses.values():
            if loss.fatal and loss.source == event.source and now.clock - loss.at <= 2 * _SKEW_MS:
                name = event.fields.get("class", "").rpartition(".")[2]
                why = f"it stopped with {name}: {event.fields.get('message', '')}".rstrip(": ")[:240]
                if why != loss.why:
                    loss.why = why
                    if loss.said:
                        yield self._finding(state, loss, now.clock, topology)

    def _registered(self, state: State, event: LogEvent, now: Now) -> None:
        witness = self._witness(state, event)
        if now.time > witness.registered:
            witness.address, witness.registered = event.fields.get("address", ""), now.time
            witness.marks = {k: t for k, t in witness.marks.items() if t > now.time}
            witness.records, witness.stopped = [], _LONG_AGO

    def _noted(self, state: State, event: LogEvent, now: Now) -> None:
        """No proof by itself: a TaskManager that ends closes its connections too."""
        if event.source in state.masters:
            return
        witness = self._witness(state, event)
        witness.job = event.fields.get("job", "") or witness.job
        witness.suspect = event.fields.get("address", "") or witness.suspect
        self._remember(witness, event, now)

    def _given_up(self, state: State, event: LogEvent, mark: str, now: Now, topology: Topology) -> Iterator[Finding]:
        # JobMaster, ResourceManager and Dispatcher watch each other, too.
        if event.source in state.masters:
            return
        witness = self._witness(state, event)
        address = event.fields.get("address", "")
        if mark == "gated" and not self._may_lead(state, witness, address):
            return
        over = max(witness.registered, state.recovered, state.ended.get(witness.address, _LONG_AGO))
        if now.time <= over or 0 <= now.time - witness.stopped <= _UNKNOWN_ENDED_MS:
            return
        if mark == "heartbeat":
            mark += event.fields.get("peer", "")
        witness.marks = {k: t for k, t in witness.marks.items() if abs(now.time - t) <= self.config.within}
        # It gave up when it began to look for another one.
        since = now.time - (state.timeouts.registration if mark == "registration" else 0)
        witness.marks.setdefault(mark, since)
        witness.job = event.fields.get("job", "") or witness.job
        witness.suspect = address or witness.suspect
        self._remember(witness, event, now)
        if len(witness.marks) > 1 or mark == "registration" or self._also_elsewhere(state, witness, mark):
            yield from self._lost(state, event, witness, now, topology)

    def _may_lead(self, state: State, witness: Witness, address: str) -> bool:
        """Whether an address is the JobManager's, as far as is known."""
        if witness.address:
            return address == witness.address
        return not any(a == address and s in state.witnesses for s, a in state.addresses.items())

    def _also_elsewhere(self, state: State, witness: Witness, mark: str) -> bool:
        """Without a job on it, a TaskManager has no more than the ResourceManager's heartbeat to lose."""
        others = (w for w in state.witnesses.values() if w is not witness)
        return mark.startswith("heartbeat") and any(mark in w.marks for w in others)

    def _lost(self, state: State, event: LogEvent, witness: Witness, now: Now, topology: Topology) -> Iterator[Finding]:
        address = witness.address or witness.suspect
        at_address = [s for s in state.masters if address and self._address(state, s) == address]
        source = max(at_address, key=lambda s: state.masters[s].began, default="")
        loss = self._proof(state, event, now, source, address, "")
        if loss is None:
            return
        before = (len(loss.tms), loss.exited)
        gave_up = [t for k, t in witness.marks.items() if k != "gated"]
        loss.since = min(loss.since, *witness.marks.values())
        loss.left = min([t for t in (loss.left, *gave_up) if t], default=now.time)
        loss.job = loss.job or witness.job
        loss.exited = loss.exited or "registration" in witness.marks
        if event.source not in loss.tms and len(loss.tms) < _MAX_SOURCES:
            loss.tms.append(event.source)
        loss.refused = loss.refused or not _REFUSED.isdisjoint(witness.marks)
        for record in witness.records:
            if record not in loss.records and len(loss.records) < _MAX_RECORDS:
                loss.records.append(record)
        if loss.said and before != (len(loss.tms), loss.exited):
            yield self._finding(state, loss, now.clock, topology)

    def _proof(self, state: State, event: LogEvent, now: Now, source: str, address: str, why: str) -> Loss | None:
        """The loss of this JobManager, new or known; None when its end was an orderly one."""
        if now.time <= state.recovered or self._ended_orderly(state, source, now):
            return None
        loss = next((x for x in state.losses.values() if _same(x.source, source) and _same(x.address, address)), None)
        if loss is None:
            known = (address, source, event.fields.get("job", ""), event.fields.get("attempt", ""))
            subject = next((name for name in known if name), "jobmanager")
            loss = Loss(subject, now.time, now.time, now.clock)
            put(state.losses, subject, loss, _MAX_LOSSES)
        loss.since, loss.told = min(loss.since, now.time), max(loss.told, now.time)
        loss.source, loss.address = loss.source or source, loss.address or address
        loss.why = loss.why or why
        self._record(loss.records, event, now)
        return loss

    def _ended_orderly(self, state: State, source: str, now: Now) -> bool:
        """Who ended is known by its source; another process that nobody knows may have been it."""
        for ended, at in state.orderly.items():
            known = ended in state.masters
            limit = self.config.orderly_for if known else _UNKNOWN_ENDED_MS
            if (not source or not known or ended == source) and now.clock - at <= limit:
                return True
        return False

    def _alive(self, state: State, loss: Loss) -> bool:
        """Whether it went on after it was given up. Where its address was gated it has been gone since; a heartbeat
        that times out says that it was gone for most of the timeout.
        """
        master = self._master(state, loss)
        if master is None:
            return False
        gone = loss.since if loss.refused else loss.left - round(0.8 * state.timeouts.heartbeat)
        return master.heard > gone + _SKEW_MS

    def _master(self, state: State, loss: Loss) -> Master | None:
        """The process that is lost; the only one there is when addresses do not tell."""
        if loss.source:
            return state.masters.get(loss.source)
        only = list(state.masters.values())
        return only[0] if len(only) == 1 else None

    # Ends

    def _at_work(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if event.meaning not in _AT_WORK and event.fields.get("state") != "RUNNING":
            return
        master = state.masters[event.source]
        for loss in list(state.losses.values()):
            if now.time <= loss.told:
                continue
            same = master is self._master(state, loss) and master.began <= loss.since
            if same and loss.fatal and now.time - loss.told <= self.config.alone_for:
                continue
            if same and not loss.said:
                del state.losses[loss.subject]
                continue
            what = {"tm_registered": "a TaskManager registered", "leader_granted": "a JobManager leads again"}
            why = what.get(event.meaning) or (
                f"checkpoint {event.fields.get('checkpoint', '')} completed"
                if event.meaning == "checkpoint_completed"
                else "the job runs again"
            )
            yield from self._over(state, loss, now, topology, why)

    def _over(self, state: State, loss: Loss, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        if not loss.said:
            # Lost and replaced within the waiting time is a loss all the same: say it, then its end.
            yield self._finding(state, loss, now.clock, topology)
        state.recovered = max(state.recovered, now.time)
        for witness in state.witnesses.values():
            witness.marks, witness.records = {}, []
        # TaskManagers time out apart: what one still says of it is no second loss.
        put(state.ended, loss.address, now.time + 2 * self.config.confirm, _MAX_SOURCES)
        yield self._ended(state, loss, now, topology, why)

    def _ended(self, state: State, loss: Loss, now: Now, topology: Topology, why: str) -> Finding:
        state.losses.pop(loss.subject, None)
        finding = self._finding(state, loss, now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        return finding

    # What is said

    def _finding(self, state: State, loss: Loss, now: int, topology: Topology) -> Finding:
        master = self._master(state, loss)
        host = loss.address.rpartition(":")[0]
        if host in ("", "localhost", "127.0.0.1"):
            host = loss.host or (master.host if master else "") or host
        running = [j for j, known in topology.jobs.items() if known.state in ("RUNNING", "RESTARTING", "FAILING")]
        job = loss.job or topology.job_of_source.get(loss.source) or (running[0] if len(running) == 1 else "")
        name = loss.address or loss.source.partition(":")[0] or host or "of the cluster"
        rhythm = state.rhythms.get(job) or state.rhythms.get("") or Rhythm()
        last = f"; last completed checkpoint {rhythm.checkpoint}" if rhythm.checkpoint else ""
        if rhythm.checkpoint and rhythm.completed <= loss.since:
            last += f", {spoken(loss.since - rhythm.completed)} before"
        return Finding(
            kind=self.kind,
            subject=loss.subject,
            entity={
                "host": host,
                "job_id": job,
                "job_name": topology.job_name(job),
                **({"checkpoint": rhythm.checkpoint} if rhythm.checkpoint else {}),
            },
            since=loss.since,
            at=now,
            severity="critical",
            summary=f"JobManager {name} is lost: {self._why(loss, topology)}{last}",
            confidence="sure" if loss.fatal or len(loss.tms) != 1 else "fair",
            evidence=list(loss.records),
            forecast=self._forecast(state, loss, rhythm, now),
            advice=self._advice(state, loss),
        )

    def _why(self, loss: Loss, topology: Topology) -> str:
        names = [_tm(source, topology) for source in loss.tms]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        after = f" {spoken(loss.left - loss.since)} after the first sign" if loss.left - loss.since >= 1_000 else ""
        seen = f"TaskManager{'s' if len(names) > 1 else ''} {shown} gave it up{after}" if names else ""
        return ", ".join(part for part in (loss.why, seen) if part)

    def _forecast(self, state: State, loss: Loss, rhythm: Rhythm, now: int) -> Forecast | None:
        """What comes first: the checkpoint that is due, TaskManagers that exit, YARN that replaces the containers."""
        limits = state.timeouts
        due = rhythm.triggered + rhythm.interval
        if not loss.left and rhythm.interval and now < due < loss.since + limits.registration:
            what = "the next checkpoint is due, and will not come unless a JobManager leads before"
            return Forecast(what, due, due, due)
        if not loss.exited:
            left = (loss.left or loss.since) + limits.registration
            # TaskManagers that have not yet said that they lost it take up to a heartbeat timeout more.
            latest = left + (5_000 if loss.left else limits.heartbeat)
            limit = f"registration timeout {spoken(limits.registration)}"
            what = f"the TaskManagers exit unless a JobManager leads before ({limit})"
            return Forecast(what, left if loss.left else latest, left, latest)
        if state.yarn:
            at = loss.since + limits.expiry
            what = f"YARN replaces the containers (expiry {spoken(limits.expiry)})"
            return Forecast(what, at, at - 60_000, at + 60_000)
        return None

    def _advice(self, state: State, loss: Loss) -> str:
        yarn = (
            f"On YARN a container whose node does not answer is replaced after {spoken(state.timeouts.expiry)}, "
            f"at about {_hour(loss.since + state.timeouts.expiry)} UTC, and not before. "
            if state.yarn
            else ""
        )
        return (
            "See whether its process, pod or container still runs and how its log ends, and whether another "
            "JobManager leads. With high availability the job resumes from the last completed checkpoint; without it, "
            f"start the job from that checkpoint by hand. {yarn}For good: high availability with a standby, and the "
            "version in which the known defect is fixed."
        )

    def _witness(self, state: State, event: LogEvent) -> Witness:
        witness = state.witnesses.get(event.source)
        if witness is None:
            witness = Witness()
            put(state.witnesses, event.source, witness, _MAX_SOURCES)
        return witness

    def _address(self, state: State, source: str) -> str:
        return state.addresses.get(source) or state.masters[source].address

    def _record(self, records: list[Evidence], event: LogEvent, now: Now) -> None:
        record = evidence(event, now.time)
        if len(records) < _MAX_RECORDS and record not in records:
            records.append(record)

    def _remember(self, witness: Witness, event: LogEvent, now: Now) -> None:
        witness.records = [r for r in witness.records if abs(now.time - r.time) <= self.config.within]
        self._record(witness.records, event, now)


def _same(one: str, other: str) -> bool:
    """Names that do not contradict each other."""
    return not one or not other or one == other


def _tm(source: str, topology: Topology) -> str:
    """A TaskManager by its id, by the container in the name of its file, or by its host."""
    container = _CONTAINER.search(source)
    return topology.tm_of_source.get(source) or (container[0] if container else source.partition(":")[0])


def _hour(ms: int) -> str:
    return f"{ms // 3_600_000 % 24:02}:{ms // 60_000 % 60:02}"
