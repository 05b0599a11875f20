"""Follows incidents up: notes changes of Flink's settings and version until a day after the end of an incident.

A change after the end is reported with a further transition `resolved`, and a day later whether the incident recurred.
"""

from detectors.flink.facts import CheckpointCompleted, CheckpointFailed, Fact, JobRestarting, JobStateChanged
from detectors.flink.topology import Topology
from detectors.incident import ChangedSetting, Evidence, Transition
from detectors.incidents import recurrence
from detectors.incidents.transitions import Incident, IncidentContext, judge, make_transition
from detectors.values.durations import humanize

COUNTED = (CheckpointCompleted, CheckpointFailed, JobStateChanged, JobRestarting)
"""The facts that `count` takes."""
DAY_MS = 86_400_000
MAX_ENDED = 10
"""Ended incidents of a cluster that are followed up; of more, the newest."""


def resolution(incident: Incident) -> str:
    """Why an incident is resolved."""
    last = max(incident.findings, key=lambda f: f.closed_at or 0)
    return last.closed_because or f"{last.kind} dropped to severity info"


def count(incidents: list[Incident], fact: Fact, job: str, topology: Topology, clock: int, time: int) -> None:
    """Count a checkpoint or a restart of a job in the incidents that are about it, or about no job."""
    name = topology.job_name(job)
    for incident in incidents:
        if _is_about(incident, job, name):
            incident.follow_up.count(fact, clock, time)


def _is_about(incident: Incident, job: str, name: str) -> bool:
    """Whether it is about the job, which may run under another ID since it was deployed again."""
    jobs = [f.entity for f in incident.findings if f.entity.get("job_id")]
    return not jobs or any(own["job_id"] == job or (name and own.get("job_name") == name) for own in jobs)


def note(incidents: list[Incident], changed: ChangedSetting, record: Evidence, clock: int) -> None:
    """Note a changed setting in the incidents that began before it and did not end more than a day ago."""
    for incident in incidents:
        if not incident.seq or min(f.since for f in incident.findings) > record.time:
            continue
        if incident.resolved_at is None:
            judge(incident, clock)
            incident.follow_up.change(changed, record, clock, 0, incident.issue)
        elif clock <= incident.resolved_at + DAY_MS:
            incident.follow_up.change(changed, record, clock, DAY_MS, "")


def news(incident: Incident, now: int) -> str:
    """What is to be reported of an open incident's last adjustment, as the reason of a transition; else empty."""
    if incident.follow_up.due and now >= incident.follow_up.due:
        judge(incident, now)
    return incident.follow_up.news(now)


def keep(ended: list[Incident], incident: Incident) -> None:
    """An incident that can no longer reopen is followed up."""
    ended.append(incident)
    del ended[:-MAX_ENDED]


def next_deadline(ended: list[Incident]) -> int | None:
    """The clock time at which `tick` will next report or drop an ended incident; None if there is none."""
    return min((incident.follow_up.due or _forgotten_at(incident) for incident in ended), default=None)


def tick(ended: list[Incident], now: int, context: IncidentContext) -> list[Transition]:
    """What is due at `now` about ended incidents."""
    transitions = []
    for incident in list(ended):
        follow_up = incident.follow_up
        if follow_up.due and not follow_up.report_at and now >= follow_up.due:
            follow_up.judge(_since_the_end(incident, follow_up.judge_at - DAY_MS, context))
        if found := follow_up.news(now):
            reason = f"{resolution(incident)}; {found}"
            transitions.append(make_transition(incident, "resolved", now, reason, context))
        if not follow_up.due and now >= _forgotten_at(incident):
            ended.remove(incident)
    return transitions


def _forgotten_at(incident: Incident) -> int:
    return (incident.resolved_at or 0) + DAY_MS


def _since_the_end(incident: Incident, since: int, context: IncidentContext) -> str:
    """Whether an incident recurred in the day since an adjustment."""
    times = recurrence.recurred(context.past, incident.id, since)
    if not times:
        return f"no recurrence in {humanize(DAY_MS)}"
    number = f"{len(times)} time{'s' * (len(times) > 1)}"
    return f"recurred {number} in {humanize(DAY_MS)}, first {humanize(times[0] - since)} later"
