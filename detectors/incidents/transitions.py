"""An incident as kept in state, and how a transition is made from it."""

from collections.abc import Callable

import msgspec

from detectors.flink.stack_traces import StackTraces
from detectors.incident import SEVERITIES, Change, Evidence, Finding, RestorePoint, Severity, Silenced, Transition
from detectors.incidents import known_issues, recurrence
from detectors.incidents.adjustments import FollowUp, effect
from detectors.incidents.cause_graph import leading
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.late_arrivals import LateArrivals
from detectors.incidents.recurrence import Occurrence
from detectors.incidents.silences import Mute, in_force, next_edge

_MAX_EVIDENCE = 5
_MAX_EARLIER_CAUSES = 20
_NO_CAUSE = ("", "")

Identity = tuple[str, str]
"""Kind and subject of a finding."""


def identity(finding: Finding) -> Identity:
    return finding.kind, finding.subject


class Incident(msgspec.Struct):
    """An incident as kept in state; times are clock times. `closed_at` is when its last finding closed.

    `seq` is 0 until the first transition, `reported_at` the time of the last one. `changed` is the reason of an update
    that is held back. `earlier_causes` are the causes before the present one, `more` the open findings beyond those
    that are kept, and `merged` the incidents that were merged into this one. `issue` is the known issue that it
    matches. `repeats` counts consecutive updates that only brought new numbers. `last_silence` is the last silence
    reported, in force if `is_silenced`; this may change at `next_silence_change` (0: never). `follow_up` has the
    changes of Flink's settings since it opened, and what became of the incident since.
    """

    id: str
    opened_at: int
    findings: list[Finding]
    seq: int = 0
    reported_at: int = 0
    cause: Identity = _NO_CAUSE
    severity: Severity = "info"
    closed_at: int | None = None
    resolved_at: int | None = None
    stale: bool = False
    changed: str = ""
    earlier_causes: list[Identity] = []
    more: list[Identity] = []
    merged: list[str] = []
    issue: str = ""
    repeats: int = 0
    is_silenced: bool = False
    next_silence_change: int = 0
    last_silence: Silenced | None = None
    follow_up: FollowUp = msgspec.field(default_factory=FollowUp)

    def has_new_data(self, last_event: int) -> bool:
        return self.stale and last_event > self.reported_at

    def leader(self) -> Finding | None:
        return next((f for f in self.findings if identity(f) == self.cause), None)

    def earlier_leaders(self) -> list[Finding]:
        return [f for f in self.findings if identity(f) in self.earlier_causes]


class IncidentContext(msgspec.Struct):
    """Everything but the findings that a transition needs: the cluster, its past, its failures, and known issues."""

    cluster: str
    config: str = ""
    version: str = ""
    past: list[Occurrence] = []
    recurrence_window: int = 0
    recurrence_min_count: int = 1 << 30
    throwables: StackTraces = msgspec.field(default_factory=StackTraces)
    issues: IssueCatalogue = IssueCatalogue()
    silences: tuple[Mute, ...] = ()
    late: LateArrivals = msgspec.field(default_factory=LateArrivals)
    restore_point: Callable[[str], RestorePoint | None] = lambda _: None
    followed: list[Incident] = []

    def new_issue(self, incident: Incident) -> str:
        """ID of a known issue that matches now and did not match in the last transition; else empty."""
        found = known_issues.find(self.issues, incident.findings, self.version, self.throwables)
        return found.id if found is not None and found.id != incident.issue else ""

    def silence(self, incident: Incident, now: int) -> Silenced | None:
        return in_force(self.silences, *self._about(incident), now) if self.silences else None

    def next_silence_change(self, incident: Incident, now: int) -> int:
        """The next clock time at which the silence in force may change, 0 for never."""
        return (next_edge(self.silences, *self._about(incident), now) or 0) if self.silences else 0

    def _about(self, incident: Incident) -> tuple[str, str, str]:
        leader = incident.leader()
        job = job_of([*([leader] if leader is not None else []), *incident.findings])
        return self.cluster, job.get("job_name", ""), incident.cause[0]


