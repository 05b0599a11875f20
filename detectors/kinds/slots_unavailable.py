"""A job has no slots to run in.

Fires on a failure that says so (`NoResourceAvailableException` in any version's words, a slot request that cannot be
fulfilled), on `Could not acquire the minimum required resources`, `confirmation_delay` after `Could not fulfill
resource requirements` when no TaskManager has come, and when no TaskManager at all has been registered for
`no_taskmanager_for` while a job is under way: Flink then says RUNNING, and no WARN. One finding a cluster: slots are
the cluster's. Ends when a checkpoint completes, a job finishes, or a TaskManager registers where none was.

Why an operator cares: the job restarts every few seconds or waits, and processes nothing. `taskmanager_lost` or
`jobmanager_lost` is the cause when one was told. A job that waits for its TaskManagers at its start is healthy, and so
is one whose TaskManager was told to stop and is being replaced (a rolling restart without a slot to spare): it is said
`planned_for` after the goodbye, or when the job has failed for good.

Reference: Flink, "Fine-grained resource management", slot.request.timeout (5 min); a recording where `uptime` grows and
`downtime` is 0 while nothing runs. `taskSlotsAvailable` is 0 in healthy clusters, too.
"""

from collections.abc import Iterator

import msgspec
from pydantic import Field

from detectors.detector import Detector, DetectorConfig, Now, evidence
from detectors.events.event import LogEvent, MetricEvent
from detectors.flink.root_causes import job_of, role_of
from detectors.flink.stack_traces import FAILURE
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import put_bounded
from detectors.values.durations import Duration, humanize

_SUBJECT = "slots"
_MAX_HOSTS = 20
_MAX_JOBS = 20
_MAX_RECORDS = 4
_FRESH_MS = 180_000
_NEVER = -(1 << 62)
_WAITING = frozenset({"RUNNING", "RESTARTING", "CREATED"})


class RegisteredTaskManagers(msgspec.Struct, array_like=True):
    """TaskManagers registered at one JobManager: how many, and when it said so (event time)."""

    count: float
    time: int


class MissingSlots(msgspec.Struct, array_like=True):
    """Missing slots: event time of the first sign, clock at which it is said (0: said), why, jobs, records.

    `counted`: no line has told, only the number of TaskManagers. `refused`: slots were denied, not only wanted.
    """

    since: int
    say_at: int
    why: str
    last: int
    jobs: list[str]
    records: list[Evidence]
    counted: bool = False
    refused: bool = False


class NoTaskManagers(msgspec.Struct, array_like=True):
    """No TaskManager is registered: since when (event time, clock), and the record that told."""

    since: int
    at: int
    record: Evidence


