"""What happened in a period, such as a shift or a week: for handing over, and to see what recurs and what is noisy."""

from collections import Counter
from collections.abc import Iterable
from statistics import median_low

import msgspec
from msgspec.structs import replace

from detectors.incident import SEVERITIES, Severity, Silenced, Transition
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry
from detectors.incidents.recurrence import humanize_recurrence
from detectors.values.versions import version_numbers
from sinks.contract.feedback import Feedback
from sinks.contract.wording import kind_words

PREFIX = "~overview/"
"""First part of the name of an overview in the notification log; its schedule and its time (epoch ms) follow."""

_MOST = 10
# An overview is one message or one request, even if everything is open.
_MOST_OPEN = 500
_SUMMARY = 500


class OverviewRow(msgspec.Struct, frozen=True):
    """An incident in an overview. `ended` (epoch ms) is None while it is open; `recurs` is empty if it does not."""

    incident: str
    cause: str
    severity: Severity
    cluster: str
    job: str
    summary: str
    opened: int
    ended: int | None
    recurs: str = ""
    silence: Silenced | None = None


class Upgrade(msgspec.Struct, frozen=True):
    """Of `incidents` with a known issue that depends on Flink's version, `avoided` do not affect `version`."""

    version: str
    avoided: int
    incidents: int


class Answered(msgspec.Struct, frozen=True):
    """People's feedback. `acknowledged` counts incidents that opened in the period, `median_ms` is how long that took
    (None: none was). `not_an_incident` are the labels given in the period, by kind.
    """

    acknowledged: int
    median_ms: int | None
    not_an_incident: list[tuple[str, int]]


class Overview(msgspec.Struct, frozen=True):
    """Incidents between `since` and `until` (epoch ms). `opened`, `resolved` and `still_open` are counts; `open`
    are those that are open at `until`, the worst first, at most 500. `kinds` and `jobs` are the noisiest ones, with the
    number that opened. `silences_ending` end within as long again as the period lasts.
    """

    since: int
    until: int
    opened: int
    resolved: int
    still_open: int
    severities: dict[Severity, int]
    open: list[OverviewRow]
    recurring: list[OverviewRow]
    kinds: list[tuple[str, int]]
    jobs: list[tuple[str, int]]
    silences_ending: list[Silenced]
    upgrade: Upgrade | None
    feedback: Answered

    @property
    def is_empty(self) -> bool:
        """Whether nothing opened, resolved or is open."""
        return not (self.opened or self.resolved or self.open)


class ScheduledOverview(msgspec.Struct, frozen=True):
    """An overview that a receiver is sent. `is_longer`: it covers more than the time since the scheduled one before."""

    schedule: str
    found: Overview
    is_longer: bool = False


class Period:
    """Incidents and feedback between `since` and `until` (epoch ms), of one `cluster` if it is named.

    It keeps one small record of each incident that counts, so it can be filled from a whole topic.
    """

    def __init__(self, since: int, until: int, cluster: str = "") -> None:
        self.since, self.until = since, until
        self._cluster = cluster
        self._incidents: dict[str, Transition] = {}
        self._answers: dict[bytes, Feedback] = {}

    def add(self, one: Transition) -> None:
        """Add a transition. Those of an incident come in order."""
        if one.at >= self.until or self._cluster not in ("", one.cluster):
            return
        ended = one.transition == "resolved" and (one.ended_at or one.at) < self.since
        if one.part_of or ended:
            self.remove(one.incident)
        else:
            small = replace(one, findings=[], evidence=[], series=None, advice="", summary=one.summary[:_SUMMARY])
            self._incidents[one.incident] = small

    def remove(self, incident: str) -> None:
        """Forget an incident whose record was deleted."""
        self._incidents.pop(incident, None)

    def add_feedback(self, one: Feedback) -> None:
        """Add an answer of a person. A newer one takes the place of an older one."""
        if self.since <= one.at < self.until and self._cluster in ("", one.cluster):
            self._answers[one.key()] = one

    def incidents(self) -> list[Transition]:
        """The newest state of each incident, without those that were merged into another one."""
        return list(self._incidents.values())

    def answers(self) -> list[Feedback]:
        """The answers that were not withdrawn."""
        return [one for one in self._answers.values() if not one.withdrawn]


