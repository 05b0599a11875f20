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

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact, Failure
from detectors.flink.jobmanagers import JobManagerProcess, JobManagers, TaskManagerView
from detectors.incident import Evidence, Finding
from detectors.patterns.jobmanager_loss import JobManagerLoss, finding, jobs_of
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_SOURCES = 200
_MAX_LOSSES = 20
_MAX_RECORDS = 5
_SKEW_MS = 5_000
_REFUSED = frozenset({"gated", "unreachable", "registration"})

_View: TypeAlias = "View[JobmanagerLost.Config, JobmanagerLost.State]"


class JobmanagerLost(Detector):
    """Detects JobManagers that stopped with a fatal error or lost contact with their TaskManagers."""

    kind = "jobmanager_lost"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `jobmanager_lost`."""

        confirmation_delay: Duration = threshold(
            2_000,
            "Time to wait for the reason of the loss, or for a later line of another source that shows an orderly end.",
        )
        within: Duration = threshold(
            180_000, "Time within which two signs that a TaskManager lost the JobManager belong together."
        )
        alone_for: Duration = threshold(
            60_000,
            "Time without any line or sample of the JobManager after which the report of a single TaskManager is "
            "trusted. Usually it is the TaskManager that froze.",
        )
        back_within: Duration = threshold(
            60_000,
            "Time after a new JobManager leads by which its jobs must run. Jobs that do not are reported as not "
            "recovered.",
        )
        orderly_for: Duration = threshold(
            600_000,
            "Time after an orderly end of the JobManager in which complaints of TaskManagers are ignored: heartbeat "
            "timeout and registration timeout together.",
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

    config: Config

    # What a JobManager says

    @on(facts.ProcessStarted)
    def process_started(self, view: _View, fact: facts.ProcessStarted) -> None:
        view.state.known.started(view.event, fact.what, view.time)

    @on(facts.RpcStarted)
    def rpc_started(self, view: _View, fact: facts.RpcStarted) -> None:
        view.state.known.listens(view.event.source, fact.address)

    @on("jm_heap_used", "checkpoints_in_progress")
    def measured(self, view: _View, _: list[Sample]) -> None:
        view.state.known.measured(view.event.host, view.time)

    @on(facts.CheckpointTriggered, facts.TaskManagerGone)
    def alive(self, view: _View, _: Fact) -> None:
        """Only a JobManager writes these lines."""
        view.state.known.seen(view.event, view.time)

    @on(facts.CheckpointCompleted)
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        self._runs_again(view, view.state.known.seen(view.event, view.time), f"checkpoint {fact.number} completed")

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        master = view.state.known.seen(view.event, view.time)
        if fact.state == "RUNNING":
            self._runs_again(view, master, "the job runs again")

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, _: Fact) -> None:
        master = view.state.known.seen(view.event, view.time)
        self._runs_again(view, master, "a TaskManager registered", with_jobs=False)

    @on(facts.LeadershipGranted)
    def leadership_granted(self, view: _View, fact: facts.LeadershipGranted) -> None:
        master = view.state.known.leads(view.event, fact.address, view.time)
        self._runs_again(view, master, "a JobManager was granted leadership", with_jobs=False)

    @on(facts.JobManagerFatal)
    def fatal(self, view: _View, _: Fact) -> None:
        source = view.event.source
        view.state.known.master(view.event)
        address = view.state.known.address(source)
        loss = self._proof(view, source, address, "it stopped with a fatal error")
        if loss is not None and not loss.fatal:
            loss.fatal = True
            loss.host = loss.host or view.event.host

    @on(Failure)
    def explained(self, view: _View, fact: Failure) -> None:
        """Take the deepest cause in the stack trace of a fatal error as the reason."""
        if fact.of != "jm_fatal":
            return
        for loss in view.state.losses.values():
            if loss.fatal and loss.source == view.event.source and view.clock - loss.at <= 2 * _SKEW_MS:
                why = f"it stopped with {fact.name.rpartition('.')[2]}: {fact.message}".rstrip(": ")[:240]
                if why != loss.why:
                    loss.why = why
                    if loss.reported:
                        view.report(self._finding(view, loss))

    # Orderly ends

    @on(facts.ProcessSignalled)
    def signalled(self, view: _View, _: Fact) -> None:
        if view.event.source in view.state.known.witnesses or view.event.source in view.topology.tm_of_source:
            self._taskmanager_stopping(view)
        else:
            self._orderly(view)

    @on(facts.ClusterEnding)
    def cluster_ending(self, view: _View, _: Fact) -> None:
        """After a fatal error the end of a cluster only looks orderly."""
        if not any(loss.fatal and loss.source == view.event.source for loss in view.state.losses.values()):
            self._orderly(view)

    def _orderly(self, view: _View) -> None:
        known = view.state.known
        known.ends(view.event.source, view.time)
        for loss in list(view.state.losses.values()):
            if not loss.fatal and known.ended_orderly(loss.source, loss.last_proof, self.config.orderly_for):
                if loss.reported:
                    self._end(view, loss, "it was stopped in an orderly way")
                view.state.losses.pop(loss.subject, None)

    def _taskmanager_stopping(self, view: _View) -> None:
        """Ignore complaints of a TaskManager that is ending itself."""
        source = view.event.source
        witness = view.state.known.witnesses.get(source)
        if witness is not None:
            witness.marks, witness.stopped = {}, view.time
        for subject, loss in list(view.state.losses.items()):
            if not loss.reported and loss.tms == [source]:
                del view.state.losses[subject]

    # What TaskManagers and YARN say

    @on(facts.ApplicationMasterExpired)
    def expired(self, view: _View, fact: facts.ApplicationMasterExpired) -> None:
        view.state.known.yarn = True
        self._proof(view, "", "", "YARN no longer received heartbeats of the application attempt", fact.attempt)

    @on(facts.JobManagerFound)
    def found(self, view: _View, fact: facts.JobManagerFound) -> None:
        view.state.known.witness(view.event.source).register(fact.address, view.time)

    @on(facts.JobManagerDisconnected, facts.JobManagerUnresponsive)
    def connection_closed(self, view: _View, fact: facts.JobManagerDisconnected | facts.JobManagerUnresponsive) -> None:
        """Remember a closed connection. It proves nothing alone: a TaskManager that ends closes its connections too."""
        if view.event.source not in view.state.known.masters:
            witness = view.state.known.witness(view.event.source)
            witness.job = getattr(fact, "job", "") or witness.job
            witness.suspect = getattr(fact, "address", "") or witness.suspect
            self._remember(view, witness)

    @on(facts.JobManagerMissed)
    def missed(self, view: _View, fact: facts.JobManagerMissed) -> None:
        sign = fact.sign + (fact.peer if fact.sign == "heartbeat" else "")
        self._lost_contact(view, sign, view.time, job=fact.job)

    @on(facts.AddressGated)
    def gated(self, view: _View, fact: facts.AddressGated) -> None:
        known = view.state.known
        # JobMaster, ResourceManager and Dispatcher also monitor each other.
        source = view.event.source
        if source not in known.masters and known.may_lead(known.witness(source), fact.address):
            self._lost_contact(view, "gated", view.time, address=fact.address)

    @on(facts.RegistrationTimedOut)
    def registration_timed_out(self, view: _View, _: Fact) -> None:
        """It lost the JobManager when it began to look for another one."""
        self._lost_contact(view, "registration", view.time - view.topology.timeouts.registration)

    def _lost_contact(self, view: _View, sign: str, since: int, job: str = "", address: str = "") -> None:
        state, source = view.state, view.event.source
        if source in state.known.masters:
            return
        witness = state.known.witness(source)
        over = max(witness.registered, state.recovered, state.ended.get(witness.address, LONG_AGO))
        if view.time <= over or witness.stopping(view.time):
            return
        witness.marks = {k: t for k, t in witness.marks.items() if abs(view.time - t) <= self.config.within}
        witness.marks.setdefault(sign, since)
        witness.job = job or witness.job
        witness.suspect = address or witness.suspect
        self._remember(view, witness)
        # A TaskManager without a job can give no second sign.
        others = (w for w in state.known.witnesses.values() if w is not witness)
        also_elsewhere = sign.startswith("heartbeat") and any(sign in w.marks for w in others)
        if len(witness.marks) > 1 or sign == "registration" or also_elsewhere:
            self._lost(view, witness)

    def _lost(self, view: _View, witness: TaskManagerView) -> None:
        source, address = view.event.source, witness.address or witness.suspect
        loss = self._proof(view, view.state.known.at(address), address, "", witness.job)
        if loss is None:
            return
        before = (len(loss.tms), loss.exited)
        contact_lost = [t for k, t in witness.marks.items() if k != "gated"]
        loss.since = min(loss.since, *witness.marks.values())
        loss.left = min([t for t in (loss.left, *contact_lost) if t], default=view.time)
        loss.job = loss.job or witness.job
        loss.exited = loss.exited or "registration" in witness.marks
        if source not in loss.tms and len(loss.tms) < _MAX_SOURCES:
            loss.tms.append(source)
        loss.refused = loss.refused or not _REFUSED.isdisjoint(witness.marks)
        for record in witness.records:
            _keep(loss.records, record)
        if loss.reported and before != (len(loss.tms), loss.exited):
            view.report(self._finding(view, loss))

    def _proof(self, view: _View, source: str, address: str, why: str, name: str = "") -> JobManagerLoss | None:
        """The new or known loss of this JobManager, called `name` without both; None if its end was orderly."""
        state = view.state
        orderly = state.known.ended_orderly(source, view.time, self.config.orderly_for)
        if view.time <= state.recovered or orderly:
            return None
        loss = next((x for x in state.losses.values() if _same(x.source, source) and _same(x.address, address)), None)
        if loss is None:
            loss = JobManagerLoss(address or source or name or "jobmanager", view.time, view.time, view.clock)
            put_bounded(state.losses, loss.subject, loss, _MAX_LOSSES)
        loss.since, loss.last_proof = min(loss.since, view.time), max(loss.last_proof, view.time)
        loss.source, loss.address = loss.source or source, loss.address or address
        loss.why = loss.why or why
        _keep(loss.records, view.record())
        return loss

    def _remember(self, view: _View, witness: TaskManagerView) -> None:
        witness.records = [r for r in witness.records if abs(view.time - r.time) <= self.config.within]
        _keep(witness.records, view.record())

    # Decisions

    def on_deadline(self, view: _View) -> None:
        """Report losses that no line has disproved in time, and jobs that have not come back with a JobManager."""
        for loss in list(view.state.losses.values()):
            if loss.reported and loss.led and not loss.without and view.clock >= loss.led + self.config.back_within:
                loss.without = True
                view.report(self._finding(view, loss))
            if loss.reported or view.clock < self._due(view.state, loss):
                continue
            if not loss.fatal and self._alive(view, loss):
                del view.state.losses[loss.subject]
                continue
            loss.reported = True
            view.report(self._finding(view, loss))

    def next_deadline(self, view: _View) -> int | None:
        """When the first loss is confirmed, or a job should have come back."""
        losses = view.state.losses.values()
        times = [self._due(view.state, loss) for loss in losses if not loss.reported]
        times += [x.led + self.config.back_within for x in losses if x.reported and x.led and not x.without]
        return min(times, default=None)

    def _due(self, state: State, loss: JobManagerLoss) -> int:
        peers = [w for w in state.known.witnesses.values() if w.address and w.address == loss.address and not w.marks]
        doubtful = peers or self._master(state, loss) is None
        alone = not loss.fatal and not loss.refused and len(loss.tms) < 2 and doubtful
        return loss.at + (self.config.alone_for if alone else self.config.confirmation_delay)

    def _alive(self, view: _View, loss: JobManagerLoss) -> bool:
        """Whether the JobManager was alive after a TaskManager lost it.

        A gated address means that it was gone from then on. A heartbeat that timed out means that it had been gone for
        most of the timeout.
        """
        master = self._master(view.state, loss)
        if master is None:
            return False
        gone = loss.since if loss.refused else loss.left - round(0.8 * view.topology.timeouts.heartbeat)
        return master.last_seen > gone + _SKEW_MS

    def _master(self, state: State, loss: JobManagerLoss) -> JobManagerProcess | None:
        """The process that is lost. If addresses do not show which, the only JobManager."""
        if loss.source:
            return state.known.masters.get(loss.source)
        only = list(state.known.masters.values())
        return only[0] if len(only) == 1 else None

    # Ends

    def _runs_again(self, view: _View, master: JobManagerProcess, why: str, with_jobs: bool = True) -> None:
        """End the losses before this sign of work. A new JobManager alone brings no job back (`with_jobs`)."""
        for loss in list(view.state.losses.values()):
            if view.time <= loss.last_proof:
                continue
            same = master is self._master(view.state, loss) and master.began <= loss.since
            if same and loss.fatal and view.time - loss.last_proof <= self.config.alone_for:
                continue
            if same and not loss.reported:
                del view.state.losses[loss.subject]
            elif not with_jobs and jobs_of(loss, view.topology):
                loss.led = loss.led or view.clock
            else:
                self._recovered(view, loss, why)

    def _recovered(self, view: _View, loss: JobManagerLoss, why: str) -> None:
        state = view.state
        if not loss.reported:
            # A JobManager that was replaced within the waiting time was lost too: report the loss, then its end.
            view.report(self._finding(view, loss))
        state.recovered = max(state.recovered, view.time)
        for witness in state.known.witnesses.values():
            witness.marks, witness.records = {}, []
        # TaskManagers time out at different times: later complaints about the same JobManager are not a second loss.
        put_bounded(state.ended, loss.address, view.time + 2 * self.config.confirmation_delay, _MAX_SOURCES)
        self._end(view, loss, why)

    def _end(self, view: _View, loss: JobManagerLoss, why: str) -> None:
        view.state.losses.pop(loss.subject, None)
        view.close(self._finding(view, loss), why)

    def _finding(self, view: _View, loss: JobManagerLoss) -> Finding:
        return finding(view, loss, self._master(view.state, loss), view.state.known.yarn)


def _keep(records: list[Evidence], record: Evidence) -> None:
    if len(records) < _MAX_RECORDS and record not in records:
        records.append(record)


def _same(one: str, other: str) -> bool:
    """Whether two names may be of the same process: an empty name fits any."""
    return not one or not other or one == other
