"""The event-time watermark of a job does not advance although records arrive.

Opens when the input watermark of a subtask that has advanced before does not advance while its numRecordsIn rises: for
`min_duration` and `pause_factor` × the longest pause that was usual in the last hours, in at least three samples, and
with more records than usual between two advances. Only time in which records arrive counts. Names the
source subtasks that hold it back, those whose own output watermark does not advance either, and the partitions whose
offset does not move; or reports that the watermarks of all sources advance. Always a warning: records are read and
kept, and checkpoints complete. Resolved when the watermark has advanced three times, or when the job ends; a restart
alone does not resolve it, because the same source may hold the watermark back again.

Not reported: quiet hours, whose few records are less than usual; jobs without event time; a watermark that moves in
steps as it usually does, also if one step is an hour; a job that has just started or, for `catch_up`, restarted; a task
that reads nothing (`task_stuck`); a task behind a window that is still firing, also at the end of the input.

Why it matters: windows, joins and timers do not fire, so there are no results, while state and checkpoints grow. Flink
reports the job as RUNNING. Reference: Flink, "Generating Watermarks", idle sources; FLINK-32414, 32316, 31632, 35157
and 37670, after which watermark alignment never resumes.
"""

from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from detectors.detector import DetectorConfig, JobStates, JobView, View, on, threshold
from detectors.events.event import Sample, samples_by_job
from detectors.flink import facts
from detectors.flink.calm import ENOUGH_SAMPLES
from detectors.flink.flow.subtask_watermarks import InputWatermark
from detectors.flink.flow.watermarks import JobWatermarks, StalledTask
from detectors.flink.job_states import RESTARTING
from detectors.incident import Evidence, Finding
from detectors.patterns.until_job_ends import UntilJobEnds
from detectors.values.decoding import LAST_MS
from detectors.values.durations import Duration, humanize

_TIMES = ("input_watermark", "output_watermark")
_NAMED = 3
_FUTURE_MS = 3_600_000

_Job: TypeAlias = "JobView[WatermarkStalled.Config, JobStates[JobEventTime], JobEventTime]"
_View: TypeAlias = "View[WatermarkStalled.Config, JobStates[JobEventTime]]"


class OpenStall(msgspec.Struct, array_like=True):
    """The open finding: since when (event time), the task, its watermark, what holds it back, and where that runs."""

    since: int
    task_id: str
    task: str
    value: int
    held: str
    tm: str
    host: str
    records: list[Evidence]


class JobEventTime(msgspec.Struct, array_like=True):
    """The watermarks of one job."""

    watermarks: JobWatermarks = msgspec.field(default_factory=JobWatermarks)
    open: OpenStall | None = None


