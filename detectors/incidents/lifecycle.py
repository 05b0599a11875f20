"""The life of an incident: opened, updated, resolved or stale, each change numbered.

Findings come in one by one; one that the cause graph joins to an incident becomes part of it, else it opens its own.
One that joins several makes them one: the oldest lives on, the others end with a transition that says of which they
are part. A finding of severity info supports an incident: alone it is kept and says nothing, it joins no two, and it
holds none open.

A cluster has at most 100 incidents: a finding beyond them joins the newest one of its kind.

An incident whose findings have all closed waits for `resolve_after`, and continues under its id when a finding comes
back within `reopen_within`. Silence never resolves it: after `stale_after` without any event it is stale.
"""

import hashlib
from collections.abc import Callable

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from detectors.incident import SEVERITIES, Finding, Severity, Transition
from detectors.incidents import recurrence
from detectors.incidents.cause_graph import joined, leading
from detectors.incidents.transitions import Incident, IncidentContext, identity, make_transition, severity_now
from detectors.values.durations import Duration, humanize

_MAX_INCIDENTS = 100
_MAX_FINDINGS = 20
_MAX_MORE = 500
# An incident that comes and goes all the time is told like one whose numbers change, at ever longer intervals.
_MANY = 50


class IncidentConfig(BaseModel):
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
        description="Smallest time between two updates that change neither cause, severity nor the kinds of findings; "
        "it doubles with each of them.",
    )
    max_update_interval: Duration = Field(
        1_800_000, description="Longest time that such updates are held back: a trend of hours needs no line a minute."
    )
    recurrence_min_count: int = Field(
        3, ge=2, le=20, description="From this coming on an incident of the same kind on the same job is said to recur."
    )
    recurrence_window: Duration = Field(
        1_209_600_000, description="Comings further back than this do not count: a slow leak kills every few days."
    )
    forget_after: Duration = Field(
        604_800_000,
        description="A cluster without any event for this long is forgotten, with its readings: every YARN application "
        "and every preview deployment is a cluster of its own.",
    )


def accept_finding(incidents: list[Incident], finding: Finding, scene: IncidentContext) -> list[Transition]:
    """Take a finding (new, changed or closed) into the incidents of its cluster; `finding.at` is the clock."""
    own = _holder(incidents, finding)
    if finding.closed_at is not None:
        finding = _ended(own, finding)
        return [] if own is None or own.resolved_at is not None else _closed(incidents, own, finding, scene)
    if finding.severity == "info":
        return _noted(incidents, own, finding, scene)
    homes = [i for i in incidents if i is own or _joins(i, finding)]
    live = [i for i in homes if i.resolved_at is None]
    if live:
        survivor = min(live, key=lambda i: (i.seq == 0, i.opened_at))
        return _joined(incidents, survivor, [i for i in live if i is not survivor], finding, scene)
    if homes:
        back = own or max(homes, key=lambda i: i.resolved_at or 0)
        return _joined(incidents, back, [], finding, scene)
    if (many := _one_of_many(incidents, finding)) is not None:
        return _joined(incidents, many, [], finding, scene)
    said = _make_room(incidents, finding.at, scene)
    incident = Incident("", finding.at, [])
    incidents.append(incident)
    return said + _joined(incidents, incident, [], finding, scene)


def due(incidents: list[Incident], last_event: int, life: IncidentConfig) -> int | None:
    """The clock time at which `tick` has something to say or to forget."""
    times = []
    for incident in incidents:
        if incident.seq == 0:
            continue
        if incident.resolved_at is not None:
            times.append(incident.resolved_at + life.reopen_within)
        elif incident.closed_at is not None:
            times.append(incident.closed_at + life.resolve_after)
        elif not incident.stale:
            times.append(last_event + life.stale_after)
        elif incident.last_heard(last_event):
            times.append(last_event)
        if incident.changed and incident.closed_at is None:
            times.append(_next_update(incident, life))
        if incident.silence_turns and incident.closed_at is None:
            times.append(incident.silence_turns)
    return min(times, default=None)


