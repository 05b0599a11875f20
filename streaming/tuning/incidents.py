"""The incidents of a replay, and which incidents of two replays are the same.

Under another threshold an incident may have another first finding, and so another id. Two incidents are the same if
they are of one cluster, their times (from the first symptom to the end) overlap, and they share a finding of the same
kind and subject whose times overlap, or their causes name the same job or TaskManager. The pairs that share most
findings come first, then those that opened closest together. An incident that was merged into another counts as that
one.
"""

from collections.abc import Iterable, Iterator

import msgspec

from detectors.incident import SEVERITIES, Finding, Severity, Transition

_FOREVER = 1 << 62
_PLACES = ("job_id", "job_name", "tm_id")

Span = tuple[int, int]


class ReplayedIncident(msgspec.Struct, kw_only=True):
    """An incident from its first transition to its last; times are epoch ms.

    `began` is the time of its first symptom, `opened_at` the time of its first transition, `ended_at` is None while it
    is open. `severity` is its highest, `cause` and `summary` are its last. `silenced` is true if all its transitions
    were silenced.
    """

    incident: str
    cluster: str
    job_id: str
    job_name: str
    cause: str
    severity: Severity
    began: int
    opened_at: int
    ended_at: int | None
    silenced: bool
    summary: str
    findings: dict[tuple[str, str], Span]
    places: set[str]

    @property
    def job(self) -> str:
        """The job's name, or its id where the name is not known; empty without a job."""
        return self.job_name or self.job_id

    def shared(self, other: "ReplayedIncident") -> int:
        both = self.findings.keys() & other.findings.keys()
        return sum(_overlap(self.findings[key], other.findings[key]) for key in both)

    def same(self, other: "ReplayedIncident") -> bool:
        """Whether it may be the same incident as `other`, which another configuration reported."""
        spans = [(t.began, _FOREVER if t.ended_at is None else t.ended_at) for t in (self, other)]
        near = self.cluster == other.cluster and _overlap(spans[0], spans[1])
        return near and bool(self.shared(other) or self.places & other.places)

    def row(self) -> dict[str, str | int | bool | None]:
        hidden = ("findings", "places")
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in hidden}


class ReplayedIncidents:
    def __init__(self) -> None:
        self._by_id: dict[str, ReplayedIncident] = {}
        self._part_of: dict[str, str] = {}

    def take(self, transitions: Iterable[Transition]) -> None:
        for t in transitions:
            incident = self._by_id.get(t.incident)
            if incident is None:
                incident = self._by_id[t.incident] = ReplayedIncident(
                    incident=t.incident,
                    cluster=t.cluster,
                    job_id=t.job_id,
                    job_name=t.job_name,
                    cause=t.cause,
                    severity=t.severity,
                    began=t.opened_at,
                    opened_at=t.at,
                    ended_at=None,
                    silenced=True,
                    summary=t.summary,
                    findings={},
                    places=set(),
                )
            _update(incident, t)
            if t.part_of:
                self._part_of[t.incident] = t.part_of

    def incidents(self) -> list[ReplayedIncident]:
        """All incidents in order of opening. Incidents that were merged into others are counted with these."""
        for merged in self._part_of:
            part, whole = self._by_id[merged], merged
            while whole in self._part_of:
                whole = self._part_of[whole]
            if (other := self._by_id.get(whole)) is not None:
                other.opened_at, other.began = min(other.opened_at, part.opened_at), min(other.began, part.began)
                other.findings = {**part.findings, **other.findings}
                other.silenced = other.silenced and part.silenced
        left = [t for i, t in self._by_id.items() if i not in self._part_of]
        return sorted(left, key=lambda t: (t.opened_at, t.cluster, t.incident))


def paired(
    old: list[ReplayedIncident], new: list[ReplayedIncident]
) -> Iterator[tuple[ReplayedIncident, ReplayedIncident]]:
    """The pairs of incidents that are the same by the rule of this module."""
    candidates = [
        (-a.shared(b), abs(a.opened_at - b.opened_at), i, j)
        for i, a in enumerate(old)
        for j, b in enumerate(new)
        if a.same(b)
    ]
    left, right = set(range(len(old))), set(range(len(new)))
    for _, _, i, j in sorted(candidates):
        if i in left and j in right:
            left.remove(i)
            right.remove(j)
            yield old[i], new[j]


def _update(incident: ReplayedIncident, t: Transition) -> None:
    incident.cause, incident.summary = t.cause, t.summary
    incident.job_id, incident.job_name = t.job_id or incident.job_id, t.job_name or incident.job_name
    incident.severity = max(incident.severity, t.severity, key=SEVERITIES.index)
    incident.ended_at = t.at if t.transition == "resolved" else None
    incident.silenced = incident.silenced and t.silence is not None
    for finding in t.findings:
        key = finding.kind, finding.subject
        begin, _ = incident.findings.get(key, (finding.since, 0))
        incident.findings[key] = min(begin, finding.since), _FOREVER if finding.closed_at is None else finding.closed_at
        incident.began = min(incident.began, finding.since)
    incident.places |= {p for f in t.findings if f.kind == t.cause for p in _named(f)}


def _named(finding: Finding) -> Iterator[str]:
    return (f"{key}={finding.entity[key]}" for key in _PLACES if finding.entity.get(key))


def _overlap(a: Span, b: Span) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