class WatermarkStalled(UntilJobEnds):
    """Detects event-time watermarks that do not advance."""

    kind = "watermark_stalled"
    Job = JobEventTime
    State = JobStates[JobEventTime]

    class Config(DetectorConfig):
        """Settings of the detector `watermark_stalled`."""

        min_duration: Duration = threshold(
            60_000,
            "Time in which records arrive and the watermark does not advance, from which it is reported, seen in at "
            "least three samples.",
        )
        pause_factor: float = threshold(
            3.0,
            "Multiple of the longest pause between two advances that was usual in the last hours, from which a pause is"
            " reported.",
            ge=1,
        )
        catch_up: Duration = threshold(
            300_000,
            "Time after a restart in which nothing is reported, because the job reads its backlog one partition after "
            "the other.",
        )
        sample_max_age: Duration = threshold(180_000, "Age from which a metric sample is ignored.")

    def job_continues(self, job: _Job, fact: facts.JobStateChanged) -> None:
        if fact.state in RESTARTING:
            job.own.watermarks.restarted = job.time

    @on(*_TIMES, "source_idle_time", "records_in", "records_out", "current_offset", job="none")
    def measured(self, view: _View, samples: list[Sample]) -> None:
        for job_id, own in samples_by_job(samples).items():
            timed = any(s.name in _TIMES for s in own)
            job = self.new_job(view, job_id) if timed else self.job(view, job_id)
            if job is not None:
                job.own.watermarks.take(own, view.time, job.config)
                # One scrape may hold more jobs than are kept.
                if job.id in view.state.jobs:
                    self._judge(job)

    def _judge(self, job: _Job) -> None:
        """Open or close the finding after new samples."""
        found, before = job.own.watermarks.stalled(job.time, job.config), job.own.open
        if found is not None and (before is None or before.task_id == found.task_id):
            late = [found.task.inputs[s] for s in found.subtasks]
            if before is None:
                job.own.open = self._stall(job, found, late)
                job.report(self._finding(job, job.own.open))
            for own in late:
                own.stalled, own.steps = True, 0
        elif before is not None and self._advances(job, before):
            self.close_open(job, before, f"the watermark of {before.task} advances again")

    def _stall(self, job: _Job, found: StalledTask, late: list[InputWatermark]) -> OpenStall:
        """Describe what is known when it is reported."""
        records, name = sum(own.records for own in late), found.task.name
        text = f"currentInputWatermark of {name} does not rise while numRecordsIn rises by {records}"
        since, value = min(own.since for own in late), min(own.value for own in late)
        held = self._held_by(job, found)
        return OpenStall(since, found.task_id, name, value, *held, records=[job.record(text[:500])])

    def _held_by(self, job: _Job, found: StalledTask) -> tuple[str, str, str]:
        """(what holds the watermark back, TaskManager, host); both are empty unless all is in one place."""
        watermarks = job.own.watermarks
        holders, known = watermarks.holders(found, job.time, job.config)
        if not known:
            return "", "", ""
        if not holders:
            return "the watermarks of all source subtasks advance", "", ""
        first = holders[0]
        places = {(h.output.tm, h.output.host) for h in holders}
        tm, host = places.pop() if len(places) == 1 else ("", "")
        tm = job.topology.tm_of_label(tm)
        which = ", ".join(h.subtask for h in holders[:_NAMED]) + (" …" if len(holders) > _NAMED else "")
        text = f"held back by {len(holders)} of {known} source subtasks: {first.task} ({which})"
        text += f" on {tm or host}" if tm or host else ""
        if 2 * first.output.idle >= job.config.min_duration:
            text += f", without records for {humanize(first.output.idle)}"
        silent = [p for h in holders for p in watermarks.silent_partitions(h)]
        if silent:
            more = " …" if len(silent) > _NAMED else ""
            text += f", no new records in partition {', '.join(silent[:_NAMED])}{more}"
        return text, tm, host

    def _advances(self, job: _Job, known: OpenStall) -> bool:
        """Whether every subtask of the finding that is still measured has advanced often enough."""
        task = job.own.watermarks.tasks.get(known.task_id)
        late = [own for own in task.inputs.values() if own.stalled] if task is not None else []
        fresh = [own for own in late if job.time - own.last <= job.config.sample_max_age]
        return not late or (bool(fresh) and all(own.steps >= ENOUGH_SAMPLES for own in fresh))

    def close_open(self, job: _Job, known: OpenStall, why: str) -> None:
        job.close(self._finding(job, known), why)
        job.own.open = None
        task = job.own.watermarks.tasks.get(known.task_id)
        for own in task.inputs.values() if task is not None else ():
            own.stalled = False

    def _finding(self, job: _Job, known: OpenStall) -> Finding:
        ahead = known.value - known.since
        at = _utc(known.value) + (f", {humanize(ahead)} ahead of the clock," if ahead > _FUTURE_MS else "")
        return job.finding(
            job.id,
            job.entity(task=known.task, tm_id=known.tm, host=known.host),
            since=known.since,
            severity="warning",
            summary=f"the event-time watermark of {known.task} has been at {at} for "
            f"{humanize(job.time - known.since)} although records arrive" + (f"; {known.held}" if known.held else ""),
            confidence="sure" if known.held else "fair",
            evidence=known.records,
            advice="Look for a partition, shard or topic without new records, and at its producer: one that is silent "
            "holds back windows, joins and timers of the whole job. If it may be silent, let the job ignore it after a "
            "while: WatermarkStrategy.withIdleness, or table.exec.source.idle-timeout in SQL. If the job uses "
            "watermark alignment, compare its version with the known defects in the runbook. A watermark ahead of the "
            "clock comes from a record with a wrong timestamp: filter such records before watermarks are assigned.",
        )


def _utc(ms: int) -> str:
    """A watermark as a time; an application may use any other number."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC" if 0 <= ms <= LAST_MS else str(ms)
