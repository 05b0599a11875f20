"""A job has no slots to run in.

Opens on a failure that says so (`NoResourceAvailableException` in any version's wording, a slot request that cannot be
fulfilled); on `Could not acquire the minimum required resources`; `confirmation_delay` after `Could not fulfill
resource requirements` if no TaskManager has registered; and if no TaskManager at all has been registered for
`no_taskmanager_for` while a job is active: Flink then logs RUNNING and no WARN. One finding for each cluster, because
slots belong to the cluster. Resolved when a checkpoint completes, when a job finishes, or when a TaskManager registers
after there was none.

Why it matters: the job restarts every few seconds or waits, and processes nothing. If `taskmanager_lost` or
`jobmanager_lost` is open, that is the cause. A job that waits for its TaskManagers at its start is healthy. So is a job
whose TaskManager was stopped on purpose and is being replaced (a rolling restart without a spare slot): it is reported
only `planned_for` after that stop, or when the job has failed for good.

Reference: Flink, "Fine-grained resource management", slot.request.timeout (5 min); a recording where `uptime` grows and
`downtime` is 0 while nothing runs. `taskSlotsAvailable` is 0 in healthy clusters, too.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.job_states import ENDED
from detectors.flink.root_causes import job_of, role_of
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_SUBJECT = "slots"
_MAX_HOSTS = 20
_MAX_JOBS = 20
_MAX_RECORDS = 4
_FRESH_MS = 180_000
_WAITING = frozenset({"RUNNING", "RESTARTING", "CREATED"})


class RegisteredTaskManagers(msgspec.Struct, array_like=True):
    """The number of TaskManagers registered at one JobManager, and the event time of that sample."""

    count: float
    time: int


class MissingSlots(msgspec.Struct, array_like=True):
    """Missing slots: event time of the first sign, clock at which to report it (0: reported), reason, jobs, records.

    `counted`: known only from the number of TaskManagers, not from a line. `refused`: slots were denied, not only
    requested.
    """

    since: int
    report_at: int
    why: str
    last: int
    jobs: list[str]
    records: list[Evidence]
    counted: bool = False
    refused: bool = False


class NoTaskManagers(msgspec.Struct, array_like=True):
    """No TaskManager is registered: since when (event time, clock), and the record that shows it."""

    since: int
    at: int
    record: Evidence


class SlotsUnavailable(Detector):
    """Detects jobs that have no slots to run in."""

    kind = "slots_unavailable"
    belongs_to = "job"
    event_types = frozenset(
        [
            FAILURE,
            "slots_wanted",
            "slots_refused",
            "tm_registered",
            "tm_closed",
            "process_signalled",
            "checkpoint_completed",
            "job_state",
            "job_ended",
            "cluster_ending",
            "registered_task_managers",
        ]
    )

    class Config(DetectorConfig):
        """Settings of the detector `slots_unavailable`."""

        confirmation_delay: Duration = Field(
            10_000,
            description="Time to wait after a WARN alone, because a TaskManager may be about to register.",
        )
        planned_for: Duration = Field(
            60_000,
            description="Time after the orderly stop of a TaskManager in which slots may be missing while it is "
            "replaced.",
        )
        no_taskmanager_for: Duration = Field(
            180_000,
            description="Time without any registered TaskManager after which an active job is reported. Pods or "
            "containers start faster, even on a new node. Flink itself reports it after 5 min.",
        )

    class State(msgspec.Struct, array_like=True):
        """Missing slots, TaskManagers by the JobManager's host, and since when there is no TaskManager (`none`).

        `orderly_stop` is the event time at which a TaskManager was last stopped on purpose.
        """

        missing: MissingSlots | None = None
        registered: dict[str, RegisteredTaskManagers] = {}
        none: NoTaskManagers | None = None
        ended: int = LONG_AGO
        orderly_stop: int = LONG_AGO

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        if isinstance(event, MetricEvent):
            yield from self._counted(state, event, now, topology)
            return
        match event.event_type:
            case "failure":
                yield from self._failed(state, event, now, topology)
            case "slots_refused":
                yield from self._missing(
                    state, event, now, topology, "could not acquire the minimum required resources"
                )
            case "slots_wanted":
                why = "the ResourceManager cannot fulfill the resource requirements"
                yield from self._missing(state, event, now, topology, why, self.config.confirmation_delay)
            case "process_signalled" | "tm_closed":
                if role_of(event.fields.get("reason", "")) == "planned" or "signal" in event.fields:
                    self._stopped(state, now)
            case "tm_registered":
                yield from self._arrived(state, event.fields["tm"], now, topology)
            case "checkpoint_completed":
                yield from self._served(state, topology.job_of(event), now, topology, "a checkpoint completed")
            case "cluster_ending":
                state.none = None
            case _:
                yield from self._job_changed(state, event, now, topology)

    def on_deadline(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Report signs that no line has disproved, and clusters without any TaskManager for too long."""
        missing = state.missing
        if missing is not None and missing.report_at and now >= missing.report_at:
            missing.report_at = 0
            yield self._finding(missing, now, topology)
        if state.none is not None and now >= state.none.at + self.config.no_taskmanager_for:
            none, state.none = state.none, None
            if missing is None and self._none_now(state, now) and _waiting(topology):
                why = f"no TaskManager has been registered for {humanize(now - none.since)}"
                jobs = _waiting(topology)[:_MAX_JOBS]
                state.missing = MissingSlots(none.since, 0, why, now, jobs, [none.record], counted=True)
                yield self._finding(state.missing, now, topology)

    def next_deadline(self, state: State) -> int | None:
        """When a sign is confirmed, or a cluster has been without TaskManagers for too long."""
        times = [state.missing.report_at] if state.missing is not None and state.missing.report_at else []
        if state.none is not None:
            times.append(state.none.at + self.config.no_taskmanager_for)
        return min(times, default=None)

    def _counted(self, state: State, event: MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        for sample in event.samples:
            if sample.name != "registered_task_managers":
                continue
            host = sample.labels.get("host", event.host)
            known = state.registered.get(host)
            if known is None or event.time >= known.time:
                put_bounded(state.registered, host, RegisteredTaskManagers(sample.value, event.time), _MAX_HOSTS)
        if not self._none_now(state, now.time) or not _waiting(topology):
            state.none = None
            if state.missing is not None and state.missing.counted:
                yield from self._ended(state, now, topology, "TaskManagers are registered again")
        elif state.none is None and state.missing is None:
            text = "registered TaskManagers: 0"
            record = Evidence(event.topic, event.partition, event.offset, event.time, text)
            state.none = NoTaskManagers(event.time, now.clock, record)

    def _none_now(self, state: State, time: int) -> bool:
        """Whether no JobManager has a TaskManager. A standby JobManager never has one."""
        fresh = [r.count for r in state.registered.values() if time - r.time <= _FRESH_MS]
        return bool(fresh) and max(fresh) <= 0

    def _failed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        role = role_of(f"{event.fields['class']}: {event.fields['message']}")
        if role == "planned":
            self._stopped(state, now)
        elif role == "slots" and job_of(event, topology):
            why = event.fields["message"].rpartition("Exception: ")[2].partition(". ")[0].rstrip(". ")
            yield from self._missing(state, event, now, topology, why or "no slot is available")

    def _missing(
        self, state: State, event: LogEvent, now: Now, topology: Topology, why: str, wait: int = 0
    ) -> Iterator[Finding]:
        if now.time <= state.ended:
            return
        job = job_of(event, topology)
        refused = not wait
        wait = max(wait, min(state.orderly_stop - now.time, 0) + self.config.planned_for)
        missing = state.missing
        if missing is None:
            missing = MissingSlots(now.time, now.clock + wait, why, now.time, [], [])
            state.missing = missing
        missing.last, missing.counted = max(missing.last, now.time), False
        missing.refused = missing.refused or refused
        if refused and missing.report_at:
            missing.why = why
        if job and job not in missing.jobs and len(missing.jobs) < _MAX_JOBS:
            missing.jobs.append(job)
        record = evidence(event, now.time)
        if len(missing.records) < _MAX_RECORDS and record not in missing.records:
            missing.records.append(record)
        if refused and wait <= 0 and missing.report_at:
            missing.report_at = 0
            yield self._finding(missing, now.clock, topology)

    def _stopped(self, state: State, now: Now) -> None:
        """Give missing slots the time that a replacement of the stopped TaskManager takes."""
        if now.time <= state.orderly_stop:
            return  # The same stop, logged again.
        state.orderly_stop = now.time
        missing = state.missing
        if missing is not None and missing.report_at:
            missing.report_at = max(missing.report_at, now.clock + self.config.planned_for)

    def _arrived(self, state: State, tm: str, now: Now, topology: Topology) -> Iterator[Finding]:
        state.none = None
        missing = state.missing
        if missing is None or now.time <= missing.last:
            return
        if missing.report_at:
            state.missing = None
        elif missing.counted:
            yield from self._ended(state, now, topology, f"TaskManager {tm} registered")

    def _job_changed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        ended = event.fields["state"]
        missing = state.missing
        held = missing is not None and missing.report_at and missing.refused and event.fields["job"] in missing.jobs
        if ended == "FAILED" and missing is not None and held:
            missing.report_at = 0
            yield self._finding(missing, now.clock, topology)
        if ended in ENDED:
            why = f"the job is {ended} and needs no slots"
            yield from self._served(state, event.fields["job"], now, topology, why)

    def _served(self, state: State, job: str, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        """Close the finding if this job is the last that lacked slots and now has them or needs none."""
        missing = state.missing
        if missing is None or now.time <= missing.last or (missing.jobs and job not in missing.jobs):
            return
        if len(missing.jobs) > 1:
            missing.jobs.remove(job)
        else:
            yield from self._ended(state, now, topology, why)

    def _ended(self, state: State, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        missing = state.missing
        if missing is None or now.time <= missing.last:
            return
        state.missing, state.ended, state.none = None, now.time, None
        if not missing.report_at:
            finding = self._finding(missing, now.clock, topology)
            finding.closed_at, finding.closed_because = now.clock, why
            yield finding

    def _finding(self, missing: MissingSlots, now: int, topology: Topology) -> Finding:
        job = missing.jobs[0] if len(missing.jobs) == 1 else ""
        name = topology.job_name(job)
        whose = f"job {name or job} has" if job else f"{len(missing.jobs) or 'all'} jobs have"
        return Finding(
            kind=self.kind,
            subject=_SUBJECT,
            entity={"job_id": job, "job_name": name},
            since=missing.since,
            at=now,
            severity="critical",
            summary=f"{whose} no slots to run in: {missing.why}",
            confidence="fair" if missing.counted else "sure",
            evidence=list(missing.records),
            advice="Compare the slots that the job needs (its highest parallelism) with Task Managers in Flink's UI. "
            "Find out why TaskManagers are missing: pending pods, a full YARN queue, a quota, a crash loop. Add "
            "TaskManagers or slots. The job waits, and its state is in the last completed checkpoint; do not cancel "
            "it, by default that deletes its checkpoints. For good: a spare TaskManager, or the adaptive scheduler, "
            "which runs with the slots that exist.",
        )


def _waiting(topology: Topology) -> list[str]:
    return [job for job, known in topology.jobs.items() if known.state in _WAITING]
