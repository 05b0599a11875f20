"""One lost JobManager and the finding about it: who lost it, the last checkpoint, and what happens next and when."""

from typing import Any

import msgspec

from detectors.detector import View
from detectors.events.names import container_in
from detectors.flink.checkpointing.checkpoints import JobCheckpoints
from detectors.flink.facts import Failure
from detectors.flink.job_states import ACTIVE
from detectors.flink.processes.jobmanagers import MAX_RECORDS, JobManagerProcess, JobManagers, TaskManagerView
from detectors.flink.timeouts import Timeouts
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import humanize
from detectors.values.texts import cut

SKEW_MS = 5_000
"""By how much the clocks of two processes may differ."""
_MAX_TMS = 200
_MAX_LOSSES = 20
_REFUSED = frozenset({"gated", "unreachable", "registration"})


class JobManagerLoss(msgspec.Struct, array_like=True):
    """The loss of one JobManager.

    `since` is the event time of the first symptom, `last_proof` of the last proof, `left` of the first TaskManager that
    lost contact; `at` is the clock of the first proof. `refused`: connections to it were refused, it did not only stop
    answering. `led` is the clock at which a JobManager led again, `without`: its jobs did not come back with it.
    `ending` is the clock of a line that looks like an orderly end.
    """

    subject: str
    since: int
    last_proof: int
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
    reported: bool = False
    led: int = 0
    without: bool = False
    ending: int = 0

    def may_be(self, source: str, address: str) -> bool:
        """Whether it may be the loss of this JobManager: an unknown source or address fits any."""
        return _same(self.source, source) and _same(self.address, address)

    def alone(self, known: JobManagers, topology: Topology) -> bool:
        """Whether those that complain may be the ones in trouble, so that only a silent JobManager proves them right.

        One TaskManager whose peers keep the contact may be frozen or cut off, and so may several if the JobManager had
        given up each of them first.
        """
        unknown = known.named(self.source) is None
        if self.fatal or not self.tms:
            return not self.fatal and unknown
        ids = [topology.tm_of_process(s, s.partition(":")[0]) for s in self.tms]
        if all(topology.witnesses.given_up_first(tm, self.left) for tm in ids):
            return True
        peers = [w for w in known.witnesses.values() if w.address and w.address == self.address and not w.marks]
        return len(self.tms) == 1 and (bool(peers) or (unknown and not self.refused))

    def shown_at(self, known: JobManagers, topology: Topology, alone_for: int) -> int:
        """The clock at which a JobManager that is not lost would have shown itself; 0 if nothing is waited for."""
        if self.alone(known, topology):
            return self.at - max(0, self.left - self.since) + known.silent_for(self.source, alone_for)
        return 0 if self.refused or self.fatal else known.next_scrape(self.source)

    def doubt(self, topology: Topology) -> bool:
        """Drop TaskManagers that are sick themselves. Returns whether nothing else shows the loss."""
        before, self.tms = self.tms, [s for s in self.tms if topology.witnesses.believed(s, self.left)]
        return bool(before) and not self.tms and not self.fatal and not self.why

    def refuted(self, master: JobManagerProcess, known: JobManagers, time: int, heartbeat: int) -> bool:
        """Whether a line of its JobManager is from the time in which TaskManagers had lost it."""
        meanwhile = self._gone(heartbeat) + SKEW_MS < time <= self.left
        return not self.fatal and meanwhile and self.same(master, known)

    def same(self, master: JobManagerProcess, known: JobManagers) -> bool:
        """Whether this is the JobManager that was lost, as far as is known: it has led since before the loss."""
        return (not self.source or master is known.named(self.source)) and master.began <= self.since

    def disproved(self, known: JobManagers, heartbeat: int) -> bool:
        """Whether the JobManager was alive after a TaskManager lost it.

        A gated address means that it was gone from then on. A heartbeat that timed out means that it had been gone for
        most of the timeout.
        """
        master = known.named(self.source)
        return not self.fatal and master is not None and master.last_seen > self._gone(heartbeat) + SKEW_MS

    def _gone(self, heartbeat: int) -> int:
        """Since when it must have been gone, as its TaskManagers say."""
        return self.since if self.refused else self.left - round(0.8 * heartbeat)

    def prove(self, source: str, address: str, why: str, record: Evidence) -> None:
        """Take in a record that proves the loss."""
        self.since, self.last_proof = min(self.since, record.time), max(self.last_proof, record.time)
        self.source, self.address, self.why = self.source or source, self.address or address, self.why or why
        append_new(self.records, record, MAX_RECORDS)

    def explain(self, fact: Failure) -> bool:
        """Take in a cause in the stack trace of the fatal error. Returns whether it is a new one."""
        before = self.why
        self.why = cut(f"it stopped with {fact.name.rpartition('.')[2]}: {fact.message}".rstrip(": "), 240)
        return self.why != before

    def blame(self, source: str, witness: TaskManagerView, time: int) -> bool:
        """Take in a TaskManager that lost contact. Returns whether the finding changes by that."""
        before = len(self.tms), self.exited
        contact_lost = [t for k, t in witness.marks.items() if k != "gated"]
        self.since = min(self.since, *witness.marks.values())
        self.left = min([t for t in (self.left, *contact_lost) if t], default=time)
        self.job = self.job or witness.job
        self.exited = self.exited or "registration" in witness.marks
        self.refused = self.refused or not _REFUSED.isdisjoint(witness.marks)
        append_new(self.tms, source, _MAX_TMS)
        for record in witness.records:
            append_new(self.records, record, MAX_RECORDS)
        return before != (len(self.tms), self.exited)


