"""An incident as kept in state, and the transition that tells how it stands."""

import msgspec

from detectors.flink.stack_traces import StackTraces
from detectors.incident import SEVERITIES, Change, Evidence, Finding, Series, Severity, Silenced, Transition
from detectors.incidents import known_issues, recurrence
from detectors.incidents.cause_graph import leading
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.recurrence import Occurrence
from detectors.incidents.silences import Silence, in_force, next_edge

_MAX_EVIDENCE = 5
_MAX_LED = 20
_NOBODY = ("", "")

Identity = tuple[str, str]


def identity(finding: Finding) -> Identity:
    """Kind and subject: which finding it is."""
    return finding.kind, finding.subject


class Incident(msgspec.Struct):
    """An incident as kept in state; times are clock times. `closed_at` is when its last finding closed.

    `seq` is 0 while nothing was said of it. `led` are the causes before the present one; `more` are open findings that
    are too many to be kept; `merged` the incidents that ended in this one; `issue` is the known issue it looks like;
    `repeats` counts the updates in a row that brought new numbers alone; `silenced` is the silence it was said to be
    under last, and still is if `silent`; at `silence_turns` that may change (0: never).
    """

    id: str
    opened_at: int
    findings: list[Finding]
    seq: int = 0
    said_at: int = 0
    cause: Identity = _NOBODY
    severity: Severity = "info"
    closed_at: int | None = None
    resolved_at: int | None = None
    stale: bool = False
    changed: str = ""
    led: list[Identity] = []
    more: list[Identity] = []
    merged: list[str] = []
    issue: str = ""
    repeats: int = 0
    silent: bool = False
    silence_turns: int = 0
    silenced: Silenced | None = None

    def last_heard(self, last_event: int) -> bool:
        """Whether it is stale although something has arrived since that was said."""
        return self.stale and last_event > self.said_at

    def leader(self) -> Finding | None:
        """The present cause."""
        return next((f for f in self.findings if identity(f) == self.cause), None)

    def led_before(self) -> list[Finding]:
        """The causes before it."""
        return [f for f in self.findings if identity(f) in self.led]


class IncidentContext(msgspec.Struct):
    """What is known beside the findings: of the cluster, its past, its failures, and of defects of Flink in general."""

    cluster: str
    config: str = ""
    version: str = ""
    past: list[Occurrence] = []
    recurrence_window: int = 0
    recurrence_min_count: int = 1 << 30
    throwables: StackTraces = msgspec.field(default_factory=StackTraces)
    issues: IssueCatalogue = IssueCatalogue()
    silences: tuple[Silence, ...] = ()

    def new_issue(self, incident: Incident) -> str:
        """The id of a known issue that it looks like by now and did not when it was last told; else empty."""
        found = known_issues.find(self.issues, incident.findings, self.version, self.throwables)
        return found.id if found is not None and found.id != incident.issue else ""

    def silence(self, incident: Incident, now: int) -> Silenced | None:
        """The silence an incident is under."""
        return in_force(self.silences, *self._about(incident), now) if self.silences else None

    def silence_turns(self, incident: Incident, now: int) -> int:
        """The next clock time at which that may change, 0 for never."""
        return (next_edge(self.silences, *self._about(incident), now) or 0) if self.silences else 0

    def _about(self, incident: Incident) -> tuple[str, str, str]:
        leader = incident.leader()
        job = job_of([*([leader] if leader is not None else []), *incident.findings])
        return self.cluster, job.get("job_name", ""), incident.cause[0]


def job_of(findings: list[Finding]) -> dict[str, str]:
    """The entity of the first finding that names a job, the cause's first; empty without one."""
    return next((f.entity for f in findings if f.entity.get("job_id")), {})


def severity_now(incident: Incident) -> Severity:
    """The worst of the findings that are open; what it was when none of weight is."""
    open_ones = [f.severity for f in incident.findings if f.closed_at is None and f.severity != "info"]
    return max(open_ones, key=SEVERITIES.index) if open_ones else incident.severity


def make_transition(
    incident: Incident, change: Change, now: int, reason: str, scene: IncidentContext, part_of: str = ""
) -> Transition:
    """The incident as it stands at `now`, as its next transition; changes what it keeps of what was said.

    A partition that is read ahead may date a transition up to a minute ahead of the clock. The next one is not dated
    before it: readers compare the two.
    """
    now = max(now, incident.said_at)
    cause = leading(incident.findings, incident.leader(), incident.led_before())
    if identity(cause) != incident.cause:
        if incident.cause != _NOBODY:
            incident.led = [*incident.led, incident.cause][-_MAX_LED:]
        incident.cause = identity(cause)
    incident.severity = severity_now(incident)
    incident.seq += 1
    incident.said_at = now
    incident.changed, incident.repeats = "", 0
    findings = [cause, *incident.findings]
    job = job_of(findings)
    recurrence.named(scene.past, incident.id, cause.kind, job.get("job_name") or job.get("job_id", ""))
    again = recurrence.recurrence(scene.past, incident.id, scene.recurrence_window, scene.recurrence_min_count)
    issue = known_issues.find(scene.issues, incident.findings, scene.version, scene.throwables, incident.issue)
    incident.issue = issue.id if issue is not None else ""
    silence = scene.silence(incident, now)
    incident.silent, incident.silence_turns = silence is not None, scene.silence_turns(incident, now)
    incident.silenced = silence or incident.silenced
    if change == "opened" and again is not None:
        reason = recurrence.spoken_recurrence(again)
    return Transition(
        incident=incident.id,
        seq=incident.seq,
        transition=change,
        at=now,
        cluster=scene.cluster,
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
        config=scene.config,
        silence=silence,
        silenced_before=incident.silenced if silence is None else None,
        confidence=cause.confidence,
        series=_series(findings),
        recurrence=again,
        known_issue=issue,
        part_of=part_of,
        merged=list(incident.merged),
        more=len(incident.more),
    )


def _series(findings: list[Finding]) -> Series | None:
    return next((f.series for f in findings if f.series is not None and f.series.points), None)


def _evidence(findings: list[Finding]) -> list[Evidence]:
    """At most five records: three of the cause, one of each symptom, then what is left."""
    cause, *symptoms = findings
    order = cause.evidence[:3] + [e for f in symptoms for e in f.evidence[:1]]
    order += [e for f in findings for e in f.evidence]
    return list({(e.topic, e.partition, e.offset): e for e in order}.values())[:_MAX_EVIDENCE]
