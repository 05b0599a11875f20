"""A JobManager is lost: it stopped with a fatal error, or its TaskManagers lost contact with it.

Opens `confirmation_delay` after the first proof: `Fatal error occurred …` or `FATAL: Thread …` of a JobManager, or its
end after an OutOfMemoryError (one incident, however many); a TaskManager that lost the JobManager in two ways
(heartbeat of the JobManager or of the ResourceManager, leadership lost, its address gated) or could not register for
the whole registration timeout; YARN's expiry of the application attempt. After a failover no other line shows it.

Not reported: what TaskManagers write that are out of memory or end themselves, or that were frozen or cut off while the
JobManager's own log or metrics continue (`witnesses.py`); one TaskManager whose peers keep the contact; an orderly end.
Resolved when a job runs or a checkpoint completes after the loss; in a cluster without jobs when a TaskManager has
registered or a leader is granted: without high availability a new JobManager knows of no job.

Why it matters: without high availability all state since the last savepoint is lost. With it, nothing runs until
another JobManager leads. `ha_connection_lost` and `node_lost` say why it was lost.

Reference: post-mortem 003 (FLINK-15836, FLINK-20417: a Kubernetes watch that expires stops the JobManager), 004.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact, Failure
from detectors.flink.processes.dying_processes import out_of_its_own_memory
from detectors.flink.processes.jobmanagers import ONLY_JOBMANAGERS, JobManagerProcess, JobManagers
from detectors.incident import Finding
from detectors.patterns.jobmanager_loss import SKEW_MS, JobManagerLoss, finding, jobs_of, loss_of
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_SOURCES = 200
_ORDERLY = "it was stopped in an orderly way"

_View: TypeAlias = "View[JobmanagerLost.Config, JobmanagerLost.State]"


class JobmanagerLost(Detector):
    """Detects JobManagers that stopped with a fatal error or lost contact with their TaskManagers."""

    kind = "jobmanager_lost"
    belongs_to = "cluster"

    class Config(DetectorConfig):
        """Settings of the detector `jobmanager_lost`."""

        confirmation_delay: Duration = threshold(
            2_000, "Time to wait for the reason of the loss, or for a line that shows an orderly end or a fatal error."
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
            60_000, "Time after a new JobManager leads by which its jobs must run; others are not recovered."
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

    @on(facts.ProcessStarted)
    def process_started(self, view: _View, fact: facts.ProcessStarted) -> None:
        view.state.known.started(view.event, fact.what, view.time)

    @on(facts.RpcStarted)
    def rpc_started(self, view: _View, fact: facts.RpcStarted) -> None:
        view.state.known.listens(view.event.source, fact.address)

    @on("jm_heap_used", "checkpoints_in_progress")
    def measured(self, view: _View, _: list[Sample]) -> None:
        view.state.known.measured(view.event.host, view.time)

    @on(*ONLY_JOBMANAGERS)
    def alive(self, view: _View, _: Fact) -> None:
        self._seen(view)

    @on(facts.CheckpointCompleted)
    def completed(self, view: _View, fact: facts.CheckpointCompleted) -> None:
        self._runs_again(view, self._seen(view), f"checkpoint {fact.number} completed")

    @on(facts.JobStateChanged)
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        master = self._seen(view)
        if fact.state == "RUNNING":
            self._runs_again(view, master, "the job runs again")

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, _: Fact) -> None:
        self._runs_again(view, self._seen(view), "a TaskManager registered", with_jobs=False)

    @on(facts.LeadershipGranted)
    def leadership_granted(self, view: _View, fact: facts.LeadershipGranted) -> None:
        master = view.state.known.leads(view.event, fact.address, view.time)
        self._runs_again(view, master, "a JobManager was granted leadership", with_jobs=False)

    @on(facts.JobManagerFatal, facts.ProcessFatal)
    def fatal(self, view: _View, fact: Fact) -> None:
        source, known = view.event.source, view.state.known
        if isinstance(fact, facts.ProcessFatal | facts.ProcessSignalled) and source not in view.topology.masters:
            return
        known.master(view.event)
        known.died(source, view.time)
        loss = self._proof(view, source, known.address(source), "it stopped with a fatal error")
        if loss is not None and not loss.fatal:
            loss.fatal, loss.host = True, loss.host or view.event.host

    @on(Failure)
    def explained(self, view: _View, fact: Failure) -> None:
        """Take the deepest cause in the stack trace of a fatal error as the reason."""
        self._doubt(view)
        if view.event.source in view.state.known.unexplained and out_of_its_own_memory(fact):
            self.fatal(view, fact)
        if fact.of not in ("jm_fatal", "process_fatal"):
            return
        for loss in view.state.losses.values():
            its = loss.fatal and loss.source == view.event.source and view.clock - loss.at <= 2 * SKEW_MS
            if its and loss.explain(fact) and loss.reported:
                view.report(self._finding(view, loss))

    @on(facts.ProcessSignalled)
    def signalled(self, view: _View, fact: facts.ProcessSignalled) -> None:
        source, known = view.event.source, view.state.known
        if source not in known.witnesses and source not in view.topology.tm_of_source:
            self.cluster_ending(view, fact)
        elif source in known.witnesses:
            # Complaints of a TaskManager that is ending itself prove nothing.
            known.witnesses[source].stop(view.time)
        for subject, loss in list(view.state.losses.items()):
            if not loss.reported and loss.tms == [source]:
                del view.state.losses[subject]

    @on(facts.ClusterEnding)
    def cluster_ending(self, view: _View, end: facts.ClusterEnding | facts.ProcessSignalled) -> None:
        """After a fatal error the end of a cluster only looks orderly. The error's line may come a second later."""
        if end.how != "orderly":
            self.fatal(view, end)
            return
        known, source = view.state.known, view.event.source
        known.ends(source, view.time, not isinstance(end, facts.ClusterEnding) or end.status != "UNKNOWN")
        for loss in list(view.state.losses.values()):
            if not loss.fatal and known.ended_orderly(loss.source, loss.last_proof, self.config.orderly_for):
                loss.ending = loss.ending or view.clock
                if source not in known.unexplained:
                    self._drop(view, loss, _ORDERLY)

    @on(facts.ApplicationMasterExpired)
    def expired(self, view: _View, fact: facts.ApplicationMasterExpired) -> None:
        view.state.known.yarn = True
        self._proof(view, "", "", "YARN no longer received heartbeats of the application attempt", fact.attempt)

    @on(facts.JobManagerFound)
    def found(self, view: _View, fact: facts.JobManagerFound) -> None:
        view.state.known.witness(view.event.source).register(fact.address, view.time)

    @on(facts.JobManagerDisconnected)
    def disconnected(self, view: _View, fact: facts.JobManagerDisconnected) -> None:
        """It proves nothing alone: a TaskManager that ends closes its connections too."""
        if view.event.source not in view.state.known.masters:
            witness = view.state.known.witness(view.event.source)
            witness.remember(view.record(), self.config.within, fact.job, fact.address)

    @on(facts.JobManagerMissed)
    def missed(self, view: _View, fact: facts.JobManagerMissed) -> None:
        sign = fact.sign + (fact.peer if fact.sign == "heartbeat" else "")
        self._lost_contact(view, sign, view.time, job=fact.job)

    @on(facts.AddressGated)
    def gated(self, view: _View, fact: facts.AddressGated) -> None:
        known, source = view.state.known, view.event.source
        # JobMaster, ResourceManager and Dispatcher also monitor each other.
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
        if view.time <= over or witness.stopping(view.time) or not view.topology.witnesses.believed(source, view.time):
            return
        witness.complain(sign, since, view.time, self.config.within)
        witness.remember(view.record(), self.config.within, job, address)
        # A TaskManager without a job can give no second sign.
        also_elsewhere = sign.startswith("heartbeat") and state.known.also_marked(sign, witness)
        if len(witness.marks) > 1 or sign == "registration" or also_elsewhere:
            address = witness.address or witness.suspect
            loss = self._proof(view, state.known.at(address), address, "", witness.job)
            if loss is not None and loss.blame(source, witness, view.time) and loss.reported:
                view.report(self._finding(view, loss))

    def _proof(self, view: _View, source: str, address: str, why: str, name: str = "") -> JobManagerLoss | None:
        """The new or known loss of this JobManager, called `name` without both; None if its end was orderly."""
        state = view.state
        if view.time <= state.recovered or state.known.ended_orderly(source, view.time, self.config.orderly_for):
            return None
        loss = loss_of(state.losses, source, address, name, view)
        loss.prove(source, address, why, view.record())
        return loss

    def on_deadline(self, view: _View) -> None:
        """Report losses that no line has disproved in time, and jobs that have not come back with a JobManager."""
        for loss in list(view.state.losses.values()):
            if view.clock < (self._due(view, loss) or view.clock + 1):
                continue
            if loss.ending and not loss.fatal:
                self._drop(view, loss, _ORDERLY)
            elif not loss.reported and loss.disproved(view.state.known, view.topology.timeouts.heartbeat):
                del view.state.losses[loss.subject]
            else:
                loss.reported, loss.without = True, loss.reported
                view.report(self._finding(view, loss))

    def next_deadline(self, view: _View) -> int | None:
        """When the first loss is confirmed, or a job should have come back."""
        return min([at for loss in view.state.losses.values() if (at := self._due(view, loss))], default=None)

    def _due(self, view: _View, loss: JobManagerLoss) -> int:
        """When it is to be reported, for the first time or because its jobs have not come back; 0 if it is not."""
        if loss.ending and not loss.fatal:
            return loss.ending + self.config.confirmation_delay
        if loss.reported:
            return loss.led + self.config.back_within if loss.led and not loss.without else 0
        shown = loss.shown_at(view.state.known, view.topology, self.config.alone_for)
        return max(loss.at + self.config.confirmation_delay, shown)

    def _seen(self, view: _View) -> JobManagerProcess:
        """The JobManager that wrote this line. Lines of the time of its loss disprove it even if they come later."""
        known, heartbeat = view.state.known, view.topology.timeouts.heartbeat
        master = known.seen(view.event, view.time)
        for loss in list(view.state.losses.values()):
            if loss.reported and loss.refuted(master, known, view.time, heartbeat):
                self._drop(view, loss, "its own log continues")
        return master

    def _drop(self, view: _View, loss: JobManagerLoss, why: str) -> None:
        del view.state.losses[loss.subject]
        if loss.reported:
            view.close(self._finding(view, loss), why)

    def _doubt(self, view: _View) -> None:
        for loss in list(view.state.losses.values()):
            if loss.doubt(view.topology):
                self._drop(view, loss, "only TaskManagers that are out of memory themselves have lost it")

    def _runs_again(self, view: _View, master: JobManagerProcess, why: str, with_jobs: bool = True) -> None:
        """End the losses before this sign of work. A new JobManager alone brings no job back (`with_jobs`)."""
        for loss in list(view.state.losses.values()):
            same = loss.same(master, view.state.known)
            dying = same and loss.fatal and view.time - loss.last_proof <= self.config.alone_for
            if view.time <= loss.last_proof or dying:
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
        state.known.forget_complaints()
        # TaskManagers time out at different times: later complaints are not a second loss.
        put_bounded(state.ended, loss.address, view.time + 2 * self.config.confirmation_delay, _MAX_SOURCES)
        state.losses.pop(loss.subject, None)
        view.close(self._finding(view, loss), why)

    def _finding(self, view: _View, loss: JobManagerLoss) -> Finding:
        return finding(view, loss, view.state.known.named(loss.source), view.state.known.yarn)
