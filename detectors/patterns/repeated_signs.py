"""The base of detectors that recognise a job's trouble by lines and failures that repeat: one finding for each job.

A job in trouble restarts and often completes checkpoints in between. A checkpoint therefore resolves the finding only
if it completes a while after the last sign, and twice as long as the signs were apart. A job without checkpoints must
be RUNNING for a while, and a job that has failed for good must come back first.
"""

from typing import Any, TypeVar

import msgspec

from detectors.detector import Detector, DetectorConfig, View, on, threshold
from detectors.events.event import LogEvent
from detectors.flink import facts
from detectors.incident import SEVERITIES, Evidence, Finding, Severity
from detectors.patterns.keep_state import about
from detectors.patterns.per_process import ProcessRef
from detectors.values.bounded import append_new, put_bounded
from detectors.values.durations import LONG_AGO, Duration, humanize

_MAX_SUBJECTS = 200
_MAX_RECORDS = 4
_SAME_MS = 1_000
_MAX_GAP_MS = 3_600_000

NOWHERE = ProcessRef("", "")

SC = TypeVar("SC", bound="SignsConfig")
SS = TypeVar("SS", bound="SignsState")


class Signs(msgspec.Struct, array_like=True):
    """The signs of one open finding: event times of the first and last, longest text, records, number, longest gap.

    `job` is empty if it is not known; the finding is then about the process `tm` or `host`, which are otherwise those
    of all signs, if they agree. `running` is the clock
    since which the job is RUNNING without a sign, 0 if it is not. `failed` is its name once it has failed for good.
    """

    job: str
    tm: str
    host: str
    since: int
    last: int
    text: str
    severity: Severity
    records: list[Evidence]
    count: int = 1
    gap: int = 0
    running: int = 0
    failed: str = ""

    @property
    def subject(self) -> str:
        return self.job or self.tm or self.host


class SignsConfig(DetectorConfig):
    """The settings that these detectors share."""

    recovered_after: Duration = threshold(
        180_000,
        "Time after the last sign from which a completed checkpoint of the job resolves the finding. If the signs are "
        "further apart, twice their longest gap.",
    )
    running_for: Duration = threshold(
        600_000, "Time for which a job without checkpoints must be RUNNING without a sign to resolve the finding."
    )


class SignsState(msgspec.Struct, array_like=True):
    """Open findings by subject, and event times of the last signs of resolved ones."""

    open: dict[str, Signs] = {}
    ended: dict[str, int] = {}


