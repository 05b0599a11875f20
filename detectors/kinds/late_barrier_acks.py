"""After a checkpoint expired, late lines show which subtasks were too slow for it.

Opens when an expired checkpoint has `min_acks` late acknowledgements (`Received late message for now expired checkpoint
attempt`, JobManager, Flink ≤ 1.10), at one `Checkpoint N has been notified as aborted, would not trigger any
checkpoint` (Flink ≥ 1.11: written only where the barrier had not come through, so it names the slow TaskManager), or
when late acknowledgements repeat over `repeats` checkpoints. Resolved when `healthy_checkpoints` in a row have
completed.

The finding names the TaskManager and the subtasks, how late they were, and the TaskManager's share of the input if
metrics show it. Acknowledgements in one burst mean that the barrier had waited behind slow input (alignment); spread
out, they mean a slow asynchronous upload. While the checkpoint still runs, `checkpoint_overdue` reports it.

Reference: post-mortem 002 (Flink 1.4.2: ten late acknowledgements within 0.5 s from one host: data skew).
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.job_states import ENDING
from detectors.flink.topology import Topology
from detectors.incident import Confidence, Evidence, Finding, Severity
from detectors.patterns.keep_state import keep_state
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_JOBS = 200
_MAX_CHECKPOINTS = 4
_MAX_LATE = 200
_MAX_NOTICES = 100
_MAX_RECORDS = 4
_RECENT_MS = 3_600_000


class LateAck(msgspec.Struct, array_like=True):
    """One late subtask: event time of its line, task as Flink prints it, TaskManager and host (empty if unknown)."""

    time: int
    task: str
    tm: str
    host: str


class ExpiredCheckpoint(msgspec.Struct, array_like=True):
    """An expired checkpoint and the subtasks that were late; `acks` by attempt id, or by TaskManager and time."""

    time: int
    at: int
    records: list[Evidence]
    acks: dict[str, LateAck] = {}
    notices: bool = False
    reported: bool = False


class JobAcks(msgspec.Struct, array_like=True):
    """Expired checkpoints of one job by number, oldest first; `repeated` counts those with late acknowledgements.

    `open` is the number of the checkpoint that the open finding shows, and `since` its beginning. `reset` is the event
    time at which the job last changed or was restored: checkpoint numbers may start again there. If the open number
    expires again after that, `earlier` is the checkpoint of before, which is shown until the new one is proven to be
    late, too.
    """

    expired: dict[int, ExpiredCheckpoint] = {}
    repeated: int = 0
    healthy: int = 0
    last_completed: int = -1
    open: int = -1
    reset: int = LONG_AGO
    since: int = 0
    earlier: ExpiredCheckpoint | None = None

    def shown(self) -> ExpiredCheckpoint:
        """The checkpoint that the open finding shows."""
        return self.earlier or self.expired[self.open]

    def may_be_of(self, number: int, time: int) -> bool:
        """Whether a line of this time may be about an expired checkpoint, and not about one of before a restore."""
        return number in self.expired and (time >= self.reset or self.expired[number].time < self.reset)


class AbortNotice(msgspec.Struct, array_like=True):
    """An abort notice that arrived before the expiry of its checkpoint, because sources interleave."""

    checkpoint: int
    at: int
    ack: LateAck
    record: Evidence


class LateBarrierAcks(Detector):
    """Detects subtasks that acknowledge a checkpoint after it has expired."""

    kind = "late_barrier_acks"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            "checkpoint_expired",
            "checkpoint_acked_late",
            "checkpoint_abort_noticed",
            "checkpoint_completed",
            "job_restored",
            "job_state",
            "job_ended",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `late_barrier_acks`."""

        min_acks: int = Field(
            3,
            ge=1,
            description="Number of late acknowledgements of one checkpoint from which the finding opens. Fewer occur "
            "after any restart or savepoint.",
        )
        repeats: int = Field(
            2,
            ge=2,
            description="Number of checkpoints with late acknowledgements, however few, from which the finding "
            "opens and is critical.",
        )
        burst: Duration = Field(
            2_000,
            description="Time within which all late acknowledgements must come to count as one burst, which points to "
            "alignment rather than a slow upload.",
        )
        remember: Duration = Field(
            600_000, description="Time after an expiry in which late lines are attributed to it."
        )
        healthy_checkpoints: int = Field(
            2, ge=1, description="Number of completed checkpoints in a row that resolve the finding."
        )
        skew_share: float = Field(
            0.8,
            gt=0.5,
            le=1,
            description="Share of the late subtasks on one TaskManager from which that TaskManager is named as the "
            "cause.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id. `notices` are abort notices that wait for the expiry of their checkpoint, `changed` are the event
        times at which jobs last changed or were restored.
        """

        jobs: dict[str, JobAcks] = {}
        notices: list[AbortNotice] = []
        changed: dict[str, int] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        number = int(event.fields.get("checkpoint", -1))
        if event.event_type == "checkpoint_abort_noticed":
            yield from self._noticed(state, number, event, now, topology)
            return
        job = topology.job_of(event)
        known = state.jobs.get(job)
        if event.event_type == "checkpoint_expired":
            yield from self._expired(state, job, number, event, now, topology)
        elif event.event_type not in ("checkpoint_acked_late", "checkpoint_completed"):
            yield from self._job_changed(state, job, event.fields.get("state", ""), now, topology)
        elif known is None:
            return
        elif event.event_type == "checkpoint_acked_late":
            yield from self._acked(known, job, number, event, now, topology)
        else:
            yield from self._completed(known, job, number, now, topology)

    def _job_changed(self, state: State, job: str, new: str, now: Now, topology: Topology) -> Iterator[Finding]:
        if now.time <= state.changed.get(job, now.time - 1):
            return  # The line was sent again. Several runs may have the same job id.
        put_bounded(state.changed, job, now.time, _MAX_JOBS)
        known = state.jobs.get(job)
        if known is None:
            return
        known.reset, known.last_completed = now.time, -1
        if known.open >= 0 and (new in ENDING or new == "SUSPENDED"):
            yield self._closing(known, job, now, topology, f"the job is {new}")
        if new in ENDING:
            del state.jobs[job]

    def _expired(
        self, state: State, job: str, number: int, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if job not in state.jobs:
            put_bounded(state.jobs, job, JobAcks(reset=state.changed.get(job, -(1 << 62))), _MAX_JOBS)
        known = state.jobs[job]
        before = known.expired.get(number)
        if now.time < known.reset or number <= known.last_completed or (before and before.time >= known.reset):
            return
        known.healthy = 0
        if number == known.open:
            known.earlier = known.shown()
        self._keep(known, number, ExpiredCheckpoint(now.time, now.clock, [evidence(event, now.time)]))
        waiting = [
            n
            for n in state.notices
            if n.checkpoint == number
            and now.clock - n.at <= self.config_of(job).remember
            and topology.may_run(job, n.ack.tm)
            and known.may_be_of(number, n.ack.time)
        ]
        state.notices = [n for n in state.notices if n not in waiting]
        for notice in waiting:
            key = f"{notice.ack.tm or notice.ack.host}@{notice.ack.time}"
            self._late(known.expired[number], key, notice.ack, notice.record)
            known.expired[number].notices = True
        if waiting:
            yield from self._judge(known, job, number, now, topology)

    def _keep(self, known: JobAcks, number: int, checkpoint: ExpiredCheckpoint) -> None:
        """Add an expired checkpoint and drop those of an earlier episode, but never that of the open finding."""
        closed = [n for n in known.expired if n != known.open]
        for old in [n for n in closed if checkpoint.at - known.expired[n].at > _RECENT_MS]:
            del known.expired[old]
        if known.open < 0 and not any(c.reported for c in known.expired.values()):
            known.repeated = 0
        while number not in known.expired and len(known.expired) >= _MAX_CHECKPOINTS:
            del known.expired[next(n for n in known.expired if n != known.open)]
        known.expired.pop(number, None)
        known.expired[number] = checkpoint

    def _acked(
        self, known: JobAcks, job: str, number: int, event: LogEvent, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        checkpoint = known.expired.get(number)
        if checkpoint is None or now.clock - checkpoint.at > self.config_of(job).remember or now.time < checkpoint.time:
            return
        attempt = event.fields["attempt"]
        task, tm, host = topology.place_of(attempt)
        ack = LateAck(now.time, task, event.fields.get("tm", tm), event.fields.get("host", host))
        if self._late(checkpoint, attempt, ack, evidence(event, now.time)):
            yield from self._judge(known, job, number, now, topology)

    def _noticed(self, state: State, number: int, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Attribute an abort notice, which names no job, to the job whose checkpoint of that number expired last."""
        tm, host = topology.tm_of(event)
        ack, record = LateAck(now.time, "", tm, host), evidence(event, now.time)
        expired = [
            (k.expired[number].at, j)
            for j, k in state.jobs.items()
            if k.may_be_of(number, now.time) and topology.may_run(j, tm)
        ]
        recent = [(at, j) for at, j in expired if now.clock - at <= self.config_of(j).remember]
        if not recent:
            state.notices = [*state.notices, AbortNotice(number, now.clock, ack, record)][-_MAX_NOTICES:]
            return
        job = max(recent)[1]
        known = state.jobs[job]
        known.expired[number].notices = True
        if self._late(known.expired[number], f"{tm or host}@{now.time}", ack, record):
            yield from self._judge(known, job, number, now, topology)

    def _late(self, checkpoint: ExpiredCheckpoint, key: str, ack: LateAck, record: Evidence) -> bool:
        """Add one late subtask; False if it is known already."""
        if key in checkpoint.acks or len(checkpoint.acks) >= _MAX_LATE:
            return False
        checkpoint.acks[key] = ack
        if len(checkpoint.records) < _MAX_RECORDS:
            checkpoint.records.append(record)
        return True

    def _judge(self, known: JobAcks, job: str, number: int, now: Now, topology: Topology) -> Iterator[Finding]:
        checkpoint = known.expired[number]
        if not checkpoint.reported:
            others = sum(1 for c in (*known.expired.values(), known.earlier) if c is not None and c.acks)
            config = self.config_of(job)
            if not checkpoint.notices and len(checkpoint.acks) < config.min_acks and others < config.repeats:
                return
            checkpoint.reported = True
            known.repeated += 1
        if number >= known.open or known.shown().time < known.reset:
            first = min(c.time for c in known.expired.values() if c.reported)
            known.since = min(known.since, first) if known.open >= 0 else first
            known.open, known.earlier = number, None
        yield self._finding(known, job, now, topology)

    def _completed(self, known: JobAcks, job: str, number: int, now: Now, topology: Topology) -> Iterator[Finding]:
        # A line from before the last expiry was sent again.
        outdated = max([known.reset, *(c.time for c in known.expired.values())])
        if number <= known.last_completed or now.time < outdated:
            return
        known.last_completed = number
        known.healthy += 1
        if known.open < 0 or known.healthy < self.config_of(job).healthy_checkpoints:
            return
        if number > known.open or known.shown().time < known.reset:
            yield self._closing(
                known, job, now, topology, f"{known.healthy} checkpoints in a row completed, the last is {number}"
            )

    def _closing(self, known: JobAcks, job: str, now: Now, topology: Topology, why: str) -> Finding:
        finding = self._finding(known, job, now, topology)
        finding.closed_at, finding.closed_because = now.clock, why
        known.open, known.earlier = -1, None
        return finding

    def _finding(self, known: JobAcks, job: str, now: Now, topology: Topology) -> Finding:
        checkpoint = known.shown()
        config = self.config_of(job)
        tm, host, share = self._place(checkpoint, config)
        severity: Severity = "critical" if known.repeated >= config.repeats else "warning"
        confidence: Confidence = "sure" if tm or host else "fair"
        return Finding(
            kind=self.kind,
            subject=job,
            entity={
                "job_id": job,
                "job_name": topology.job_name(job),
                "checkpoint": str(known.open),
                "tm_id": tm,
                "host": host,
                "task": ", ".join(sorted({a.task.rsplit(" (", 1)[0] for a in checkpoint.acks.values() if a.task})[:3]),
            },
            since=known.since,
            at=now.clock,
            severity=severity,
            confidence=confidence,
            summary=self._summary(known, checkpoint, tm, host, share, topology, job),
            evidence=list(checkpoint.records),
            advice=self._advice(checkpoint, job, (tm, host), topology),
        )

    def _place(self, checkpoint: ExpiredCheckpoint, config: Config) -> tuple[str, str, float]:
        """(TaskManager, host, share of the late subtasks there); no names if the share is below `skew_share`."""
        places = [(a.tm, a.host) for a in checkpoint.acks.values() if a.tm or a.host]
        if not places:
            return "", "", 0.0
        (tm, host), share = max(
            ((p, places.count(p) / len(checkpoint.acks)) for p in set(places)), key=lambda x: (x[1], x[0])
        )
        return (tm, host, share) if share >= config.skew_share else ("", "", share)

    def _burst(self, checkpoint: ExpiredCheckpoint, config: Config) -> bool:
        times = [a.time for a in checkpoint.acks.values()]
        return checkpoint.notices or max(times) - min(times) <= config.burst

    def _summary(
        self,
        known: JobAcks,
        checkpoint: ExpiredCheckpoint,
        tm: str,
        host: str,
        share: float,
        topology: Topology,
        job: str,
    ) -> str:
        times = [a.time for a in checkpoint.acks.values()]
        count, late = len(times), humanize(max(times) - checkpoint.time)
        what = f"{count} subtask{'s' * (count > 1)} acknowledged checkpoint {known.open} up to {late} after it expired"
        where = f"all on {tm or host}" if share == 1 else f"{share:.0%} of them on {tm or host}"
        summary = f"{what}, {where}" if tm or host else what
        if tm and host and host not in tm:
            summary += f" (host {host})"
        skewed = _skewed(topology, job, tm)
        if skewed is not None:
            summary += f", which reads {skewed[0]:.0%} of the job's input (fair share {skewed[1]:.0%})"
        config = self.config_of(job)
        if known.repeated >= config.repeats:
            summary += f"; {known.repeated} checkpoints affected so far"
        return summary + (
            "; barriers wait behind data" if self._burst(checkpoint, config) else "; state upload is slow"
        )

    def _advice(self, checkpoint: ExpiredCheckpoint, job: str, where: tuple[str, str], topology: Topology) -> str:
        """Advice for the cause that was found only: what helps against another cause may do harm."""
        tm, host = where
        place = tm or host or "the slow subtasks"
        if not self._burst(checkpoint, self.config_of(job)):
            return (
                f"The acknowledgements came one by one, so the asynchronous upload from {place} is slow. Check the "
                "checkpoint storage (latency, throttling), the host's network and disk, and the state size. For good: "
                "incremental checkpoints, faster storage."
            )
        if _skewed(topology, job, tm) is not None:
            return (
                f"The input is skewed: {place} gets more records than the others, so barriers wait there behind queued "
                "data. Moving the job to other hosts does not help, because the skew is in the keys. Find the hot keys "
                "(records received by subtask in Flink's UI). Checkpoints complete again when the input drops, or with "
                "a higher execution.checkpointing.timeout, which takes effect at the next deployment. For good: spread "
                "the hot keys, unaligned checkpoints."
            )
        return keep_state(job) + (
            f"Barriers wait behind the data queued before {place}, and its share of the input does not explain it. "
            "Look there for one slow operator (busyTimeMsPerSecond, inputQueueLength) and for other load on the host. "
            f"If the host is the cause, move the job off it: the job restarts from its last completed checkpoint. For "
            "good: fix the slow operator, unaligned checkpoints."
        )


def _skewed(topology: Topology, job: str, tm: str) -> tuple[float, float] | None:
    """(share of the job's input that a TaskManager reads, its fair share), if the first is clearly larger."""
    share = topology.input_share(job, tm) if tm else None
    return share if share is not None and share[0] > 1.2 * share[1] else None
