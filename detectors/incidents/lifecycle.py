"""The lifecycle of an incident: opened, updated, resolved or stale, each change numbered.

Findings are accepted one by one. A finding that the cause graph relates to an incident becomes part of it, any other
finding opens a new incident. A finding that relates to several incidents merges them: the oldest continues, the others
end with a transition that names it. A finding of severity info only supports an incident: alone it is kept without a
notification, it merges no incidents, and it keeps none open.

A cluster has at most 100 incidents. A finding beyond them joins the newest incident of its kind.

An incident whose findings have all closed is resolved after `resolve_after`. It continues under its ID if a finding
recurs within `reopen_within`; after that it is followed up for a day (`follow_up.py`). Missing data never resolves it:
after `stale_after` without any event it is stale.
"""

import hashlib
from collections.abc import Callable

import msgspec

from detectors.incident import SEVERITIES, Finding, Severity, Transition
from detectors.incidents import follow_up, recurrence
from detectors.incidents.cause_graph import joined, leading
from detectors.incidents.ended_by_hand import ended
from detectors.incidents.settings import IncidentConfig
from detectors.incidents.transitions import Identity, Incident, IncidentContext, identity, make_transition, severity_now
from detectors.values.durations import humanize

_MAX_INCIDENTS = 100
_MAX_FINDINGS = 20
_MAX_MORE = 500
# An incident that opens and closes all the time is updated like one whose numbers change, at ever longer intervals.
_MANY = 50


def accept_finding(incidents: list[Incident], finding: Finding, context: IncidentContext) -> list[Transition]:
    """Add a finding (new, changed or closed) to the incidents of its cluster; `finding.at` is the clock."""
    own = _holder(incidents, finding)
    if finding.closed_at is not None:
        finding = _not_before_last_report(own, finding)
        return [] if own is None or own.resolved_at is not None else _finding_closed(incidents, own, finding, context)
    if finding.severity == "info":
        return _add_info(incidents, own, finding, context)
    homes = [i for i in incidents if i is own or _joins(i, finding)]
    live = [i for i in homes if i.resolved_at is None]
    if live:
        survivor = min(live, key=lambda i: (i.seq == 0, i.opened_at))
        return _merge(incidents, survivor, [i for i in live if i is not survivor], finding, context)
    if homes:
        return _merge(incidents, own or max(homes, key=lambda i: i.resolved_at or 0), [], finding, context)
    if (many := _one_of_many(incidents, finding)) is not None:
        return _merge(incidents, many, [], finding, context)
    dropped = _make_room(incidents, finding.at, context)
    incidents.append(Incident("", finding.at, []))
    return dropped + _merge(incidents, incidents[-1], [], finding, context)


def next_deadline(incidents: list[Incident], last_event: int, config: IncidentConfig) -> int | None:
    """The clock time at which `tick` will next make a transition or forget an incident; None if there is none.

    Transitions about the cluster's events come after the last one, which may be ahead of the clock.
    """
    times = []
    for incident in [i for i in incidents if i.seq]:
        if incident.resolved_at is not None:
            times.append(incident.resolved_at + config.reopen_within)
        elif incident.closed_at is not None:
            times.append(incident.closed_at + config.resolve_after)
        elif not incident.stale:
            times.append(last_event + config.stale_after)
            if incident.follow_up.due:
                times.append(max(incident.follow_up.due, last_event + 1))
        elif incident.has_new_data(last_event):
            times.append(last_event + 1)
        if incident.changed:
            times.append(max(_next_update(incident, config), last_event + 1))
        if incident.next_silence_change:
            times.append(incident.next_silence_change)
    return min(times, default=None)