def tick(
    incidents: list[Incident], now: int, last_event: int, life: IncidentConfig, scene: IncidentContext
) -> list[Transition]:
    """What the clock alone brings: resolved, stale, an update held back; forgets what can no longer come back."""
    said = []
    for incident in list(incidents):
        if incident.seq == 0:
            continue
        if incident.silence_turns and now >= incident.silence_turns:
            said += _silence_turned(incident, now, scene)
        if incident.resolved_at is not None:
            if now >= incident.resolved_at + life.reopen_within:
                incidents.remove(incident)
        elif incident.closed_at is not None:
            if now >= incident.closed_at + life.resolve_after:
                incident.resolved_at = now
                said.append(make_transition(incident, "resolved", now, _proof(incident), scene))
        elif not incident.stale and now >= last_event + life.stale_after:
            incident.stale = True
            reason = f"for {humanize(now - last_event)} nothing that tells of this cluster has arrived"
            said.append(make_transition(incident, "stale", now, reason, scene))
        elif incident.last_heard(last_event):
            incident.stale = False
            said.append(make_transition(incident, "updated", now, "records of this cluster arrive again", scene))
        elif incident.changed and now >= _next_update(incident, life):
            repeats = incident.repeats + 1
            said.append(make_transition(incident, "updated", now, incident.changed, scene))
            incident.repeats = repeats
    return said


def switched_off(
    incidents: list[Incident], is_off: Callable[[str, str], bool], now: int, scene: IncidentContext
) -> list[Transition]:
    """Close what detectors have open that are off (by kind and subject of the finding): they prove nothing more."""
    return closed_of(incidents, is_off, now, scene)


def closed_of(
    incidents: list[Incident], whose: Callable[[str, str], bool], now: int, scene: IncidentContext, because: str = ""
) -> list[Transition]:
    """Close what is open of detectors that never will, by kind and subject: without a reason they are switched off."""
    said = []
    for incident in list(incidents):
        incident.more = [key for key in incident.more if not whose(*key)]
        for finding in [f for f in incident.findings if f.closed_at is None and whose(*identity(f))]:
            why = because or f"{finding.kind} is switched off"
            closed = msgspec.structs.replace(finding, at=now, closed_at=now, closed_because=why)
            said += _closed(incidents, incident, closed, scene)
        if incident.seq and incident.closed_at is None and _over(incident):
            _close(incident, now)
    return said


def go_back(incidents: list[Incident], now: int) -> None:
    """The clock goes back to `now`: what was said in between was said now, else nothing more would be for as long."""
    for incident in incidents:
        incident.opened_at, incident.said_at = min(incident.opened_at, now), min(incident.said_at, now)
        incident.closed_at = incident.closed_at and min(incident.closed_at, now)
        incident.resolved_at = incident.resolved_at and min(incident.resolved_at, now)
        incident.findings = [
            msgspec.structs.replace(f, at=min(f.at, now), closed_at=f.closed_at and min(f.closed_at, now))
            for f in incident.findings
        ]


def silences_changed(incidents: list[Incident], now: int, scene: IncidentContext) -> list[Transition]:
    """Silences that begin, end or are changed at once."""
    return [t for incident in incidents if incident.seq for t in _silence_turned(incident, now, scene)]


def _silence_turned(incident: Incident, now: int, scene: IncidentContext) -> list[Transition]:
    """A silence may have begun or ended. Of what is about to be resolved only that is said."""
    incident.silence_turns = scene.silence_turns(incident, now)
    silence = scene.silence(incident, now)
    if incident.closed_at is not None or silence == (incident.silenced if incident.silent else None):
        return []
    reason = "its silence is over, and it is still open"
    if silence is not None:
        reason = f"silenced by {silence.author}: {silence.comment}"
    elif incident.stale:
        reason = "its silence is over, and whether it is still open nobody knows"
    return [make_transition(incident, "stale" if incident.stale else "updated", now, reason, scene)]


def _next_update(incident: Incident, life: IncidentConfig) -> int:
    """When new numbers alone may be told again."""
    return incident.said_at + min(
        life.update_every << min(incident.repeats, 20), max(life.max_update_interval, life.update_every)
    )


