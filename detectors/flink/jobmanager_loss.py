"""One lost JobManager, and what is said of it: who gave it up, what was saved last, and what comes next and when."""

import re

import msgspec

from detectors.flink.jobmanagers import CheckpointCadence, JobManagerProcess, JobManagers
from detectors.flink.timeouts import Timeouts
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Forecast
from detectors.values.durations import humanize

_CONTAINER = re.compile(r"container_(?:e\d+_)?\d+_\d+_\d+_\d+")

_UNDER_WAY = frozenset({"RUNNING", "RESTARTING", "FAILING"})


class JobManagerLoss(msgspec.Struct, array_like=True):
    """One loss. `since` is the event time of the first symptom, `told` of the last proof, `left` of the first
    TaskManager that gave up; `at` is the clock of the first proof. `refused`: connections are, not only silent. `led`
    is the clock at which a JobManager was there again, `without`: its jobs did not come back with it.
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
    led: int = 0
    without: bool = False


def jobs_of(loss: JobManagerLoss, topology: Topology) -> list[str]:
    """The jobs that were under way when it was lost."""
    return [j for j, job in topology.jobs.items() if job.state in _UNDER_WAY] or ([loss.job] if loss.job else [])


def finding(
    loss: JobManagerLoss,
    master: JobManagerProcess | None,
    known: JobManagers,
    limits: Timeouts,
    now: int,
    topology: Topology,
) -> Finding:
    """What is said of a loss as it stands at `now`."""
    host = loss.address.rpartition(":")[0]
    if host in ("", "localhost", "127.0.0.1"):
        host = loss.host or (master.host if master else "") or host
    running = [j for j, job in topology.jobs.items() if job.state in _UNDER_WAY]
    job = loss.job or topology.job_of_source.get(loss.source) or (running[0] if len(running) == 1 else "")
    name = loss.address or loss.source.partition(":")[0] or host or "of the cluster"
    rhythm = known.rhythms.get(job) or known.rhythms.get("") or CheckpointCadence()
    last = f"; last completed checkpoint {rhythm.checkpoint}" if rhythm.checkpoint else ""
    if rhythm.checkpoint and rhythm.completed <= loss.since:
        last += f", {humanize(loss.since - rhythm.completed)} before"
    return Finding(
        kind="jobmanager_lost",
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
        summary=f"JobManager {name} is lost: {_why(loss, topology)}{last}{_gone(loss, topology)}",
        confidence="sure" if loss.fatal or len(loss.tms) != 1 else "fair",
        evidence=list(loss.records),
        forecast=_forecast(loss, rhythm, limits, known.yarn, now),
        advice=_advice(loss, limits, known.yarn),
    )


def _why(loss: JobManagerLoss, topology: Topology) -> str:
    names = [_tm(source, topology) for source in loss.tms]
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    after = f" {humanize(loss.left - loss.since)} after the first sign" if loss.left - loss.since >= 1_000 else ""
    seen = f"TaskManager{'s' if len(names) > 1 else ''} {shown} gave it up{after}" if names else ""
    return ", ".join(part for part in (loss.why, seen) if part)


def _gone(loss: JobManagerLoss, topology: Topology) -> str:
    names = [topology.job_name(job) or job for job in jobs_of(loss, topology)] if loss.without else []
    if not names:
        return ""
    whose = f"job {names[0]}" if len(names) == 1 else f"{len(names)} jobs"
    return f"; a JobManager is there again, but {whose} did not come back with it"


def _forecast(
    loss: JobManagerLoss, rhythm: CheckpointCadence, limits: Timeouts, yarn: bool, now: int
) -> Forecast | None:
    """What comes first: the checkpoint that is due, TaskManagers that exit, YARN that replaces the containers."""
    due = rhythm.triggered + rhythm.interval
    if not loss.left and rhythm.interval and now < due < loss.since + limits.registration:
        what = "the next checkpoint is due, and will not come unless a JobManager leads before"
        return Forecast(what, due, due, due)
    if not loss.exited:
        left = (loss.left or loss.since) + limits.registration
        # TaskManagers that have not yet said that they lost it take up to a heartbeat timeout more.
        latest = left + (5_000 if loss.left else limits.heartbeat)
        limit = f"registration timeout {humanize(limits.registration)}"
        what = f"the TaskManagers exit unless a JobManager leads before ({limit})"
        return Forecast(what, left if loss.left else latest, left, latest)
    if yarn:
        at = loss.since + limits.expiry
        what = f"YARN replaces the containers (expiry {humanize(limits.expiry)})"
        return Forecast(what, at, at - 60_000, at + 60_000)
    return None


def _advice(loss: JobManagerLoss, limits: Timeouts, on_yarn: bool) -> str:
    yarn = (
        f"On YARN a container whose node does not answer is replaced after {humanize(limits.expiry)}, "
        f"at about {_hour(loss.since + limits.expiry)} UTC, and not before. "
        if on_yarn
        else ""
    )
    return (
        "See whether its process, pod or container still runs and how its log ends, and whether another "
        "JobManager leads. With high availability the job resumes from the last completed checkpoint; without it, "
        f"start the job from that checkpoint by hand. {yarn}For good: high availability with "
        "a standby on another node."
    )


def _tm(source: str, topology: Topology) -> str:
    """A TaskManager by its id, by the container in the name of its file, or by its host."""
    container = _CONTAINER.search(source)
    return topology.tm_of_source.get(source) or (container[0] if container else source.partition(":")[0])


def _hour(ms: int) -> str:
    return f"{ms // 3_600_000 % 24:02}:{ms // 60_000 % 60:02}"
