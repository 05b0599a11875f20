"""The life of an incident: opened, updated, resolved or stale, each change numbered.

Findings come in one by one; one that the cause graph joins to an incident becomes part of it, else it opens its own.
An incident whose findings have all closed waits for `resolve_after`, and continues under its id when a finding comes
back within `reopen_within`. Silence never resolves it: after `stale_after` without any event it is stale.
"""

import hashlib

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from detectors.incidents.incident import SEVERITIES, Change, Evidence, Finding, Severity, Transition
from detectors.incidents.links import joined, leading
from detectors.units import Duration, spoken

_MAX_INCIDENTS = 100
_MAX_FINDINGS = 20
_MAX_EVIDENCE = 5


class Life(BaseModel):
    """When incidents change; reloads live."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    resolve_after: Duration = Field(
        60_000, description="Wait this long after the last finding closed before saying resolved: damps flapping."
    )
    reopen_within: Duration = Field(
        600_000,
        description="A finding that comes back within this time continues the resolved incident instead of "
        "opening a new one.",
    )
    stale_after: Duration = Field(
        900_000,
        description="Without any event of the cluster for this long an open incident is said to be stale: "
        "nobody knows.",
    )
    update_every: Duration = Field(
        60_000,
        description="Smallest time between two updates that change neither cause, severity nor the kinds of findings.",
    )
    forget_after: Duration = Field(
        604_800_000,
        description="A cluster without any event for this long is forgotten, with its readings: every YARN application "
        "and every preview deployment is a cluster of its own.",
    )


class Incident(msgspec.Struct):
    """An incident as kept in state; times are clock times. `closed_at` is when its last finding closed."""

    id: str
    opened_at: int
    findings: list[Finding]
    seq: int = 0
    said_at: int = 0
    cause: tuple[str, str] = ("", "")
    severity: Severity = "info"
    closed_at: int | None = None
    resolved_at: int | None = None
    stale: bool = False
    changed: str = ""

    def last_heard(self, last_event: int) -> bool:
        """Whether it is stale although something has arrived since that was said."""
        return self.stale and last_event > self.said_at


def report(incidents: list[Incident], finding: Finding, cluster: str, config: str) -> list[Transition]:
    """Take a finding (new, changed or closed) into the incidents of its cluster; `finding.at` is the clock."""
    incident = _home(incidents, finding)
    if finding.closed_at is not None:
        if incident is None or incident.resolved_at is not None:
            return []
        _replace(incident, finding)
        return _closed(incident, finding, cluster, config)
    if incident is None:
        _forget_oldest(incidents)
        incident = Incident(_identify(cluster, finding), finding.at, [finding])
        incidents.append(incident)
        return [_say(incident, "opened", finding.at, cluster, config, "")]
    return _joined(incident, finding, cluster, config)


def due(incidents: list[Incident], last_event: int, life: Life) -> int | None:
    """The clock time at which `tick` has something to say or to forget."""
    times = []
    for incident in incidents:
        if incident.resolved_at is not None:
            times.append(incident.resolved_at + life.reopen_within)
        elif incident.closed_at is not None:
            times.append(incident.closed_at + life.resolve_after)
        elif not incident.stale:
            times.append(last_event + life.stale_after)
        elif incident.last_heard(last_event):
            times.append(last_event)
        if incident.changed and incident.closed_at is None:
            times.append(incident.said_at + life.update_every)
    return min(times, default=None)


def tick(
    incidents: list[Incident], now: int, last_event: int, cluster: str, life: Life, config: str
) -> list[Transition]:
    """What the clock alone brings: resolved, stale, an update held back; forgets what can no longer come back."""
    said = []
    for incident in list(incidents):
        if incident.resolved_at is not None:
            if now >= incident.resolved_at + life.reopen_within:
                incidents.remove(incident)
        elif incident.closed_at is not None:
            if now >= incident.closed_at + life.resolve_after:
                incident.resolved_at = now
                said.append(_say(incident, "resolved", now, cluster, config, _proof(incident)))
        elif not incident.stale and now >= last_event + life.stale_after:
            incident.stale = True
            reason = f"for {spoken(now - last_event)} nothing that tells of this cluster has arrived"
            said.append(_say(incident, "stale", now, cluster, config, reason))
        elif incident.last_heard(last_event):
            incident.stale = False
            said.append(_say(incident, "updated", now, cluster, config, "records of this cluster arrive again"))
        elif incident.changed and now >= incident.said_at + life.update_every:
            said.append(_say(incident, "updated", now, cluster, config, incident.changed))
    return said


def _home(incidents: list[Incident], finding: Finding) -> Incident | None:
    for incident in incidents:
        if any(f.kind == finding.kind and f.subject == finding.subject for f in incident.findings):
            return incident
    if finding.closed_at is None:
        for incident in incidents:
            if any(joined(f, finding) for f in incident.findings):
                return incident
    return None


def _joined(incident: Incident, finding: Finding, cluster: str, config: str) -> list[Transition]:
    before = (incident.cause, incident.severity)
    again = incident.closed_at is not None or incident.stale
    known = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    _replace(incident, finding)
    incident.closed_at = incident.resolved_at = None
    incident.stale = False
    cause = leading(incident.findings)
    if (cause.kind, cause.subject) != before[0]:
        reason = f"the cause is now known to be {cause.kind}"
    elif again:
        reason = f"{finding.kind} is back"
    elif not known:
        reason = f"{finding.kind} as well"
    elif _severity(incident) != before[1]:
        reason = f"it is {_severity(incident)} now"
    else:
        incident.changed = f"{finding.kind} goes on"
        return []
    return [_say(incident, "updated", finding.at, cluster, config, reason)]


def _closed(incident: Incident, finding: Finding, cluster: str, config: str) -> list[Transition]:
    if all(f.closed_at is not None for f in incident.findings):
        incident.closed_at, incident.changed = finding.closed_at, ""
        return []
    same = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    if same and _severity(incident) == incident.severity and not incident.stale:
        incident.changed = f"{finding.kind} is over for one of several"
        return []
    return [_say(incident, "updated", finding.at, cluster, config, f"{finding.kind} is over: {finding.closed_because}")]


def _replace(incident: Incident, finding: Finding) -> None:
    for i, old in enumerate(incident.findings):
        if old.kind == finding.kind and old.subject == finding.subject:
            finding.since = min(old.since, finding.since)
            incident.findings[i] = finding
            return
    if len(incident.findings) < _MAX_FINDINGS:
        incident.findings.append(finding)


def _severity(incident: Incident) -> Severity:
    """The worst of the findings that are open; what it was when all have closed."""
    open_ones = [f.severity for f in incident.findings if f.closed_at is None]
    return max(open_ones, key=SEVERITIES.index) if open_ones else incident.severity


def _say(incident: Incident, change: Change, now: int, cluster: str, config: str, reason: str) -> Transition:
    cause = leading(incident.findings)
    incident.cause = (cause.kind, cause.subject)
    incident.severity = _severity(incident)
    incident.seq += 1
    incident.said_at = now
    incident.changed = ""
    job = next((f.entity for f in (cause, *incident.findings) if f.entity.get("job_id")), {})
    return Transition(
        incident=incident.id,
        seq=incident.seq,
        transition=change,
        at=now,
        cluster=cluster,
        cause=cause.kind,
        severity=incident.severity,
        summary=cause.summary,
        findings=list(incident.findings),
        evidence=_evidence(cause, incident.findings),
        job_id=job.get("job_id", ""),
        job_name=job.get("job_name", ""),
        advice=cause.advice,
        reason=reason,
        forecast=next((f.forecast for f in (cause, *incident.findings) if f.forecast and f.closed_at is None), None),
        opened_at=incident.opened_at,
        ended_at=incident.closed_at if change == "resolved" else None,
        config=config,
    )


def _evidence(cause: Finding, findings: list[Finding]) -> list[Evidence]:
    """At most five records: the cause's first, one of each symptom, the rest of the cause's."""
    symptoms = [f for f in findings if f is not cause]
    order = cause.evidence[:3] + [e for f in symptoms for e in f.evidence[:1]] + cause.evidence[3:]
    return list({(e.topic, e.partition, e.offset): e for e in order}.values())[:_MAX_EVIDENCE]


def _proof(incident: Incident) -> str:
    last = max(incident.findings, key=lambda f: f.closed_at or 0)
    return last.closed_because


def _forget_oldest(incidents: list[Incident]) -> None:
    """Bounded: what is resolved goes first."""
    if len(incidents) >= _MAX_INCIDENTS:
        incidents.remove(min(incidents, key=lambda i: (i.resolved_at is None, i.said_at)))


def _identify(cluster: str, finding: Finding) -> str:
    """The same records give the same id: cluster, first finding's kind and entity, and its event time."""
    text = f"{cluster}|{finding.kind}|{finding.subject}|{finding.since}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