def _holder(incidents: list[Incident], finding: Finding) -> Incident | None:
    """The incident that holds this very finding, the live one first."""
    key = identity(finding)
    holders = [i for i in incidents if key in i.more or any(identity(f) == key for f in i.findings)]
    return min(holders, key=lambda i: i.resolved_at is not None, default=None)


def _ended(own: Incident | None, finding: Finding) -> Finding:
    """The end of a finding, not dated before what its detector said of it last: a partition that is read ahead may have
    dated that up to a minute ahead of the clock. Taken for older it would be dropped, and the incident stay open.
    """
    key = identity(finding)
    last = max((f.at for f in own.findings if identity(f) == key), default=0) if own is not None else 0
    if last <= finding.at:
        return finding
    return msgspec.structs.replace(finding, at=last, closed_at=max(finding.closed_at or 0, last))


def _joins(incident: Incident, finding: Finding) -> bool:
    """Whether the graph joins a finding of weight to this incident; beside weighty findings, info joins nothing."""
    return any(joined(f, finding) for f in incident.findings if f.severity != "info" or incident.seq == 0)


def _noted(
    incidents: list[Incident], own: Incident | None, finding: Finding, scene: IncidentContext
) -> list[Transition]:
    """A finding of severity info: kept where it belongs, told with the next change."""
    home = own
    if home is None:
        live = (i for i in incidents if i.seq and i.resolved_at is None)
        home = next((i for i in live if _joins(i, finding)), None)
    if home is None:
        said = _make_room(incidents, finding.at, scene)
        incidents.append(Incident("", finding.at, [finding]))
        return said
    _replace(home, finding)
    if home.seq and home.resolved_at is None and home.closed_at is None:
        home.changed = f"{finding.kind} is no more than info"
        if _over(home):
            _close(home, finding.at)
    return []


def _joined(
    incidents: list[Incident], incident: Incident, others: list[Incident], finding: Finding, scene: IncidentContext
) -> list[Transition]:
    """A finding of weight becomes part of `incident`, and with it all of `others`."""
    new = incident.seq == 0
    before = (incident.cause, severity_now(incident))
    again = incident.closed_at is not None or incident.stale
    if new or incident.resolved_at is not None:
        recurrence.came(scene.past, incident.id or _identify(scene.cluster, finding), finding.at)
    known = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    for other in others:
        incidents.remove(other)
        for taken in other.findings:
            _replace(incident, taken)
        _hide(incident, other.more)
    _replace(incident, finding)
    incident.closed_at = incident.resolved_at = None
    incident.stale = False
    merged = [other for other in others if other.seq]
    incident.merged = [*incident.merged, *(m for other in merged for m in (*other.merged, other.id))][-_MAX_FINDINGS:]
    if new:
        incident.id, incident.opened_at = _identify(scene.cluster, finding), finding.at
        return [make_transition(incident, "opened", finding.at, "", scene)]
    cause = leading(incident.findings, incident.leader(), incident.led_before())
    if merged:
        reason = f"{finding.kind} joins this and {', '.join(other.id for other in merged)} into one"
    elif identity(cause) != before[0]:
        reason = f"the cause is now known to be {cause.kind}"
    elif again:
        reason = f"{finding.kind} is back"
    elif not known:
        reason = f"{finding.kind} as well"
    elif severity_now(incident) != before[1]:
        reason = f"it is {severity_now(incident)} now"
    elif issue := scene.new_issue(incident):
        reason = f"it looks like the known issue {issue}"
    else:
        incident.changed = f"{finding.kind} goes on"
        return []
    if not merged and _too_often(incident, before[1]):
        incident.changed = reason
        return []
    told = [make_transition(incident, "updated", finding.at, reason, scene)]
    return told + [_part_of(other, incident.id, finding, scene) for other in merged]


def _part_of(other: Incident, survivor: str, finding: Finding, scene: IncidentContext) -> Transition:
    """The end of an incident that lives on in another: its findings go on there, so this is no recovery."""
    _close(other, finding.at)
    last = make_transition(other, "resolved", finding.at, f"part of {survivor}", scene, part_of=survivor)
    scene.past[:] = [o for o in scene.past if o.incident != other.id]
    return last