class RepeatedSigns(Detector):
    """One finding for each job with such signs, resolved by a checkpoint that completes later."""

    belongs_to = "job"
    per_job = True
    Config = SignsConfig
    State = SignsState
    config: SignsConfig
    advice = ""

    def sign(
        self, view: View[SC, SS], job: str, text: str, severity: Severity, at: ProcessRef = NOWHERE, since: int = 0
    ) -> None:
        """Take in a sign, which began at `since` or now. The finding keeps the longest text of its most severe signs.

        A sample has no text of its own as evidence.
        """
        state = view.state
        record = view.record("" if isinstance(view.event, LogEvent) else text)
        new = Signs(job, *at, since or view.time, view.time, text, severity, [record])
        if not new.subject or view.time <= state.ended.get(new.subject, LONG_AGO):
            return
        known = state.open.get(new.subject)
        if known is None:
            known = new
            put_bounded(state.open, new.subject, new, _MAX_SUBJECTS)
            changed = True
        else:
            changed = _take(known, new)
        known.running = view.clock if _runs(view, job) else 0
        if changed:
            view.report(self.finding(view, known))

    @on(facts.CheckpointCompleted, needs="open")
    def completed(self, view: View[SC, SS], _: facts.CheckpointCompleted) -> None:
        """Close findings about this job if their last sign is old enough."""
        for signs in self._about(view, view.job, unknown=True):
            calm = view.time - signs.last
            if calm >= max(self.config_of(signs.job).recovered_after, 2 * signs.gap):
                self._close(view, signs, f"a checkpoint completed {humanize(calm)} after the last sign")

    @on(facts.JobStateChanged, needs="open")
    def job_changed(self, view: View[SC, SS], fact: facts.JobStateChanged) -> None:
        """The end of the job closes its finding, unless it has failed: then the trouble is still there."""
        for signs in self._about(view, fact.job, unknown=False):
            if fact.state == "FINISHED" or (fact.state == "CANCELED" and not fact.before):
                self._close(view, signs, f"the job is {fact.state}")
            elif fact.state == "FAILED":
                signs.failed, signs.running = view.topology.job_name(fact.job), 0
            else:
                signs.running = view.clock if fact.state == "RUNNING" else 0

    def on_deadline(self, view: View[SC, SS]) -> None:
        """Close findings about jobs without checkpoints that have been RUNNING for long enough."""
        for signs in list(view.state.open.values()):
            due = self._due(view, signs)
            if due is not None and view.clock >= due:
                calm = humanize(view.clock - signs.running)
                self._close(view, signs, f"the job has been RUNNING for {calm} without another sign")

    def next_deadline(self, view: View[SC, SS]) -> int | None:
        """When the first job without checkpoints has been RUNNING for long enough."""
        times = [self._due(view, signs) for signs in view.state.open.values()]
        return min((at for at in times if at is not None), default=None)

    def _due(self, view: View[SC, SS], signs: Signs) -> int | None:
        checkpoints = view.topology.checkpoints.get(signs.job)
        if not signs.running or (checkpoints is not None and checkpoints.triggered_at):
            return None
        config: SignsConfig = self.config_of(signs.job)
        return signs.running + max(config.running_for, 2 * signs.gap)

    def _about(self, view: View[SC, SS], job: str, *, unknown: bool) -> list[Signs]:
        """Findings about this job, about an earlier run with its name that failed, and about an unknown job."""
        name = view.topology.job_name(job)
        return [
            signs
            for signs in view.state.open.values()
            if (signs.job == job if signs.job else unknown)
            or (name and signs.failed == name and view.time > signs.last)
        ]

    def _close(self, view: View[SC, SS], signs: Signs, why: str) -> None:
        del view.state.open[signs.subject]
        put_bounded(view.state.ended, signs.subject, signs.last, _MAX_SUBJECTS)
        view.close(self.finding(view, signs), why)

    def finding(self, view: View[SC, SS], signs: Signs) -> Finding:
        """Make the finding from the detector's own `summary` and `advice`."""
        name = view.topology.job_name(signs.job)
        place = {"tm_id": signs.tm, "host": signs.host} if signs.tm or signs.host else {}
        often = f", {signs.count} times in {humanize(signs.last - signs.since)}" if signs.count > 1 else ""
        return view.finding(
            signs.subject,
            {"job_id": signs.job, "job_name": name, **place},
            since=signs.since,
            severity=self.severity(signs),
            summary=self.summary(view, signs, f"job {name or signs.job}" if signs.job else "a job", often),
            confidence="sure",
            evidence=signs.records,
            advice=about(signs.job, self.advice),
        )

    def severity(self, signs: Signs) -> Severity:
        """Return the severity of the finding: by default that of its most severe sign."""
        return signs.severity

    def summary(self, view: Any, signs: Signs, job: str, often: str) -> str:
        """Return the summary. `job` names the job, `often` is how often there were signs, with a comma before it."""
        raise NotImplementedError


def job_of(view: View[SC, SS]) -> str:
    """The job that a line is about. If neither its attempt nor its source shows it, it is the only one that runs."""
    own = view.topology.graphs.job_of(view.line.fields.get("attempt", ""))
    return own or view.topology.job_of_failure(view.line) or view.topology.only_job()[0]


def _runs(view: View[SC, SS], job: str) -> bool:
    known = view.topology.jobs.get(job)
    return known is None or known.state == "RUNNING"


def _take(known: Signs, new: Signs) -> bool:
    """Take another sign into the known ones. Returns whether the finding changes by that."""
    gap = new.last - known.last
    again = gap > _SAME_MS
    if again:
        known.count += 1
        known.gap = max(known.gap, min(gap, _MAX_GAP_MS))
    known.since, known.last = min(known.since, new.since), max(known.last, new.last)
    if known.job and new.tm != known.tm:
        known.tm = known.host = ""  # It is not about one process.
    worse = SEVERITIES.index(new.severity) - SEVERITIES.index(known.severity)
    record, addresses = new.records[0], {(r.topic, r.partition, r.offset) for r in known.records}
    if worse > 0:
        known.records = [record, *known.records][:_MAX_RECORDS]
    elif (record.topic, record.partition, record.offset) not in addresses:
        append_new(known.records, record, _MAX_RECORDS)
    longer = worse == 0 and new.text != known.text and len(new.text) >= len(known.text)
    if worse > 0:
        known.count = 1
    if worse > 0 or longer:
        known.severity, known.text = new.severity, new.text
    return again or worse > 0 or longer
