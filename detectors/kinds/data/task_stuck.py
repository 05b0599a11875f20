"""A task processes nothing although records wait before it.

Opens when the counters of a subtask, records in and out, do not move for `min_duration` and at least three samples
while records wait: another task is backpressured or the subtask's own input buffers are full (a source: it has
pending records), and the subtask itself is busy all the time and not backpressured. A subtask that is not busy counts
only if its input is full and nothing else in the job moves. It becomes critical after `critical_after`: half of Flink's
default checkpoint timeout, and longer than a retry or a failover of an external system takes. Resolved when each of
these subtasks has moved in three samples, when the job has restarted and they move or nothing waits before them, or
when the job ends.

Not reported: a slow task, whose counters still move (`backpressure`); pauses that are usual for the task, such as those
of a sink that writes in batches (`pause_factor`); tasks without input; tasks that are restored and have not read
anything yet; attempts that fail before `min_duration` has passed (`restart_loop`), also if each stops at the same
record; a window that emits for minutes; a barrier that waits for a slow input; samples that are missing.

Why it matters: Flink reports the job as RUNNING. If checkpoints are disabled no line is written at all, otherwise
they expire, and each restart reads the same records again. Reference: Flink, "Monitoring Back Pressure"; a recording of
an operator in an endless loop.
"""

from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample, samples_by_job
from detectors.flink import facts
from detectors.flink.flow.records import COUNTERS, JobRecords, StuckTask
from detectors.flink.job_states import RESTARTING
from detectors.incident import Evidence, Finding
from detectors.patterns.keep_state import keep_state
from detectors.patterns.until_job_ends import UntilJobEnds
from detectors.values.durations import Duration, humanize

_NAMED = 4

_Job: TypeAlias = "JobView[TaskStuck.Config, JobStates[JobProgress], JobProgress]"
_View: TypeAlias = "View[TaskStuck.Config, JobStates[JobProgress]]"


class OpenStuckTask(msgspec.Struct, array_like=True):
    """The open finding: since when (event time), which task, its subtasks with the attempt of each, and what waits."""

    since: int
    task_id: str
    task: str
    busy: bool
    waiting: str
    records: list[Evidence]
    subtasks: dict[str, int] = {}
    critical: bool = False
    tms: list[str] = []
    host: str = ""


class JobProgress(msgspec.Struct, array_like=True):
    """The records that move through one job."""

    records: JobRecords = msgspec.field(default_factory=JobRecords)
    open: OpenStuckTask | None = None


class TaskStuck(UntilJobEnds):
    """Detects tasks that process nothing although records wait."""

    kind = "task_stuck"
    Job = JobProgress
    State = JobStates[JobProgress]

    class Config(DetectorConfig):
        """Settings of the detector `task_stuck`."""

        min_duration: Duration = threshold(
            60_000,
            "Time without a processed record from which a task counts as stuck, seen in at least three samples. "
            "Flink's busy and backpressured times are averages over 60 s.",
        )
        pause_factor: float = threshold(
            3.0,
            "Multiple of the longest pause that was usual for a task in the last hours, from which it is reported.",
            ge=1,
        )
        critical_after: Duration = threshold(
            300_000,
            "Time without a processed record from which the finding is critical. The default is half of Flink's "
            "default checkpoint timeout.",
        )
        sample_max_age: Duration = threshold(180_000, "Age from which a metric sample is ignored.")

    def job_continues(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            job.own.records.restarted(job.time)

    @on(
        *COUNTERS,
        "busy_time",
        "backpressured_time",
        "is_backpressured",
        "in_pool_usage",
        "input_queue_length",
        "pending_records",
        job="none",
    )
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for job_id, own in samples_by_job(samples).items():
            job = self.new_job(view, job_id)
            job.own.records.take(own, view.time, job.config)
            # One scrape may hold more jobs than are kept.
            if job.id in view.state.jobs:
                self._judge(job)

    def _judge(self, job: _Job) -> None:
        """Open, extend or close the finding after new samples."""
        found, before = job.own.records.stuck(job.time, job.config), job.own.open
        if before is None:
            if found is None:
                return
            waiting = _what_waits(job, found)
            record = job.record(f"numRecordsIn and numRecordsOut of {found.task.name} do not rise, and {waiting}"[:500])
            before = OpenStuckTask(job.time, found.task_id, found.task.name, found.busy, waiting, [record])
            job.own.open = before
        elif found is None or found.task_id != before.task_id:
            if job.own.records.moves_again(before.task_id, before.subtasks, job.time, job.config):
                self.close_open(job, before, f"{before.task} processes records again")
            return
        self._extend(job, before, found)

    def _extend(self, job: _Job, known: OpenStuckTask, found: StuckTask) -> None:
        """Add the subtasks that are stuck now. Report if that, or the severity, is new."""
        added = [s for s in found.subtasks if s not in known.subtasks]
        for subtask in found.subtasks:
            stuck = found.task.subtasks[subtask]
            known.subtasks[subtask], stuck.moves = stuck.attempt, 0
            known.since = min(known.since, stuck.since)
            tm = job.topology.tm_of_label(stuck.tm) or stuck.host
            if tm and tm not in known.tms:
                known.tms.append(tm)
                known.host = stuck.host
        critical = job.time - known.since >= job.config.critical_after
        if added or critical > known.critical:
            known.critical = known.critical or critical
            job.report(self._finding(job, known))

    def close_open(self, job: _Job, known: OpenStuckTask, why: str) -> None:
        job.close(self._finding(job, known), why)
        job.own.open = None

    def _finding(self, job: _Job, known: OpenStuckTask) -> Finding:
        task = job.own.records.tasks.get(known.task_id)
        names = sorted(known.subtasks, key=lambda s: (len(s), s))
        which = ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")
        total = max(len(task.subtasks) if task is not None else 0, len(names))
        tm, host = (known.tms[0], known.host) if len(known.tms) == 1 else ("", "")
        place = tm or (f"{len(known.tms)} TaskManagers" if known.tms else "an unknown TaskManager")
        how = "busy all the time" if known.busy else "not busy"
        return job.finding(
            job.id,
            job.entity(task=known.task, tm_id=tm, host=host),
            since=known.since,
            severity="critical" if known.critical else "warning",
            summary=f"{known.task} has processed no record for {humanize(job.time - known.since)} although "
            f"{known.waiting}: {len(names)} of {total} subtask{'s' * (total != 1)} ({which}) on {place}, {how}",
            confidence="sure" if known.busy else "fair",
            evidence=known.records,
            advice=keep_state(job.id)
            + f"Take a thread dump of {place} before anything else (Flink's UI, Task Managers, Thread Dump; or "
            "jstack): the thread named after the task shows the call that does not return. If it calls another "
            "system, repair that system. If it is an endless loop or a lock, the job must restart with the error "
            "fixed, because the same record stops it again. To prevent it: a timeout for every external call.",
        )


def _what_waits(job: _Job, found: StuckTask) -> str:
    """Name what shows that records wait."""
    fresh = job.time - job.config.sample_max_age
    others = ((i, t) for i, t in job.own.records.load.tasks.items() if i != found.task_id)
    waiting = [task.name for _, task in others if any(at >= fresh for at in task.waits.values())]
    if waiting:
        return f"{waiting[0]} waits for it" if len(waiting) == 1 else f"{len(waiting)} tasks wait for it"
    return "records are pending" if found.task.pending else "its input buffers are full"
