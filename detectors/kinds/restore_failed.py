"""A job cannot be started from its checkpoint or savepoint, or starts empty although it had checkpoints.

Opens on a failure whose causes are about restoring: no such checkpoint or savepoint, state of an operator that is not
in the program any more, an incompatible serializer, a broken state handle, state files that cannot be loaded. Also
opens on `No checkpoint found during restore.` of a job whose checkpoints had completed: it starts with empty state, and
no other line shows it. Resolved when the job completes a checkpoint again.

Why it matters: each further attempt fails too, and a job that starts empty loses its state without an error. A failed
restore has no line about the job's state, only `reached terminal state FAILED` (Flink ≥ 1.13). `job_failed` and
`restart_loop` are its effects.

A newly submitted job has never completed a checkpoint under its id, and one that was cancelled or has failed starts
empty as it should: neither is a loss. Without high availability all application clusters use the job id 000…0.

Reference: Flink, "Savepoints" (allowNonRestoredState), "State schema evolution"; a recording of a missing path.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.job_states import ENDED
from detectors.flink.root_causes import CONSEQUENCES, RootCause, deepen, job_of
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_JOBS = 200
_MAX_SOURCES = 50
_MAX_RECORDS = 4
_NO_HA = "0" * 32


class RestoredJob(msgspec.Struct, array_like=True):
    """One job: the number of its completed checkpoints, and the open finding.

    `last` is the event time up to which its lines are taken into account: of its failure, or of its end. `lost` is the
    number of checkpoints that it started without. `restored`: it started from a checkpoint or savepoint, or tried to.
    `proven` is the event time of the last completed checkpoint.
    """

    completed: int = 0
    since: int = 0
    last: int = 0
    text: str = ""
    lost: int = 0
    records: list[Evidence] = []
    restored: bool = False
    proven: int = 0


class LastJobState(msgspec.Struct, array_like=True):
    """The last line about a job's state in a source, and the event time of `No checkpoint found` (`nothing`) with its
    record, or of the checkpoint that was found since.
    """

    job: str = ""
    before: str = ""
    time: int = LONG_AGO
    nothing: int = LONG_AGO
    record: Evidence | None = None


class RestoreFailed(Detector):
    """Detects jobs that cannot be restored, or that start with empty state instead."""

    kind = "restore_failed"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [FAILURE, "nothing_restored", "job_state", "job_ended", "job_restored", "checkpoint_completed"]
    )

    class Config(DetectorConfig):
        """Settings of the detector `restore_failed`."""

        adjacent: Duration = Field(
            5_000,
            description="Longest time between `No checkpoint found`, which names no job, and a job's change of "
            "state at which the line is attributed to that job.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id, lines about job states and stack traces by source. `ended` are event times of ends of jobs."""

        jobs: dict[str, RestoredJob] = {}
        entered: dict[str, LastJobState] = {}
        stacks: dict[str, RootCause] = {}
        ended: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        match event.event_type:
            case "failure":
                yield from self._failed(state, event, now, topology)
            case "nothing_restored":
                yield from self._nothing(state, event, now, topology)
            case "job_state":
                yield from self._job_state(state, event, now, topology)
            case "job_ended" if event.fields["state"] != "SUSPENDED":
                yield from self._ended(state, event.fields["job"], event.fields["state"], now, topology)
            case "job_restored":
                self._restored(state, event, now)
            case "checkpoint_completed":
                yield from self._completed(state, topology.job_of(event), now, topology)

    def _restored(self, state: State, event: LogEvent, now: Now) -> None:
        """A checkpoint was found, so nothing was lost."""
        entered = state.entered.get(event.source)
        if entered is not None and now.time >= max(entered.time, entered.nothing):
            entered.before, entered.nothing, entered.record = "", now.time, None
        if event.fields.get("job"):
            known = self._job(state, event.fields["job"])
            known.restored = known.restored or now.time > known.last

    def _failed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job = job_of(event, topology)
        # A line that was sent again names no job, and the job that failed may have been replaced since.
        if not job or "again" in event.fields:
            return
        stack = state.stacks.get(event.source)
        if stack is None or stack.id != event.fields["id"]:
            stack = RootCause(event.fields["id"], now.time, "", "", job=job)
            put_bounded(state.stacks, event.source, stack, _MAX_SOURCES)
        deepen(stack, event)
        known = state.jobs.get(job)
        if stack.role in CONSEQUENCES or stack.role != "restore" or (known is not None and now.time < known.last):
            return
        if self._began_empty(state, event.source, known):
            return
        known = self._job(state, job)
        if known.text and known.since and stack.time != known.last:
            known.last = stack.time  # The same failure again: `restart_loop` reports the restarts.
            return
        before = known.text
        known.since, known.last, known.text = known.since or now.time, stack.time, stack.description()
        if not before:
            known.records = [*known.records, evidence(event, now.time)][-_MAX_RECORDS:]
        if before != known.text:
            yield self._finding(known, job, now.clock, topology)

    def _began_empty(self, state: State, source: str, known: RestoredJob | None) -> bool:
        """Whether Flink had nothing to restore. A state backend that cannot be created throws the same exception."""
        entered = state.entered.get(source)
        had = known is not None and (known.restored or known.completed > 0 or known.lost > 0)
        return entered is not None and entered.record is not None and not had

    def _nothing(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        entered = self._source(state, event.source)
        if now.time <= entered.nothing:
            return  # The line was sent again.
        entered.nothing, entered.record = now.time, evidence(event, now.time)
        # A restart in place: the change from RESTARTING to RUNNING comes first.
        if entered.before == "RESTARTING" and 0 <= now.time - entered.time <= self.config_of(entered.job).adjacent:
            yield from self._empty(state, entered.job, entered.record, now, topology)

    def _job_state(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        job, before, new = event.fields["job"], event.fields.get("before", ""), event.fields["state"]
        entered = self._source(state, event.source)
        if new == "RUNNING" and now.time >= entered.time:
            entered.job, entered.before, entered.time = job, before, now.time
            # A new JobManager takes over the job: it logs what it found before the job runs.
            taken_over = before == "CREATED" and job != _NO_HA
            if taken_over and entered.record and 0 <= now.time - entered.nothing <= self.config_of(job).adjacent:
                yield from self._empty(state, job, entered.record, now, topology)
        elif new in ENDED:
            yield from self._ended(state, job, new, now, topology)

    def _empty(self, state: State, job: str, record: Evidence, now: Now, topology: Topology) -> Iterator[Finding]:
        known = state.jobs.get(job)
        if known is not None and known.completed and now.time > max(known.last, known.proven):
            known.lost, known.completed = known.completed, 0
            known.since, known.last = known.since or now.time, now.time
            known.records = [*known.records, record][-_MAX_RECORDS:]
            yield self._finding(known, job, now.clock, topology)

    def _ended(self, state: State, job: str, ended: str, now: Now, topology: Topology) -> Iterator[Finding]:
        known = state.jobs.get(job)
        if known is None or now.time < known.last or (now.time == known.last and not known.since):
            return
        if known.since and ended == "FAILED":
            known.completed = 0
            return
        if known.since:
            yield self._closing(known, job, now, topology, f"the job is {ended}")
        # Older lines may be sent again, and the next run may have the same id.
        state.jobs.pop(job, None)
        put_bounded(state.ended, job, now.time, _MAX_JOBS)

    def _completed(self, state: State, job: str, now: Now, topology: Topology) -> Iterator[Finding]:
        known = self._job(state, job)
        if now.time <= max(known.last, known.proven):
            return
        known.completed, known.proven = known.completed + 1, now.time
        # The same job under another id: it was submitted again with the problem fixed.
        name = topology.job_name(job)
        for other, failed in list(state.jobs.items()):
            if (
                not failed.since
                or now.time <= failed.last
                or (other != job and (not name or name != topology.job_name(other)))
            ):
                continue
            yield self._closing(failed, other, now, topology, "checkpoints of the job complete again")

    def _job(self, state: State, job: str) -> RestoredJob:
        known = state.jobs.get(job)
        if known is None:
            known = RestoredJob(last=state.ended.get(job, 0))
            put_bounded(state.jobs, job, known, _MAX_JOBS)
        return known

    def _source(self, state: State, source: str) -> LastJobState:
        entered = state.entered.get(source)
        if entered is None:
            entered = LastJobState()
            put_bounded(state.entered, source, entered, _MAX_SOURCES)
        return entered

    def _closing(self, known: RestoredJob, job: str, now: Now, topology: Topology, why: str) -> Finding:
        finding = self._finding(known, job, now.clock, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        known.since, known.last, known.text, known.lost, known.records = 0, now.time, "", 0, []
        return finding

    def _finding(self, known: RestoredJob, job: str, now: int, topology: Topology) -> Finding:
        name = topology.job_name(job)
        if known.lost:
            summary = (
                f"job {name or job} started with empty state: no checkpoint was found, although {known.lost} had "
                "completed"
            )
            advice = keep_state(job) + (
                "The checkpoint to save is the last one from before this start. Then stop the job before it overwrites "
                "results, and resubmit it from that path. For good: find out why the high-availability store or the "
                "pointer to the checkpoint is gone."
            )
        else:
            summary = f"job {name or job} cannot be restored: {known.text}"
            advice = (
                "Check that the path exists and can be read. Compare the program with the one that wrote the state: "
                "operator uids, types, parallelism, Flink version. Start from an older checkpoint or savepoint, or use "
                "allowNonRestoredState if the operator was removed on purpose."
            )
        return Finding(
            kind=self.kind,
            subject=job,
            entity={"job_id": job, "job_name": name},
            since=known.since,
            at=now,
            severity="critical",
            summary=summary,
            confidence="sure",
            evidence=list(known.records),
            advice=advice,
        )