def tick(
    incidents: list[Incident], now: int, last_event: int, config: IncidentConfig, context: IncidentContext
) -> list[Transition]:
    """The transitions due at `now`: resolved, stale, held-back updates. Forgets incidents that can no longer reopen."""
    transitions = []
    for incident in [i for i in incidents if i.seq]:
        if incident.next_silence_change and now >= incident.next_silence_change:
            transitions += _silence_changed(incident, now, context)
        if incident.resolved_at is not None:
            if now >= incident.resolved_at + config.reopen_within:
                incidents.remove(incident)
                follow_up.keep(context.followed, incident)
        elif incident.closed_at is not None:
            if now >= incident.closed_at + config.resolve_after:
                transitions.append(make_transition(incident, "resolved", now, follow_up.resolution(incident), context))
                incident.resolved_at = now
                incident.follow_up.end()
        elif not incident.stale and now >= last_event + config.stale_after:
            incident.stale = True
            reason = f"no data from this cluster for {humanize(now - last_event)}"
            transitions.append(make_transition(incident, "stale", now, reason, context))
        elif incident.has_new_data(last_event):
            incident.stale = False
            transitions.append(
                make_transition(incident, "updated", now, "data from this cluster arrives again", context)
            )
        elif not incident.stale and (news := follow_up.news(incident, now)):
            transitions.append(make_transition(incident, "updated", now, news, context))
        elif incident.changed and now >= _next_update(incident, config):
            repeats = incident.repeats + 1
            transitions.append(make_transition(incident, "updated", now, incident.changed, context))
            incident.repeats = repeats
    return transitions


def close_findings(
    incidents: list[Incident], whose: Callable[[str, str], bool], now: int, context: IncidentContext, because: str = ""
) -> list[Transition]:
    """Close the open findings that `whose` selects by kind and subject. Default reason: their detector was disabled."""
    transitions = []
    for incident in list(incidents):
        incident.more = [key for key in incident.more if not whose(*key)]
        for finding in [f for f in incident.findings if f.closed_at is None and whose(*identity(f))]:
            why = because or f"detector {finding.kind} was disabled"
            closed = msgspec.structs.replace(finding, at=now, closed_at=now, closed_because=why)
            transitions += _finding_closed(incidents, incident, closed, context)
        if incident.closed_at is None and _all_closed(incident):
            _close(incident, now)
    return transitions


def end_by_hand(incident: Incident, because: str, now: int, context: IncidentContext) -> Transition:
    """Resolve an open incident because a person asked for it; its findings end with it."""
    _close(incident, now)
    at = incident.resolved_at = max(now, incident.reported_at)
    incident.more, incident.stale = [], False
    incident.findings = ended(incident.findings, because, at)
    return make_transition(incident, "resolved", at, because, context)


def go_back(incidents: list[Incident], now: int) -> None:
    """The clock goes back to `now`, and so do later times: otherwise nothing would be reported until it catches up."""
    for incident in incidents:
        incident.opened_at, incident.reported_at = min(incident.opened_at, now), min(incident.reported_at, now)
        incident.closed_at = incident.closed_at and min(incident.closed_at, now)
        incident.resolved_at = incident.resolved_at and min(incident.resolved_at, now)
        incident.follow_up.go_back(now)
        incident.findings = [
            msgspec.structs.replace(f, at=min(f.at, now), closed_at=f.closed_at and min(f.closed_at, now))
            for f in incident.findings
        ]


def apply_silences(incidents: list[Incident], now: int, context: IncidentContext) -> list[Transition]:
    """The transitions of incidents whose silence was added, changed or removed."""
    return [t for incident in incidents if incident.seq for t in _silence_changed(incident, now, context)]


def _silence_changed(incident: Incident, now: int, context: IncidentContext) -> list[Transition]:
    """A silence may have begun or ended. An incident about to be resolved reports only that."""
    incident.next_silence_change = context.next_silence_change(incident, now)
    silence = context.silence(incident, now)
    if incident.closed_at is not None or silence == (incident.last_silence if incident.is_silenced else None):
        return []
    reason = "the silence ended and the incident is still open"
    if silence is not None:
        reason = f"silenced by {silence.author}: {silence.comment}"
    elif incident.stale:
        reason = "the silence ended; without data it is unknown whether the incident is still open"
    return [make_transition(incident, "stale" if incident.stale else "updated", now, reason, context)]


