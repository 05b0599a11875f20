"""Several checkpoints of a job in a row have failed.

Opens at the `in_a_row`-th checkpoint in a row that expired, was declined or failed, and at once when Flink logs
`Exceeded checkpoint tolerable failure threshold`. Resolved by a completed checkpoint, or when the job ends.

These do not count: savepoints; triggers refused because not all tasks run; checkpoints aborted by a start, a restart or
the end of the job ("Checkpoint Coordinator is suspending", a task that is closing or has failed); checkpoints dropped
in favour of a newer one. An exception in the synchronous part of a snapshot is never declined, whatever the tolerance:
the task fails (`Could not perform checkpoint N`) and the job restarts, but the checkpoint has failed too. The reason is
in the stack trace after the line, so all failures except expiries wait for `confirmation_delay`.

Why it matters: state is no longer saved. Each failure of the job now replays from an ever older checkpoint, and a sink
that commits on checkpoints shows nothing new. Before Flink 1.10 expiries did not count against the tolerance
(FLINK-17351), so such a job runs on like this for ever. `checkpoint_overdue` reports a single checkpoint that hangs or
expired, `late_barrier_acks` why checkpoints expire.
"""

import re
from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent
from detectors.flink.job_states import ENDED, RESTARTING
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding, Reading
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration

_MAX_JOBS = 200
_MAX_FAILED = 16
_MAX_HARMLESS = 32
_MAX_RECORDS = 5
_EXPIRED = "it expired before completing"
_THROWN = re.compile(r"Could not (?:perform checkpoint|complete snapshot|materialize checkpoint) (\d+) for operator")
_THRESHOLD = "exceeded checkpoint tolerable failure threshold"
_HARMLESS = (
    "not all required tasks",
    "coordinator is suspending",
    "coordinator shutdown",
    "tasks not ready",
    "task is closing",
    "partially closed",
    "input stream is finished",
    "cancellation from one of its inputs",
    "barrier from newer checkpoint",
    "has been subsumed",
    "the job has failed",
    "task has failed",
    "failoverregion is restarting",
    "scheduler is shut",
    "minimum time between",
    "queued checkpoint requests",
    "blocking output edge",
)
_RUNNING_AGAIN = RESTARTING | {"CANCELLING", "INITIALIZING"}


class FailedCheckpoint(msgspec.Struct, array_like=True):
    """A failed checkpoint: event time and clock of its first line, the record, and the reason (empty until known).

    `thrown`: it made a task fail, so the restart that follows is its effect. `doubtful`: it came so soon after a
    restart that it counts only with a reason of its own.
    """

    time: int
    at: int
    record: Evidence
    why: str = ""
    thrown: bool = False
    doubtful: bool = False


class JobFailures(msgspec.Struct, array_like=True):
    """Failures since the last completed checkpoint, by number; `before` counts those no longer kept.

    `harmless` holds the numbers that do not count (savepoints and the failures listed above), `triggered` the last
    number triggered. Times are event times.
    """

    failed: dict[int, FailedCheckpoint] = {}
    before: int = 0
    harmless: list[int] = []
    completed: int = LONG_AGO
    restarted: int = LONG_AGO
    limit: Evidence | None = None
    open: Finding | None = None
    triggered: int = -1


