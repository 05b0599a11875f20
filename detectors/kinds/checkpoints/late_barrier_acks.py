"""After a checkpoint expired, late lines show which subtasks were too slow for it.

Opens `settle` after an expired checkpoint has `min_acks` late acknowledgements (`Received late message for now expired
checkpoint attempt`, JobManager), or one for each subtask of a smaller job; after one `Checkpoint N has been notified as
aborted, would not trigger any checkpoint` (TaskManager, Flink ≥ 1.11: written only where the barrier had not come
through); or when late acknowledgements repeat over `repeats` checkpoints. Resolved when `healthy_checkpoints` in a row
have completed.

The finding names the TaskManager if most late subtasks are there, and none if every TaskManager of the job is late:
then it names the task that all wait for, and whether it waits for Kafka. It says that barriers wait or that the upload
is slow only where lines or metrics prove it (`held_barriers.py`). While the checkpoint still runs, `checkpoint_overdue`
reports it.

Reference: post-mortem 002 (Flink 1.4.2: ten late acknowledgements within 0.5 s from one host: data skew).
"""

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobDetector, JobView, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.checkpointing.held_barriers import Cause, sets_unaligned
from detectors.flink.checkpointing.late_acks import AbortNotice, ExpiredCheckpoint, JobAcks, LateAck, keep_waiting
from detectors.flink.facts import Fact
from detectors.flink.job_states import ENDING
from detectors.incident import Finding
from detectors.patterns.keep_state import keep_state
from detectors.values.durations import Duration, humanize

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
            "Number of late acknowledgements of one checkpoint from which the finding opens. A job with fewer subtasks "
            "needs only as many as it has. Fewer occur after any restart or savepoint.",
            ge=1,
        )
        repeats: int = threshold(
            2,
            "Number of checkpoints with late acknowledgements, however few, from which the finding opens and is "
            "critical.",
            ge=2,
        )
        settle: Duration = threshold(
            2_000, "Time to wait, after the first late subtask of a checkpoint, for those of other TaskManagers."
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
        """Jobs by id. `notices` wait for the expiry of their checkpoint. `unaligned`: barriers may overtake data."""

        jobs: dict[str, JobAcks] = {}
        notices: list[AbortNotice] = []
        unaligned: bool = False

    @on(facts.Configured, job="none")
    def configured(self, view: _View, fact: facts.Configured) -> None:
        unaligned = sets_unaligned(fact.key, fact.value)
        if unaligned is not None:
            view.state.unaligned = unaligned

    @on("busy_time", "backpressured_time", "in_pool_usage", "input_queue_length", "kafka_connections", job="none")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for sample in samples:
            job_id = sample.labels.get("job_id")
            if job_id:
                job = self.new_job(view, job_id)
                if sample.name in ("busy_time", "in_pool_usage"):
                    job.own.measured(f"{sample.labels.get('task_id')}|{sample.labels.get('subtask_index')}")
                job.own.hold.take(sample, view.time)

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
        notice = AbortNotice(fact.number, view.clock, LateAck(view.time, "", tm, host, noticed=True), view.record())
        recent = [
            job
            for job in self.jobs(view)
            if job.own.may_be_of(fact.number, view.time)
            and view.topology.may_run(job.id, tm)
            and view.clock - job.own.expired[fact.number].at <= job.config.remember
        ]
        if not recent:
            view.state.notices = keep_waiting(view.state.notices, notice)
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

    def deadline(self, job: _Job) -> int | None:
        return min((c.due for c in job.own.expired.values() if c.due), default=None)

    def due(self, job: _Job) -> None:
        """Report checkpoints whose late subtasks have had time to be read."""
        for number in job.own.due(job.clock):
            self._report(job, number)

    def _judge(self, job: _Job, number: int) -> None:
        if not job.own.wait(number, job.clock + job.config.settle):
            self._report(job, number)

    def _report(self, job: _Job, number: int) -> None:
        own = job.own
        if own.open < 0 and own.woken():
            return  # What was wrong has ended.
        if own.late(number, job.config.min_acks, job.config.repeats):
            shown, topology, unaligned = own.shown(), job.topology, job.state.unaligned
            skewed = topology.skew(job.id, self._place(job, shown)[0]) is not None
            own.cause = own.hold.cause(own.cause, shown.noticed, topology.version, unaligned, skewed, job.time)
            job.report(self._finding(job))

    def _close(self, job: _Job, why: str) -> None:
        job.close(self._finding(job), why)
        job.own.open, job.own.earlier, job.own.cause = -1, None, Cause()

    def _finding(self, job: _Job) -> Finding:
        own = job.own
        checkpoint = own.shown()
        tm, host, share = self._place(job, checkpoint)
        skewed = job.topology.skew(job.id, tm)
        tasks = sorted({a.task.rsplit(" (", 1)[0] for a in checkpoint.acks.values() if a.task})[:3]
        if not tasks and own.cause.task:
            tasks = [own.cause.task]
        summary = _late(checkpoint, own.open) + self._where(job, checkpoint, (tm, host), share)
        if skewed is not None:
            summary += f", which reads {skewed[0]:.0%} of the job's input (fair share {skewed[1]:.0%})"
        if own.repeated >= job.config.repeats:
            summary += f"; {own.repeated} checkpoints affected so far"
        return job.finding(
            job.id,
            job.entity(checkpoint=str(own.open), tm_id=tm, host=host, task=", ".join(tasks)),
            since=own.since,
            severity="critical" if own.repeated >= job.config.repeats else "warning",
            confidence="sure" if tm or host else "fair",
            summary=summary + _mechanism(own.cause, job.state.unaligned, skewed is not None) + job.withheld(tm),
            evidence=checkpoint.records,
            advice=_advice(job.id, own.cause, tm, host, skewed is not None),
        )

    def _place(self, job: _Job, checkpoint: ExpiredCheckpoint) -> tuple[str, str, float]:
        """(TaskManager, host, share there); no names if every TaskManager of the job is late and none gets more."""
        tm, host, share = checkpoint.place(job.config.skew_share)
        if _everywhere(job, checkpoint) and job.topology.skew(job.id, tm) is None:
            return "", "", share
        return tm, host, share

    def _where(self, job: _Job, checkpoint: ExpiredCheckpoint, where: tuple[str, str], share: float) -> str:
        tm, host = where
        if not tm and not host:
            count = len(set(checkpoint.places()))
            return f", on {'all ' * _everywhere(job, checkpoint)}{count} TaskManagers" if count > 1 else ""
        text = f", all on {tm or host}" if share == 1 else f", {share:.0%} of them on {tm or host}"
        return text + (f" (host {host})" if tm and host and host not in tm else "")


def _everywhere(job: _Job, checkpoint: ExpiredCheckpoint) -> bool:
    """Whether metrics show several TaskManagers at work for the job, and all of them are late."""
    return 2 <= len(job.topology.intake.get(job.id, ())) <= len(set(checkpoint.places()))


def _late(checkpoint: ExpiredCheckpoint, number: int) -> str:
    """How many subtasks were late for a checkpoint, in words."""
    times = [a.time for a in checkpoint.acks.values()]
    count, late = len(times), humanize(max(0, max(times) - checkpoint.time))
    subtasks = f"{count} subtask{'s' * (count > 1)}"
    if checkpoint.noticed == count:
        return f"{subtasks} had not begun checkpoint {number} when it expired"
    if checkpoint.noticed:
        return f"{subtasks} were late for checkpoint {number}, up to {late} after it expired"
    return f"{subtasks} acknowledged checkpoint {number} up to {late} after it expired"


def _mechanism(cause: Cause, unaligned: bool, skewed: bool) -> str:
    """The proven mechanism in words, or nothing."""
    if cause.reason == "upload":
        return "; state upload is slow"
    if not cause.reason:
        return ""
    if cause.task and not skewed:
        what = " and has no connection to Kafka" if cause.kafka else ""
        return f"; barriers wait for {cause.task}, which is busy all the time{what}"
    return "; the subtasks do not react to barriers" if unaligned else "; barriers wait behind data"


def _advice(job: str, cause: Cause, tm: str, host: str, skewed: bool) -> str:
    """Advice for the cause that was found only: what helps against another cause may do harm."""
    place = f"TaskManager {tm}" if tm else host or "the slow subtasks"
    if cause.reason == "upload":
        return (
            f"The barriers had come through, so the asynchronous upload from {place} is slow. Check the checkpoint "
            "storage (latency, throttling), the host's network and disk, and the state size. To prevent it: "
            "incremental checkpoints, faster storage."
        )
    if skewed:
        return (
            f"The input is skewed: {place} gets more records than the others, so barriers wait there behind queued "
            "data. Moving the job to other hosts does not help, because the skew is in the keys. Find the hot keys "
            "(records received by subtask in Flink's UI). Checkpoints complete again when the input drops, or with "
            "a higher execution.checkpointing.timeout, which takes effect at the next deployment. To prevent it: "
            "spread the hot keys, or use unaligned checkpoints (since Flink 1.11)."
        )
    if not cause.reason:
        return (
            "Compare start delay, alignment and asynchronous duration of the slow subtasks in Flink's UI (Checkpoints, "
            "History). Start delay or alignment: barriers wait behind data, so look for a slow operator or skewed "
            "keys. Asynchronous duration: the upload is slow, so look at the checkpoint storage."
        )
    if cause.task and not tm:
        what = (
            "the Kafka brokers that it writes to or reads from" if cause.kafka else "the external system that it calls"
        )
        return (
            f"No single host is the cause: {cause.task} lets no barrier through on any TaskManager. Look at {what}, "
            "and at a thread dump of a TaskManager: where does the task wait? Leave the job running: checkpoints "
            "complete again when the task continues. To prevent it: timeouts for external calls that are shorter than "
            "execution.checkpointing.timeout."
        )
    return keep_state(job) + (
        f"Barriers wait behind the data queued before {place}, although it gets no more input than the others. "
        "Look there for one slow operator (busyTimeMsPerSecond since Flink 1.13, inputQueueLength) and for other "
        f"load on the host. If the host is the cause, move the job off it: the job restarts from its last "
        "completed checkpoint. To prevent it: fix the slow operator, or use unaligned checkpoints (since Flink "
        "1.11)."
    )