def _next_update(incident: Incident, config: IncidentConfig) -> int:
    """When the next update that only brings new numbers may be sent."""
    return incident.reported_at + min(
        config.update_every << min(incident.repeats, 20), max(config.max_update_interval, config.update_every)
    )


def _holder(incidents: list[Incident], finding: Finding) -> Incident | None:
    """The incident that has this finding, preferably one that is not resolved."""
    key = identity(finding)
    holders = [i for i in incidents if key in i.more or any(identity(f) == key for f in i.findings)]
    return min(holders, key=lambda i: i.resolved_at is not None, default=None)


def _not_before_last_report(own: Incident | None, finding: Finding) -> Finding:
    """The closed finding, dated no earlier than the detector's last report of it.

    A partition that is read ahead may have dated that report ahead of the clock. An earlier end would be dropped.
    """
    key = identity(finding)
    last = max((f.at for f in own.findings if identity(f) == key), default=0) if own is not None else 0
    if last <= finding.at:
        return finding
    return msgspec.structs.replace(finding, at=last, closed_at=max(finding.closed_at or 0, last))


def _joins(incident: Incident, finding: Finding) -> bool:
    """Whether the graph relates a finding to this incident. Once it is open, its info findings do not count."""
    return any(joined(f, finding) for f in incident.findings if f.severity != "info" or incident.seq == 0)


def _add_info(
    incidents: list[Incident], own: Incident | None, finding: Finding, context: IncidentContext
) -> list[Transition]:
    """Keep a finding of severity info in the related incident; it is reported with the next change."""
    live = (i for i in incidents if i.seq and i.resolved_at is None)
    home = own or next((i for i in live if _joins(i, finding)), None)
    if home is None:
        dropped = _make_room(incidents, finding.at, context)
        incidents.append(Incident("", finding.at, [finding]))
        return dropped
    _replace(home, finding)
    if home.closed_at is None:
        home.changed = f"{finding.kind} dropped to severity info"
        if _all_closed(home):
            _close(home, finding.at)
    return []


def _merge(
    incidents: list[Incident], incident: Incident, others: list[Incident], finding: Finding, context: IncidentContext
) -> list[Transition]:
    """Add a finding above severity info to `incident`, and merge `others` into it."""
    new = incident.seq == 0
    before = (incident.cause, severity_now(incident))
    again = incident.closed_at is not None or incident.stale
    if new:
        # An incident that reopens is the same one, however often it does.
        recurrence.record_occurrence(context.past, _incident_id(context.cluster, finding), finding.at)
    known = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    for other in others:
        incidents.remove(other)
        for taken in other.findings:
            _replace(incident, taken)
        _only_count(incident, other.more)
    _replace(incident, finding)
    incident.closed_at = incident.resolved_at = None
    incident.stale = False
    merged = [other for other in others if other.seq]
    incident.merged = [*incident.merged, *(m for other in merged for m in (*other.merged, other.id))][-_MAX_FINDINGS:]
    if new:
        incident.id, incident.opened_at = _incident_id(context.cluster, finding), finding.at
        return [make_transition(incident, "opened", finding.at, "", context)]
    cause = leading(incident.findings, incident.leader(), incident.earlier_leaders())
    if merged:
        reason = f"merged with incident {', '.join(other.id for other in merged)}: {finding.kind} connects them"
    elif identity(cause) != before[0]:
        reason = f"the cause is now known to be {cause.kind}"
    elif again:
        reason = f"{finding.kind} recurred"
    elif not known:
        reason = f"new finding: {finding.kind}"
    elif severity_now(incident) != before[1]:
        reason = f"severity is now {severity_now(incident)}"
    elif issue := context.new_issue(incident):
        reason = f"looks like known issue {issue}"
    else:
        incident.changed = f"new numbers of {finding.kind}"
        return []
    if not merged and _too_often(incident, before[1]):
        incident.changed = reason
        return []
    update = make_transition(incident, "updated", finding.at, reason, context)
    return [update] + [_part_of(other, incident.id, finding, context) for other in merged]