class CheckpointFailing(Detector):
    """Detects several failed checkpoints in a row."""

    kind = "checkpoint_failing"
    belongs_to = "job"
    per_job = True
    event_types = frozenset(
        [
            "checkpoint_triggered",
            "checkpoint_completed",
            "checkpoint_expired",
            "checkpoint_declined",
            "checkpoint_failed",
            "job_restored",
            "job_state",
            "job_ended",
            FAILURE,
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `checkpoint_failing`."""

        in_a_row: int = Field(
            3,
            ge=2,
            le=16,
            description="Number of failed checkpoints in a row, without a completed one between them, from which "
            "the finding opens.",
        )
        confirmation_delay: Duration = Field(
            2_000,
            description="Time to wait for the reason and the root cause of a failure, which follow in the next "
            "records.",
        )
        restart_for: Duration = Field(
            10_000,
            description="Time after a restart in which a failure without a reason is attributed to that restart.",
        )

    class State(msgspec.Struct, array_like=True):
        """Jobs by id."""

        jobs: dict[str, JobFailures] = {}

    config: Config

    def update(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        # A TaskManager's line about its task repeats the JobManager's line about the job.
        thrown = _thrown(event) if event.source not in topology.tm_of_source else -1
        job = self._job_at(state, thrown, event, topology)
        known = state.jobs.get(job)
        if known is None:
            exceeded = _THRESHOLD in event.fields.get("message", "").lower()
            if not (event.event_type.startswith("checkpoint_") or exceeded or thrown >= 0):
                return
            known = JobFailures()
            put_bounded(state.jobs, job, known, _MAX_JOBS)
        number = int(event.fields.get("checkpoint", thrown))
        match event.event_type:
            case "checkpoint_triggered":
                known.triggered = number
                if "savepoint" in event.fields.get("type", "").lower():
                    self._does_not_count(known, number)
            case "checkpoint_completed":
                yield from self._completed(known, number, now)
            case "checkpoint_expired" | "checkpoint_declined" | "checkpoint_failed":
                self._failed(known, job, number, event, now)
                yield from self._report(known, job, now.clock, topology)
            case "failure":
                self._explained(known, number, event, now, thrown >= 0)
                yield from self._report(known, job, now.clock, topology)
            case "job_restored":
                known.restarted = max(known.restarted, now.time)
            case _:
                yield from self._job_changed(state, known, job, event.fields.get("state", ""), now, topology)

    def _job_at(self, state: State, number: int, event: LogEvent, topology: Topology) -> str:
        """The line of a failing task names no job, so take the only one at this checkpoint."""
        at_it = [job for job, known in state.jobs.items() if number >= 0 and known.triggered == number]
        return at_it[0] if len(at_it) == 1 and "job" not in event.fields else topology.job_of(event)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report failures whose wait for a reason has ended."""
        for job, known in state.jobs.items():
            if known.open is None:
                yield from self._report(known, job, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When the wait of the failure that completes `in_a_row` ends."""
        return min(
            (d for job, k in state.jobs.items() if k.open is None and (d := self._ripe(k, job)) is not None),
            default=None,
        )

    def readings(self, state: State, now: int, topology: Topology) -> Iterator[Reading]:
        """Export failures in a row, per job."""
        for job, known in state.jobs.items():
            labels = {"job": topology.job_name(job) or job}
            yield Reading(name="checkpoint_consecutive_failures", labels=labels, value=self._count(known), at=now)

    def _count(self, known: JobFailures) -> int:
        return known.before + len(_counting(known))

    def _ripe(self, known: JobFailures, job: str) -> int | None:
        """Clock time at which there are enough failures, or None while there are too few."""
        config = self.config_of(job)
        ready = sorted(
            f.at + (0 if f.why == _EXPIRED else config.confirmation_delay) for f in _counting(known).values()
        )
        missing = max(config.in_a_row - known.before, 1)
        return ready[missing - 1] if len(ready) >= missing else None

    def _does_not_count(self, known: JobFailures, number: int) -> None:
        known.failed.pop(number, None)
        if number not in known.harmless:
            known.harmless = [*known.harmless, number][-_MAX_HARMLESS:]

    def _failed(self, known: JobFailures, job: str, number: int, event: LogEvent, now: Now) -> None:
        if number in known.harmless or now.time <= known.completed:
            return
        why = _EXPIRED if event.event_type == "checkpoint_expired" else ""
        if any(word in event.text.lower() for word in _HARMLESS):
            self._does_not_count(known, number)
        elif number in known.failed:
            known.failed[number].why = known.failed[number].why or why
        else:
            known.before += len(known.failed) >= _MAX_FAILED
            doubtful = 0 <= now.time - known.restarted <= self.config_of(job).restart_for
            failed = FailedCheckpoint(now.time, now.clock, evidence(event, now.time), why, doubtful=doubtful)
            put_bounded(known.failed, number, failed, _MAX_FAILED)

    def _explained(self, known: JobFailures, number: int, event: LogEvent, now: Now, thrown: bool) -> None:
        text = f"{event.fields.get('first', '')} {event.fields.get('message', '')}".lower()
        if thrown and event.fields.get("of") == "task_state":
            self._task_failed(known, number, event, now)
            return
        if _THRESHOLD in text:
            if known.limit is None and now.time > known.completed and "again" not in event.fields:
                known.limit = evidence(event, now.time)
        elif not event.fields.get("of", "").startswith("checkpoint_") or number not in known.failed:
            return
        elif known.failed[number].thrown:
            return  # The restart that follows suspends the coordinator: that is no reason.
        elif any(word in text for word in _HARMLESS):
            self._does_not_count(known, number)
        elif known.failed[number].why != _EXPIRED:
            known.failed[number].why = _why(event)

    def _task_failed(self, known: JobFailures, number: int, event: LogEvent, now: Now) -> None:
        """The checkpoint made a task fail; each line of the stack trace adds to the reason."""
        if number in known.harmless or now.time <= known.completed:
            return
        failed = known.failed.get(number)
        if failed is None:
            known.before += len(known.failed) >= _MAX_FAILED
            failed = FailedCheckpoint(now.time, now.clock, evidence(event, now.time))
            put_bounded(known.failed, number, failed, _MAX_FAILED)
        failed.thrown, failed.why = True, _why(event)

    def _report(self, known: JobFailures, job: str, now: int, topology: Topology) -> Iterator[Finding]:
        ripe = self._ripe(known, job)
        if known.limit is None and (ripe is None or now < ripe):
            return
        finding = self._finding(known, job, now, topology)
        if known.open is None or known.open.summary != finding.summary:
            known.open = finding
            yield msgspec.structs.replace(finding)

    def _completed(self, known: JobFailures, number: int, now: Now) -> Iterator[Finding]:
        last = max((f.time for f in known.failed.values()), default=LONG_AGO)
        if now.time < max(last, known.completed, known.limit.time if known.limit else LONG_AGO):
            return
        known.completed = now.time
        known.failed, known.before, known.limit = {}, 0, None
        yield from self._closed(known, now, f"checkpoint {number} completed")

    def _job_changed(
        self, state: State, known: JobFailures, job: str, new: str, now: Now, topology: Topology
    ) -> Iterator[Finding]:
        if new in _RUNNING_AGAIN:
            confirm = self.config_of(job).confirmation_delay
            known.restarted = max(known.restarted, now.time)
            # Checkpoints aborted by a restart may be logged just before it, and their reason may be lost.
            for number, failed in list(known.failed.items()):
                if not failed.why and 0 <= now.time - failed.time <= confirm and known.open is None:
                    self._does_not_count(known, number)
                elif failed.thrown:
                    failed.at = min(failed.at, now.clock - confirm)  # Its stack trace is complete.
            yield from self._report(known, job, now.clock, topology)
        elif new in ENDED:
            yield from self._closed(known, now, f"the job is {new}")
            del state.jobs[job]

    def _closed(self, known: JobFailures, now: Now, why: str) -> Iterator[Finding]:
        if known.open is not None:
            closed = msgspec.structs.replace(known.open, at=now.clock, closed_at=now.clock, closed_because=why)
            known.open = None
            yield closed

    def _finding(self, known: JobFailures, job: str, now: int, topology: Topology) -> Finding:
        failed, count = sorted(_counting(known).items()), self._count(known)
        why = next((f.why for _, f in reversed(failed) if f.why), "Flink gives no reason")
        summary = f"{count} checkpoints in a row failed" if count != 1 else "a checkpoint failed"
        if failed:
            summary += f" (last: checkpoint {failed[-1][0]}): {why}"
        records = [f.record for _, f in failed]
        if known.limit is not None:
            summary = (
                "the job restarts because it exceeded the tolerable number of failed checkpoints; "
                f"{summary if failed else why}"
            )
            records.append(known.limit)
        elif why == _EXPIRED and topology.version.startswith(("1.4", "1.5", "1.6", "1.7", "1.8", "1.9")):
            summary += f"; Flink {topology.version} does not count expired checkpoints, so it will not restart the job"
        return Finding(
            kind=self.kind,
            subject=job,
            entity={
                "job_id": job,
                "job_name": topology.job_name(job),
                "checkpoint": str(failed[-1][0] if failed else ""),
            },
            since=min((r.time for r in records), default=now),
            at=now,
            severity="critical",
            summary=summary,
            confidence="sure" if known.limit or all(f.why for _, f in failed) else "fair",
            evidence=[*records[:1], *records[1:][-_MAX_RECORDS + 1 :]],
            advice="Open the last failed checkpoint in Flink's UI and see which subtasks have not acknowledged, or the "
            "exception. If it expired, look at backpressure and at the checkpoint storage. If it was declined or "
            "failed, read the exception. Do not restart or cancel the job by hand before that: everything since its "
            "last completed checkpoint is replayed, and by default Flink deletes the checkpoints of a job that is "
            "cancelled.",
        )


def _counting(known: JobFailures) -> dict[int, FailedCheckpoint]:
    return {n: f for n, f in known.failed.items() if f.why or not f.doubtful}


def _thrown(event: LogEvent) -> int:
    """The number of the checkpoint whose snapshot threw an exception, or -1."""
    found = _THROWN.search(event.fields.get("first", "")) or _THROWN.search(event.fields.get("message", ""))
    return int(found[1]) if found is not None else -1


def _why(event: LogEvent) -> str:
    name, message = event.fields["class"].rpartition(".")[2], event.fields["message"]
    # Flink's wrapper for an exception of another process: its message begins with the real class.
    return (message if name == "SerializedThrowable" else f"{name}: {message}").rstrip(": .")