def loss_of(
    losses: dict[str, JobManagerLoss], source: str, address: str, name: str, view: View[Any, Any]
) -> JobManagerLoss:
    """The known or new loss of this JobManager, which is called `name` if neither source nor address is known."""
    loss = next((x for x in losses.values() if x.may_be(source, address)), None)
    if loss is None:
        loss = JobManagerLoss(address or source or name or "jobmanager", view.time, view.time, view.clock)
        put_bounded(losses, loss.subject, loss, _MAX_LOSSES)
    return loss


def jobs_of(loss: JobManagerLoss, topology: Topology) -> list[str]:
    """The jobs that were running when the JobManager was lost."""
    return [j for j, job in topology.jobs.items() if job.state in ACTIVE] or ([loss.job] if loss.job else [])


def finding(view: View[Any, Any], loss: JobManagerLoss, master: JobManagerProcess | None, yarn: bool) -> Finding:
    """The finding about a loss as it is now."""
    topology, limits = view.topology, view.topology.timeouts
    host = loss.address.rpartition(":")[0]
    if host in ("", "localhost", "127.0.0.1"):
        host = loss.host or (master.host if master else "") or host
    job = loss.job or topology.job_of_source.get(loss.source) or topology.only_job()[0]
    name = loss.address or loss.source.partition(":")[0] or host or "of the cluster"
    checkpoints = topology.checkpoints.get(job) or JobCheckpoints()
    last = ""
    if checkpoints.latest >= 0:
        last = f"; last completed checkpoint {checkpoints.latest}"
        if checkpoints.completed_at <= loss.since:
            last += f" ({humanize(loss.since - checkpoints.completed_at)} before)"
    return view.finding(
        loss.subject,
        {
            "host": host,
            "job_id": job,
            "job_name": topology.job_name(job),
            **({"checkpoint": str(checkpoints.latest)} if checkpoints.latest >= 0 else {}),
        },
        since=loss.since,
        severity="critical",
        summary=f"JobManager {name} is lost: {_why(loss, topology)}{last}{_jobs_not_recovered(loss, topology)}",
        confidence="sure" if loss.fatal or len(loss.tms) != 1 else "fair",
        evidence=loss.records,
        forecast=_forecast(loss, checkpoints, limits, yarn, view.clock),
        advice=_advice(loss, limits, yarn),
    )


def _why(loss: JobManagerLoss, topology: Topology) -> str:
    names = [_tm(source, topology) for source in loss.tms]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    took = loss.left - loss.since
    after = f" {humanize(took)} after the first sign of trouble" if took >= 1_000 else ""
    seen = f"TaskManager{'s' if len(names) > 1 else ''} {shown} lost contact with it{after}" if names else ""
    return ", ".join(part for part in (loss.why, seen) if part)


def _jobs_not_recovered(loss: JobManagerLoss, topology: Topology) -> str:
    names = [topology.job_name(job) or job for job in jobs_of(loss, topology)] if loss.without else []
    if not names:
        return ""
    whose = f"job {names[0]}" if len(names) == 1 else f"{len(names)} jobs"
    return f"; a JobManager leads again, but it did not recover {whose}"


def _forecast(
    loss: JobManagerLoss, checkpoints: JobCheckpoints, limits: Timeouts, yarn: bool, now: int
) -> Forecast | None:
    """The next event: a checkpoint is due, the TaskManagers exit, or YARN replaces the containers."""
    due = checkpoints.triggered_at + checkpoints.interval
    if not loss.left and checkpoints.interval and now < due < loss.since + limits.registration:
        what = "the next checkpoint is due, but starts only if a JobManager leads by then"
        return Forecast(what, due, due, due)
    if not loss.exited:
        left = (loss.left or loss.since) + limits.registration
        # TaskManagers that have not reported the loss yet take up to another heartbeat timeout.
        latest = left + (5_000 if loss.left else limits.heartbeat)
        limit = f"registration timeout {humanize(limits.registration)}"
        what = f"the TaskManagers exit unless a JobManager leads by then ({limit})"
        return Forecast(what, left if loss.left else latest, left, latest)
    if yarn:
        at = loss.since + limits.expiry
        what = f"YARN replaces the containers (expiry {humanize(limits.expiry)})"
        return Forecast(what, at, at - 60_000, at + 60_000)
    return None


def _advice(loss: JobManagerLoss, limits: Timeouts, on_yarn: bool) -> str:
    yarn = (
        f"On YARN a container whose node does not answer is replaced after {humanize(limits.expiry)}, "
        f"not before about {_hour(loss.since + limits.expiry)} UTC. "
        if on_yarn
        else ""
    )
    return (
        "Check whether its process, pod or container still runs, how its log ends, and whether another JobManager "
        "leads. With high availability the job resumes from the last completed checkpoint. Without it, start the job "
        f"from that checkpoint by hand. {yarn}To prevent it: high availability with a standby on another node."
    )


def _tm(source: str, topology: Topology) -> str:
    """Name a TaskManager by its id, by the container in the name of its log file, or by its host."""
    return topology.tm_of_source.get(source) or container_in(source) or source.partition(":")[0]


def _hour(ms: int) -> str:
    return f"{ms // 3_600_000 % 24:02}:{ms // 60_000 % 60:02}"


def _same(one: str, other: str) -> bool:
    return not one or not other or one == other
