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

from typing import TypeAlias

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import Sample
from detectors.flink import facts
from detectors.flink.facts import Fact, Failure
from detectors.flink.regular_sources import RegisteredTaskManagers
from detectors.flink.root_causes import role_of
from detectors.flink.topology import Topology
from detectors.incident import Evidence, Finding
from detectors.values.bounded import append_new
from detectors.values.durations import LONG_AGO, Duration, humanize

_SUBJECT = "slots"
_MAX_JOBS = 20
_MAX_RECORDS = 4
_WAITING = frozenset({"RUNNING", "RESTARTING", "CREATED"})

_View: TypeAlias = "View[SlotsUnavailable.Config, SlotsUnavailable.State]"


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

    class Config(DetectorConfig):
        """Settings of the detector `slots_unavailable`."""

        confirmation_delay: Duration = threshold(
            10_000, "Time to wait after a warning about missing slots, because a TaskManager may be about to register."
        )
        planned_for: Duration = threshold(
            60_000, "Time after the orderly stop of a TaskManager in which slots may be missing while it is replaced."
        )
        no_taskmanager_for: Duration = threshold(
            180_000,
            "Time without any registered TaskManager after which an active job is reported. Pods or containers start "
            "faster, even on a new node. Flink itself reports it after 5 min.",
        )

    class State(msgspec.Struct, array_like=True):
        """Missing slots, registered TaskManagers, and since when there are none (`none`).

        `orderly_stop` is the event time at which a TaskManager was last stopped on purpose.
        """

        missing: MissingSlots | None = None
        registered: RegisteredTaskManagers = msgspec.field(default_factory=RegisteredTaskManagers)
        none: NoTaskManagers | None = None
        ended: int = LONG_AGO
        orderly_stop: int = LONG_AGO

    config: Config

    @on(Failure)
    def failed(self, view: _View, fact: Failure) -> None:
        role = role_of(fact.thrown)
        if role == "planned":
            self._stopped(view)
        elif role == "slots" and view.topology.job_of_failure(view.line):
            why = fact.message.rpartition("Exception: ")[2].partition(". ")[0].rstrip(". ")
            self._missing(view, why or "no slot is available")

    @on(facts.SlotsMissing)
    def slots_missing(self, view: _View, fact: facts.SlotsMissing) -> None:
        if fact.refused:
            self._missing(view, "could not acquire the minimum required resources")
        else:
            why = "the ResourceManager cannot fulfill the resource requirements"
            self._missing(view, why, self.config.confirmation_delay)

    @on(*facts.PROCESS_ENDS)
    def ended(self, view: _View, end: facts.ProcessEnd) -> None:
        if end.how != "orderly":
            return
        if not end.tms:
            view.state.none = None
        self._stopped(view)

    @on(facts.TaskManagerRegistered)
    def registered(self, view: _View, fact: facts.TaskManagerRegistered) -> None:
        view.state.none = None
        missing = view.state.missing
        if missing is None or view.time <= missing.last:
            return
        if missing.report_at:
            view.state.missing = None
        elif missing.counted:
            self._end(view, missing, f"TaskManager {fact.tm} registered")

    @on(facts.CheckpointCompleted, needs="missing")
    def completed(self, view: _View, _: Fact) -> None:
        self._served(view, view.job, "a checkpoint completed")

    @on(facts.JobStateChanged, needs="missing")
    def job_changed(self, view: _View, fact: facts.JobStateChanged) -> None:
        missing = view.state.missing
        held = missing is not None and missing.report_at and missing.refused and fact.job in missing.jobs
        if missing is not None and held and fact.state == "FAILED":
            missing.report_at = 0
            view.report(self._finding(view, missing))
        if fact.ended:
            self._served(view, fact.job, f"the job is {fact.state} and needs no slots")

    @on("registered_task_managers")
    def counted(self, view: _View, samples: list[Sample]) -> None:
        state = view.state
        state.registered.measure(samples, view.event.host, view.time)
        if not state.registered.none(view.time) or not _waiting(view.topology):
            state.none = None
            if state.missing is not None and state.missing.counted:
                self._end(view, state.missing, "TaskManagers are registered again")
        elif state.none is None and state.missing is None:
            state.none = NoTaskManagers(view.time, view.clock, view.record("registered TaskManagers: 0"))

    def on_deadline(self, view: _View) -> None:
        """Report signs that no line has disproved, and clusters without any TaskManager for too long."""
        missing, none = view.state.missing, view.state.none
        if missing is not None and missing.report_at and view.clock >= missing.report_at:
            missing.report_at = 0
            view.report(self._finding(view, missing))
        if none is not None and view.clock >= none.at + self.config.no_taskmanager_for:
            view.state.none = None
            jobs = _waiting(view.topology)[:_MAX_JOBS]
            if missing is None and view.state.registered.none(view.clock) and jobs:
                why = f"no TaskManager has been registered for {humanize(view.clock - none.since)}"
                missing = MissingSlots(none.since, 0, why, view.clock, jobs, [none.record], counted=True)
                view.state.missing = missing
                view.report(self._finding(view, missing))

    def next_deadline(self, view: _View) -> int | None:
        """When a sign is confirmed, or a cluster has been without TaskManagers for too long."""
        missing, none = view.state.missing, view.state.none
        times = [missing.report_at] if missing is not None and missing.report_at else []
        return min([*times, none.at + self.config.no_taskmanager_for] if none is not None else times, default=None)

    def _missing(self, view: _View, why: str, wait: int = 0) -> None:
        if view.time <= view.state.ended:
            return
        job, refused = view.topology.job_of_failure(view.line), not wait
        wait = max(wait, min(view.state.orderly_stop - view.time, 0) + self.config.planned_for)
        missing = view.state.missing
        if missing is None:
            missing = view.state.missing = MissingSlots(view.time, view.clock + wait, why, view.time, [], [])
        missing.last, missing.counted = max(missing.last, view.time), False
        missing.refused = missing.refused or refused
        if refused and missing.report_at:
            missing.why = why
        if job:
            append_new(missing.jobs, job, _MAX_JOBS)
        append_new(missing.records, view.record(), _MAX_RECORDS)
        if refused and wait <= 0 and missing.report_at:
            missing.report_at = 0
            view.report(self._finding(view, missing))

    def _stopped(self, view: _View) -> None:
        """Give missing slots the time that a replacement of the stopped TaskManager takes."""
        if view.time <= view.state.orderly_stop:
            return  # The same stop, logged again.
        view.state.orderly_stop = view.time
        missing = view.state.missing
        if missing is not None and missing.report_at:
            missing.report_at = max(missing.report_at, view.clock + self.config.planned_for)

    def _served(self, view: _View, job: str, why: str) -> None:
        """Close the finding if this job is the last that lacked slots and now has them or needs none."""
        missing = view.state.missing
        if missing is None or view.time <= missing.last or (missing.jobs and job not in missing.jobs):
            return
        if len(missing.jobs) > 1:
            missing.jobs.remove(job)
        else:
            self._end(view, missing, why)

    def _end(self, view: _View, missing: MissingSlots, why: str) -> None:
        if view.time > missing.last:
            view.state.missing, view.state.ended, view.state.none = None, view.time, None
            if not missing.report_at:
                view.close(self._finding(view, missing), why)

    def _finding(self, view: _View, missing: MissingSlots) -> Finding:
        job = missing.jobs[0] if len(missing.jobs) == 1 else ""
        name = view.topology.job_name(job)
        whose = f"job {name or job} has" if job else f"{len(missing.jobs) or 'all'} jobs have"
        return view.finding(
            _SUBJECT,
            {"job_id": job, "job_name": name},
            since=missing.since,
            severity="critical",
            summary=f"{whose} no slots to run in: {missing.why}",
            confidence="fair" if missing.counted else "sure",
            evidence=missing.records,
            advice="Compare the slots that the job needs (its highest parallelism) with Task Managers in Flink's UI. "
            "Find out why TaskManagers are missing: pending pods, a full YARN queue, a quota, a crash loop. Add "
            "TaskManagers or slots. The job waits, and its state is in the last completed checkpoint; do not cancel "
            "it, by default that deletes its checkpoints. To prevent it: a spare TaskManager, or the adaptive "
            "scheduler, which runs with the slots that exist.",
        )


def _waiting(topology: Topology) -> list[str]:
    return [job for job, known in topology.jobs.items() if known.state in _WAITING]