def _closed(
    incidents: list[Incident], incident: Incident, finding: Finding, scene: IncidentContext
) -> list[Transition]:
    if identity(finding) in incident.more:
        incident.more.remove(identity(finding))
    else:
        _replace(incident, finding)
    if incident.seq == 0:
        if all(f.closed_at is not None for f in incident.findings):
            incidents.remove(incident)
        return []
    if incident.closed_at is not None:
        return []
    if _over(incident):
        _close(incident, finding.at)
        return []
    same = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    if finding.severity == "info":
        incident.changed = f"{finding.kind} is over"
        return []
    reason = f"{finding.kind} is over: {finding.closed_because}"
    if same and severity_now(incident) == incident.severity and not incident.stale:
        reason = f"{finding.kind} is over for one of several"
    elif not _too_often(incident, incident.severity):
        return [make_transition(incident, "updated", finding.at, reason, scene)]
    incident.changed = reason
    return []


def _too_often(incident: Incident, before: Severity) -> bool:
    """Whether it has changed so often that one more is held back; what makes it worse is, only much later."""
    worse = SEVERITIES.index(severity_now(incident)) > SEVERITIES.index(before)
    return incident.seq >= (10 * _MANY if worse else _MANY)


def _close(incident: Incident, at: int) -> None:
    """Its last finding has closed. What was reported of it may be dated ahead of that; its end is not before it."""
    incident.closed_at, incident.changed = max(at, incident.said_at), ""


def _over(incident: Incident) -> bool:
    """Whether every finding that needs proof has it."""
    return not incident.more and all(f.closed_at is not None or f.severity == "info" for f in incident.findings)


def _replace(incident: Incident, finding: Finding) -> None:
    """Take it in, in place of what was known of it. Bounded: what is one of many gives way, but still holds the end."""
    key = identity(finding)
    for i, old in enumerate(incident.findings):
        if identity(old) == key:
            # Copied: what was said of it stays as it was said.
            newer = max(old, finding, key=lambda f: (f.at, f is finding))
            incident.findings[i] = msgspec.structs.replace(newer, since=min(old.since, finding.since))
            return
    if key in incident.more:
        incident.more.remove(key)
    incident.findings.append(finding)
    if len(incident.findings) > _MAX_FINDINGS:
        many = [f.kind for f in incident.findings]
        out = max(
            (f for f in incident.findings if identity(f) != incident.cause),
            key=lambda f: (f.closed_at is not None, many.count(f.kind), f.since, f.subject),
        )
        incident.findings.remove(out)
        if out.closed_at is None and out.severity != "info":
            _hide(incident, [identity(out)])


def _hide(incident: Incident, keys: list[tuple[str, str]]) -> None:
    incident.more = [*dict.fromkeys([*incident.more, *keys])][-_MAX_MORE:]


def _proof(incident: Incident) -> str:
    last = max(incident.findings, key=lambda f: f.closed_at or 0)
    return last.closed_because or f"{last.kind} is no more than info"


def _one_of_many(incidents: list[Incident], finding: Finding) -> Incident | None:
    """Where there is no room for another incident: the newest one of the same cause, which counts what it holds."""
    if len(incidents) < _MAX_INCIDENTS or any(i.seq == 0 or i.resolved_at is not None for i in incidents):
        return None
    return next((i for i in reversed(incidents) if i.cause[0] == finding.kind), None)


def _make_room(incidents: list[Incident], now: int, scene: IncidentContext) -> list[Transition]:
    """Bounded: what says nothing goes first, then what is resolved, then the one that was said longest ago."""
    if len(incidents) < _MAX_INCIDENTS:
        return []
    out = min(incidents, key=lambda i: (i.seq > 0, i.resolved_at is None, i.said_at))
    incidents.remove(out)
    if out.seq == 0 or out.resolved_at is not None:
        return []
    reason = f"no longer followed: more than {_MAX_INCIDENTS} incidents are open in this cluster"
    return [make_transition(out, "stale", now, reason, scene)]


def _identify(cluster: str, finding: Finding) -> str:
    """The same records give the same id: cluster, first finding's kind and entity, and its event time."""
    text = f"{cluster}|{finding.kind}|{finding.subject}|{finding.since}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