def overview(period: Period, issues: IssueCatalogue) -> Overview:
    """The overview of a period. Merged incidents do not count."""
    since, until, states = period.since, period.until, period.incidents()
    opened = [state for state in states if since <= _opened_at(state)]
    still_open = sorted((_row(s) for s in states if s.transition != "resolved"), key=_worst_first)
    ends_before = until + (until - since)
    silences = {row.silence.id: row.silence for row in still_open if row.silence is not None}
    return Overview(
        since=since,
        until=until,
        opened=len(opened),
        resolved=sum(s.ended_at is not None and since <= s.ended_at for s in states if s.transition == "resolved"),
        severities={one: n for one in reversed(SEVERITIES) if (n := sum(s.severity == one for s in opened))},
        still_open=len(still_open),
        open=still_open[:_MOST_OPEN],
        recurring=_recurring(opened),
        kinds=Counter(kind_words(s.cause) for s in opened).most_common(_MOST),
        jobs=Counter(_place(s.cluster, s.job_name or s.job_id) for s in opened).most_common(_MOST),
        silences_ending=sorted((s for s in silences.values() if s.until <= ends_before), key=lambda s: s.until),
        upgrade=_upgrade(opened, issues),
        feedback=_answered(opened, period.answers()),
    )


def _answered(opened: Iterable[Transition], answers: Iterable[Feedback]) -> Answered:
    acknowledged = {one.incident: one.at for one in answers if one.answer == "acknowledged"}
    took = [max(acknowledged[s.incident] - _opened_at(s), 0) for s in opened if s.incident in acknowledged]
    labels = Counter(kind_words(one.kind) for one in answers if one.answer == "not_an_incident")
    return Answered(len(took), median_low(took) if took else None, labels.most_common(_MOST))


def _opened_at(state: Transition) -> int:
    return state.opened_at or state.at


def _row(state: Transition) -> OverviewRow:
    return OverviewRow(
        incident=state.incident,
        cause=state.cause,
        severity=state.severity,
        cluster=state.cluster,
        job=state.job_name or state.job_id,
        summary=state.summary,
        opened=_opened_at(state),
        ended=state.ended_at if state.transition == "resolved" else None,
        recurs=humanize_recurrence(state.recurrence) if state.recurrence is not None else "",
        silence=state.silence,
    )


def _worst_first(row: OverviewRow) -> tuple[int, int, str]:
    return -SEVERITIES.index(row.severity), row.opened, row.incident


def _recurring(opened: Iterable[Transition]) -> list[OverviewRow]:
    """The newest incident of each kind and job that recurs, those with most occurrences first."""
    newest = {
        (state.cause, state.cluster, state.job_name or state.job_id): state
        for state in sorted(opened, key=_opened_at)
        if state.recurrence is not None
    }
    most = sorted(newest.values(), key=lambda s: -s.recurrence.count if s.recurrence is not None else 0)
    return [_row(state) for state in most[:_MOST]]


def _upgrade(opened: Iterable[Transition], issues: IssueCatalogue) -> Upgrade | None:
    """The lowest version of Flink that avoids most of these incidents, by the versions that their known issues affect.

    An issue that is only possible does not count.
    """
    by_id = {issue.id: issue for issue in issues.entries if issue.affected and issue.certainty != "possible"}
    found = [by_id[s.known_issue.id] for s in opened if s.known_issue is not None and s.known_issue.id in by_id]
    versions = {one.before for issue in found for one in issue.affected}
    avoided = {version: sum(not _affects(issue, version) for issue in found) for version in versions}
    best = min(versions, key=lambda v: (-avoided[v], version_numbers(v)), default="")
    return Upgrade(best, avoided[best], len(found)) if best and avoided[best] else None


def _affects(issue: IssueEntry, version: str) -> bool:
    number = version_numbers(version)
    return any(affected.includes(number) for affected in issue.affected)


def _place(cluster: str, job: str) -> str:
    return f"{cluster}/{job}" if job else cluster