def _part_of(other: Incident, survivor: str, finding: Finding, context: IncidentContext) -> Transition:
    """End an incident that was merged into another one. This is no recovery, because its findings continue there."""
    _close(other, finding.at)
    last = make_transition(other, "resolved", finding.at, f"merged into incident {survivor}", context, part_of=survivor)
    context.past[:] = [o for o in context.past if o.incident != other.id]
    return last


def _finding_closed(
    incidents: list[Incident], incident: Incident, finding: Finding, context: IncidentContext
) -> list[Transition]:
    if identity(finding) in incident.more:
        incident.more.remove(identity(finding))
    else:
        _replace(incident, finding)
    if incident.seq == 0:
        incidents.remove(incident)
        return []
    if incident.closed_at is not None:
        return []
    if _all_closed(incident):
        _close(incident, finding.at)
        return []
    same = any(f.kind == finding.kind and f.closed_at is None for f in incident.findings)
    if finding.severity == "info":
        incident.changed = f"{finding.kind} resolved"
        return []
    reason = f"{finding.kind} resolved: {finding.closed_because}"
    if same and severity_now(incident) == incident.severity and not incident.stale:
        reason = f"{finding.kind} resolved for one of several"
    elif not _too_often(incident, incident.severity):
        return [make_transition(incident, "updated", finding.at, reason, context)]
    incident.changed = reason
    return []


def _too_often(incident: Incident, before: Severity) -> bool:
    """Whether to hold back a transition because there were many. The limit is ten times higher for a worse severity."""
    worse = SEVERITIES.index(severity_now(incident)) > SEVERITIES.index(before)
    return incident.seq >= (10 * _MANY if worse else _MANY)


def _close(incident: Incident, at: int) -> None:
    """The last finding has closed. The incident's end is not dated before its last transition."""
    incident.closed_at, incident.changed = max(at, incident.reported_at), ""


def _all_closed(incident: Incident) -> bool:
    """Whether all findings above severity info have closed."""
    return not incident.more and all(f.closed_at is not None or f.severity == "info" for f in incident.findings)


def _replace(incident: Incident, finding: Finding) -> None:
    """Add the finding or replace its older version. Of too many, one is only counted; it keeps the incident open."""
    key = identity(finding)
    for i, old in enumerate(incident.findings):
        if identity(old) == key:
            # A copy, because transitions already made refer to the old one.
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
            _only_count(incident, [identity(out)])


def _only_count(incident: Incident, keys: list[Identity]) -> None:
    incident.more = [*dict.fromkeys([*incident.more, *keys])][-_MAX_MORE:]


def _one_of_many(incidents: list[Incident], finding: Finding) -> Incident | None:
    """If there is no room for another incident: the newest one with the same cause, to which the finding is added."""
    if len(incidents) < _MAX_INCIDENTS or any(i.seq == 0 or i.resolved_at is not None for i in incidents):
        return None
    return next((i for i in reversed(incidents) if i.cause[0] == finding.kind), None)


def _make_room(incidents: list[Incident], now: int, context: IncidentContext) -> list[Transition]:
    """Drop an incident if there are too many: unreported ones first, then resolved ones, then the least recent."""
    if len(incidents) < _MAX_INCIDENTS:
        return []
    out = min(incidents, key=lambda i: (i.seq > 0, i.resolved_at is None, i.reported_at))
    incidents.remove(out)
    if out.seq == 0 or out.resolved_at is not None:
        return []
    reason = f"no longer tracked: more than {_MAX_INCIDENTS} incidents are open in this cluster"
    return [make_transition(out, "stale", now, reason, context)]


def _incident_id(cluster: str, finding: Finding) -> str:
    """The ID: a hash of cluster, kind, subject and beginning of the first finding, so that a replay gives the same."""
    text = f"{cluster}|{finding.kind}|{finding.subject}|{finding.since}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]