class SlotsUnavailable(Detector):
    """See the module."""

    kind = "slots_unavailable"
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
        """Thresholds of slots_unavailable."""

        confirmation_delay: Duration = Field(
            10_000,
            description="Wait this long after a WARN alone: a TaskManager may be about to register.",
        )
        planned_for: Duration = Field(
            60_000,
            description="A TaskManager that said goodbye is being replaced: slots may be missing for this long.",
        )
        no_taskmanager_for: Duration = Field(
            180_000,
            description="A job without any TaskManager for this long: starting pods or containers, even with a new "
            "node, takes less; Flink itself says so after 5 min.",
        )

    class State(msgspec.Struct, array_like=True):
        """What is missing; TaskManagers by JobManager's host; `none` since there is none.

        `goodbye` is the event time at which a TaskManager last ended as it was told to.
        """

        missing: MissingSlots | None = None
        registered: dict[str, RegisteredTaskManagers] = {}
        none: NoTaskManagers | None = None
        ended: int = _NEVER
        goodbye: int = _NEVER

    config: Config

    def update(self, state: State, event: LogEvent | MetricEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        """Fold one line about slots, jobs or TaskManagers, or the number of those registered."""
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
                why = "the ResourceManager cannot fulfill its resource requirements"
                yield from self._missing(state, event, now, topology, why, self.config.confirmation_delay)
            case "process_signalled" | "tm_closed":
                if role_of(event.fields.get("reason", "")) == "planned" or "signal" in event.fields:
                    self._goodbye(state, now)
            case "tm_registered":
                yield from self._arrived(state, event.fields["tm"], now, topology)
            case "checkpoint_completed":
                yield from self._served(state, topology.job_of(event), now, topology, "checkpoints complete")
            case "cluster_ending":
                state.none = None
            case _:
                yield from self._job_changed(state, event, now, topology)

    def expire(self, state: State, now: int, topology: Topology) -> Iterator[Finding]:
        """Signs that nothing has taken back, and the time without any TaskManager."""
        missing = state.missing
        if missing is not None and missing.say_at and now >= missing.say_at:
            missing.say_at = 0
            yield self._finding(missing, now, topology)
        if state.none is not None and now >= state.none.at + self.config.no_taskmanager_for:
            none, state.none = state.none, None
            if missing is None and self._none_now(state, now) and _waiting(topology):
                why = f"no TaskManager has been registered for {humanize(now - none.since)}"
                jobs = _waiting(topology)[:_MAX_JOBS]
                state.missing = MissingSlots(none.since, 0, why, now, jobs, [none.record], counted=True)
                yield self._finding(state.missing, now, topology)

    def due(self, state: State) -> int | None:
        """When a sign is confirmed, or a cluster has been without TaskManagers for too long."""
        times = [state.missing.say_at] if state.missing is not None and state.missing.say_at else []
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
        """A standby JobManager has none, too: only when nobody has any."""
        fresh = [r.count for r in state.registered.values() if time - r.time <= _FRESH_MS]
        return bool(fresh) and max(fresh) <= 0

    def _failed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        role = role_of(f"{event.fields['class']}: {event.fields['message']}")
        if role == "planned":
            self._goodbye(state, now)
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
        wait = max(wait, min(state.goodbye - now.time, 0) + self.config.planned_for)
        missing = state.missing
        if missing is None:
            missing = MissingSlots(now.time, now.clock + wait, why, now.time, [], [])
            state.missing = missing
        missing.last, missing.counted = max(missing.last, now.time), False
        missing.refused = missing.refused or refused
        if refused and missing.say_at:
            missing.why = why
        if job and job not in missing.jobs and len(missing.jobs) < _MAX_JOBS:
            missing.jobs.append(job)
        record = evidence(event, now.time)
        if len(missing.records) < _MAX_RECORDS and record not in missing.records:
            missing.records.append(record)
        if refused and wait <= 0 and missing.say_at:
            missing.say_at = 0
            yield self._finding(missing, now.clock, topology)

    def _goodbye(self, state: State, now: Now) -> None:
        """What lacks slots since this moment has as long as a replacement takes."""
        if now.time <= state.goodbye:
            return  # told again
        state.goodbye = now.time
        missing = state.missing
        if missing is not None and missing.say_at:
            missing.say_at = max(missing.say_at, now.clock + self.config.planned_for)

    def _arrived(self, state: State, tm: str, now: Now, topology: Topology) -> Iterator[Finding]:
        state.none = None
        missing = state.missing
        if missing is None or now.time <= missing.last:
            return
        if missing.say_at:
            state.missing = None
        elif missing.counted:
            yield from self._ended(state, now, topology, f"TaskManager {tm} registered")

    def _job_changed(self, state: State, event: LogEvent, now: Now, topology: Topology) -> Iterator[Finding]:
        ended = event.fields["state"]
        missing = state.missing
        held = missing is not None and missing.say_at and missing.refused and event.fields["job"] in missing.jobs
        if ended == "FAILED" and missing is not None and held:
            missing.say_at = 0
            yield self._finding(missing, now.clock, topology)
        if ended in ("FINISHED", "CANCELED", "FAILED"):
            why = f"the job is {ended} and asks for none"
            yield from self._served(state, event.fields["job"], now, topology, why)

    def _served(self, state: State, job: str, now: Now, topology: Topology, why: str) -> Iterator[Finding]:
        """A job has slots, or wants none any more: another's say nothing."""
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
        if not missing.say_at:
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
            advice="Compare the slots the job needs (its greatest parallelism) with Task Managers in Flink's UI. See "
            "why TaskManagers are missing: pending pods, a full YARN queue, a quota, a crash loop; add TaskManagers or "
            "slots. The job waits with its state in the last completed checkpoint; do not cancel it, by default that "
            "deletes its checkpoints. For good: a spare TaskManager, or the adaptive scheduler, which runs with what "
            "there is.",
        )


def _waiting(topology: Topology) -> list[str]:
    return [job for job, known in topology.jobs.items() if known.state in _WAITING]
