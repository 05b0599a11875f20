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

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobView, View, on, threshold
from detectors.flink import facts
from detectors.flink.checkpointing.late_acks import AbortNotice, ExpiredCheckpoint, JobAcks, LateAck
from detectors.flink.facts import Fact
from detectors.flink.job_states import ENDING
from detectors.incident import Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.durations import Duration, humanize

_MAX_NOTICES = 100

_Job: TypeAlias = "JobView[LateBarrierAcks.Config, LateBarrierAcks.State, JobAcks]"
_View: TypeAlias = "View[LateBarrierAcks.Config, LateBarrierAcks.State]"


class LateBarrierAcks(JobDetector):
    """Detects subtasks that acknowledge a checkpoint after it has expired."""

    kind = "late_barrier_acks"
    Job = JobAcks

    class Config(DetectorConfig):
        """Settings of the detector `late_barrier_acks`."""

        min_acks: int = threshold(
            3,
            "Number of late acknowledgements of one checkpoint from which the finding opens. Fewer occur after any "
            "restart or savepoint.",
            ge=1,
        )
        repeats: int = threshold(
            2,
            "Number of checkpoints with late acknowledgements, however few, from which the finding opens and is "
            "critical.",
            ge=2,
        )
        burst: Duration = threshold(
            2_000,
            "Time within which all late acknowledgements must come to count as one burst, which points to alignment "
            "rather than a slow upload.",
        )
        remember: Duration = threshold(600_000, "Time after an expiry in which late lines are attributed to it.")
        healthy_checkpoints: int = threshold(
            2, "Number of completed checkpoints in a row that resolve the finding.", ge=1
        )
        skew_share: float = threshold(
            0.8,
            "Share of the late subtasks on one TaskManager from which that TaskManager is named as the cause.",
            gt=0.5,
            le=1,
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id. `notices` are abort notices that wait for the expiry of their checkpoint."""

        jobs: dict[str, JobAcks] = {}
        notices: list[AbortNotice] = []

    @on(facts.CheckpointFailed, job="any")
    def failed(self, job: _Job, fact: facts.CheckpointFailed) -> None:
        own, number = job.own, fact.number
        if not fact.expired or fact.again:
            return
        own.healthy, own.reset = 0, job.checkpoints.reset
        own.expire(number, ExpiredCheckpoint(job.time, job.clock, [job.record()]))
        waiting = [
            n
            for n in job.state.notices
            if n.checkpoint == number
            and job.clock - n.at <= job.config.remember
            and job.topology.may_run(job.id, n.ack.tm)
            and own.may_be_of(number, n.ack.time)
        ]
        job.state.notices = [n for n in job.state.notices if n not in waiting]
        for notice in waiting:
            own.expired[number].notice(notice)
        if waiting:
            self._judge(job, number)

    @on(facts.CheckpointAckedLate)
    def acked(self, job: _Job, fact: facts.CheckpointAckedLate) -> None:
        checkpoint = job.own.expired.get(fact.number)
        if checkpoint is None or job.clock - checkpoint.at > job.config.remember or job.time < checkpoint.time:
            return
        task, tm, host = job.topology.place_of(fact.attempt)
        ack = LateAck(job.time, task, fact.tm or tm, fact.host or host)
        if checkpoint.add(fact.attempt, ack, job.record()):
            self._judge(job, fact.number)

    @on(facts.CheckpointAbortNoticed, job="none")
    def abort_noticed(self, view: _View, fact: facts.CheckpointAbortNoticed) -> None:
        """Attribute an abort notice, which names no job, to the job whose checkpoint of that number expired last."""
        tm, host = view.topology.tm_of(view.line)
        notice = AbortNotice(fact.number, view.clock, LateAck(view.time, "", tm, host), view.record())
        recent = [
            job
            for job in self.jobs(view)
            if job.own.may_be_of(fact.number, view.time)
            and view.topology.may_run(job.id, tm)
            and view.clock - job.own.expired[fact.number].at <= job.config.remember
        ]
        if not recent:
            view.state.notices = [*view.state.notices, notice][-_MAX_NOTICES:]
            return
        job = max(recent, key=lambda j: (j.own.expired[fact.number].at, j.id))
        if job.own.expired[fact.number].notice(notice):
            self._judge(job, fact.number)

    @on(facts.CheckpointCompleted)
    def completed(self, job: _Job, fact: facts.CheckpointCompleted) -> None:
        own = job.own
        own.healthy += 1
        later = own.open >= 0 and (fact.number > own.open or own.shown().time < own.reset)
        if later and own.healthy >= job.config.healthy_checkpoints:
            self._close(job, f"{own.healthy} checkpoints in a row completed, the last is {fact.number}")

    @on(facts.JobRestored)
    def restored(self, job: _Job, _: Fact) -> None:
        job.own.reset = max(job.own.reset, job.time)

    @on(facts.JobStateChanged)
    def job_changed(self, job: _Job, fact: facts.JobStateChanged) -> None:
        job.own.reset = max(job.own.reset, job.time)
        if job.own.open >= 0 and fact.state in ENDING | {"SUSPENDED"}:
            self._close(job, f"the job is {fact.state}")
        if fact.state in ENDING:
            job.forget()

    def _judge(self, job: _Job, number: int) -> None:
        if job.own.late(number, job.config.min_acks, job.config.repeats):
            job.report(self._finding(job))

    def _close(self, job: _Job, why: str) -> None:
        job.close(self._finding(job), why)
        job.own.open, job.own.earlier = -1, None

    def _finding(self, job: _Job) -> Finding:
        own = job.own
        checkpoint = own.shown()
        tm, host, share = checkpoint.place(job.config.skew_share)
        return job.finding(
            job.id,
            job.entity(
                checkpoint=str(own.open),
                tm_id=tm,
                host=host,
                task=", ".join(sorted({a.task.rsplit(" (", 1)[0] for a in checkpoint.acks.values() if a.task})[:3]),
            ),
            since=own.since,
            severity="critical" if own.repeated >= job.config.repeats else "warning",
            confidence="sure" if tm or host else "fair",
            summary=self._summary(job, checkpoint, (tm, host), share),
            evidence=checkpoint.records,
            advice=self._advice(job, checkpoint, tm, host),
        )

    def _summary(self, job: _Job, checkpoint: ExpiredCheckpoint, where: tuple[str, str], share: float) -> str:
        tm, host = where
        times = [a.time for a in checkpoint.acks.values()]
        count, late = len(times), humanize(max(times) - checkpoint.time)
        summary = (
            f"{count} subtask{'s' * (count > 1)} acknowledged checkpoint {job.own.open} up to {late} after it expired"
        )
        if tm or host:
            summary += f", all on {tm or host}" if share == 1 else f", {share:.0%} of them on {tm or host}"
        if tm and host and host not in tm:
            summary += f" (host {host})"
        skewed = job.topology.skew(job.id, tm)
        if skewed is not None:
            summary += f", which reads {skewed[0]:.0%} of the job's input (fair share {skewed[1]:.0%})"
        if job.own.repeated >= job.config.repeats:
            summary += f"; {job.own.repeated} checkpoints affected so far"
        return summary + (
            "; barriers wait behind data" if checkpoint.burst(job.config.burst) else "; state upload is slow"
        )

    def _advice(self, job: _Job, checkpoint: ExpiredCheckpoint, tm: str, host: str) -> str:
        """Advice for the cause that was found only: what helps against another cause may do harm."""
        place = f"TaskManager {tm}" if tm else host or "the slow subtasks"
        if not checkpoint.burst(job.config.burst):
            return (
                f"The acknowledgements came one by one, so the asynchronous upload from {place} is slow. Check the "
                "checkpoint storage (latency, throttling), the host's network and disk, and the state size. To prevent "
                "it: incremental checkpoints, faster storage."
            )
        if job.topology.skew(job.id, tm) is not None:
            return (
                f"The input is skewed: {place} gets more records than the others, so barriers wait there behind queued "
                "data. Moving the job to other hosts does not help, because the skew is in the keys. Find the hot keys "
                "(records received by subtask in Flink's UI). Checkpoints complete again when the input drops, or with "
                "a higher execution.checkpointing.timeout, which takes effect at the next deployment. To prevent it: "
                "spread the hot keys, or use unaligned checkpoints (since Flink 1.11)."
            )
        return keep_state(job.id) + (
            f"Barriers wait behind the data queued before {place}, although it gets no more input than the others. "
            "Look there for one slow operator (busyTimeMsPerSecond since Flink 1.13, inputQueueLength) and for other "
            f"load on the host. If the host is the cause, move the job off it: the job restarts from its last "
            "completed checkpoint. To prevent it: fix the slow operator, or use unaligned checkpoints (since Flink "
            "1.11)."
        )
