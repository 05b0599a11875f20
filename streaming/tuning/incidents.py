"""Incidents as a replay tells them, and which of two replays are the same.

Under another threshold the first finding may be another one, and with it the id of the incident. So two incidents are
the same when they are of one cluster, their times overlap (from the first symptom to the end), and they share a
finding of the same kind and subject whose times overlap, or their causes name the same job or TaskManager. Those that
share most findings are paired first, then those that opened closest together; each is paired once. An incident that
ended as part of another counts as that one.
"""

from collections.abc import Iterable, Iterator

import msgspec

from detectors.incident import SEVERITIES, Finding, Severity, Transition

_FOREVER = 1 << 62
_PLACES = ("job_id", "job_name", "tm_id")

Span = tuple[int, int]


class ReplayedIncident(msgspec.Struct, kw_only=True):
    """An incident from its first transition to its last; times are epoch ms.

    `began` is its first symptom, `opened_at` when it was told, `ended_at` None while it goes on; `severity` is the
    worst it had, `cause` and `summary` its last. `silenced`: nobody was told of it.
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
        """How many findings both have at the same time."""
        both = self.findings.keys() & other.findings.keys()
        return sum(_overlap(self.findings[key], other.findings[key]) for key in both)

    def same(self, other: "ReplayedIncident") -> bool:
        """Whether it may be the other one, told under another configuration."""
        spans = [(t.began, _FOREVER if t.ended_at is None else t.ended_at) for t in (self, other)]
        near = self.cluster == other.cluster and _overlap(spans[0], spans[1])
        return near and bool(self.shared(other) or self.places & other.places)

    def row(self) -> dict[str, str | int | bool | None]:
        """What is printed as JSON."""
        hidden = ("findings", "places")
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in hidden}


class ReplayedIncidents:
    """Takes in transitions, and tells the incidents they are of."""

    def __init__(self) -> None:
        self._told: dict[str, ReplayedIncident] = {}
        self._part_of: dict[str, str] = {}

    def take(self, transitions: Iterable[Transition]) -> None:
        for t in transitions:
            told = self._told.get(t.incident)
            if told is None:
                told = self._told[t.incident] = ReplayedIncident(
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
            _update(told, t)
            if t.part_of:
                self._part_of[t.incident] = t.part_of

    def incidents(self) -> list[ReplayedIncident]:
        """All incidents in order of opening; those that became part of others are counted with these."""
        for incident in self._part_of:
            part, whole = self._told[incident], incident
            while whole in self._part_of:
                whole = self._part_of[whole]
            if (told := self._told.get(whole)) is not None:
                told.opened_at, told.began = min(told.opened_at, part.opened_at), min(told.began, part.began)
                told.findings = {**part.findings, **told.findings}
                told.silenced = told.silenced and part.silenced
        left = [t for i, t in self._told.items() if i not in self._part_of]
        return sorted(left, key=lambda t: (t.opened_at, t.cluster, t.incident))


def paired(
    old: list[ReplayedIncident], new: list[ReplayedIncident]
) -> Iterator[tuple[ReplayedIncident, ReplayedIncident]]:
    """The incidents that are the same, by the rule of this module."""
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


def _update(told: ReplayedIncident, t: Transition) -> None:
    told.cause, told.summary = t.cause, t.summary
    told.job_id, told.job_name = t.job_id or told.job_id, t.job_name or told.job_name
    told.severity = max(told.severity, t.severity, key=SEVERITIES.index)
    told.ended_at = t.at if t.transition == "resolved" else None
    told.silenced = told.silenced and t.silence is not None
    for finding in t.findings:
        key = finding.kind, finding.subject
        begin, _ = told.findings.get(key, (finding.since, 0))
        told.findings[key] = min(begin, finding.since), _FOREVER if finding.closed_at is None else finding.closed_at
        told.began = min(told.began, finding.since)
    told.places |= {p for f in t.findings if f.kind == t.cause for p in _named(f)}


def _named(finding: Finding) -> Iterator[str]:
    return (f"{key}={finding.entity[key]}" for key in _PLACES if finding.entity.get(key))


def _overlap(a: Span, b: Span) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]