def job_of(findings: list[Finding]) -> dict[str, str]:
    """The entity of the first finding that names a job, the cause's first; empty without one."""
    return next((f.entity for f in findings if f.entity.get("job_id")), {})


def severity_now(incident: Incident) -> Severity:
    """The worst severity of the open findings; unchanged if no finding above info is open."""
    open_ones = [f.severity for f in incident.findings if f.closed_at is None and f.severity != "info"]
    return max(open_ones, key=SEVERITIES.index) if open_ones else incident.severity


def make_transition(
    incident: Incident, change: Change, now: int, reason: str, context: IncidentContext, part_of: str = ""
) -> Transition:
    """The next transition of an incident, which has its state at `now`; also records in `incident` what was reported.

    It is never dated before the last one, because readers compare their times: a partition that is read ahead may have
    dated that one ahead of the clock.
    """
    now = max(now, incident.reported_at)
    cause = leading(incident.findings, incident.leader(), incident.earlier_leaders())
    if identity(cause) != incident.cause:
        if incident.cause != _NO_CAUSE:
            incident.earlier_causes = [*incident.earlier_causes, incident.cause][-_MAX_EARLIER_CAUSES:]
        incident.cause = identity(cause)
    incident.severity = severity_now(incident)
    incident.seq += 1
    incident.reported_at = now
    incident.changed, incident.repeats = "", 0
    findings = [cause, *incident.findings]
    job = job_of(findings)
    recurrence.set_cause(context.past, incident.id, cause.kind, job.get("job_name") or job.get("job_id", ""))
    again = recurrence.recurrence(context.past, incident.id, context.recurrence_window, context.recurrence_min_count)
    issue = known_issues.find(context.issues, incident.findings, context.version, context.throwables, incident.issue)
    incident.issue = issue.id if issue is not None else ""
    silence = context.silence(incident, now)
    incident.is_silenced, incident.next_silence_change = silence is not None, context.next_silence_change(incident, now)
    incident.last_silence = silence or incident.last_silence
    judge(incident, now)
    if change == "opened" and again is not None:
        reason = f"recurring: {recurrence.humanize_recurrence(again)}"
    return Transition(
        incident=incident.id,
        seq=incident.seq,
        transition=change,
        at=now,
        cluster=context.cluster,
        cause=cause.kind,
        severity=incident.severity,
        summary=cause.summary,
        findings=list(incident.findings),
        evidence=_evidence(findings),
        job_id=job.get("job_id", ""),
        job_name=job.get("job_name", ""),
        advice=cause.advice,
        reason=reason,
        forecast=next((f.forecast for f in findings if f.forecast and f.closed_at is None), None),
        opened_at=incident.opened_at,
        ended_at=incident.closed_at if change == "resolved" else None,
        config=context.config,
        silence=silence,
        silenced_before=incident.last_silence if silence is None else None,
        confidence=cause.confidence,
        series=next((f.series for f in findings if f.series is not None and f.series.points), None),
        recurrence=again,
        known_issue=issue,
        part_of=part_of,
        merged=list(incident.merged),
        more=len(incident.more),
        late=context.late.arrival(cause.evidence),
        restore_from=context.restore_point(job.get("job_id", "")),
        adjustments=incident.follow_up.adjustments,
    )


def judge(incident: Incident, now: int) -> None:
    """Bring the effect of the last adjustment up to date, while the incident is not resolved."""
    follow_up = incident.follow_up
    if follow_up.adjustments and incident.resolved_at is None:
        leader = incident.leader()
        findings = [*([leader] if leader is not None else []), *incident.findings]
        follow_up.judge(effect(follow_up, findings, incident.issue, incident.opened_at, incident.closed_at, now))


def _evidence(findings: list[Finding]) -> list[Evidence]:
    """At most five records: three of the cause, one of each symptom, then the remaining ones."""
    cause, *symptoms = findings
    order = cause.evidence[:3] + [e for f in symptoms for e in f.evidence[:1]]
    order += [e for f in findings for e in f.evidence]
    return list({(e.topic, e.partition, e.offset): e for e in order}.values())[:_MAX_EVIDENCE]
