"""What happened in a period, such as a shift or a week: for handing over, and to see what recurs and what is noisy."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from detectors.incident import SEVERITIES, Severity, Silenced, Transition
from detectors.incidents.known_issues import IssueCatalogue, IssueEntry
from detectors.incidents.recurrence import humanize_recurrence
from detectors.values.versions import version_numbers
from sinks.contract.wording import kind_words

_MOST = 10


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


class Overview(msgspec.Struct, frozen=True):
    """Incidents between `since` and `until` (epoch ms). `open` are all that are open at `until`, the worst first;
    `opened` and `resolved` are counts. `kinds` and `jobs` are the noisiest ones, with the number that opened.
    `silences_ending` end within as long again as the period lasts.
    """

    since: int
    until: int
    opened: int
    resolved: int
    severities: dict[Severity, int]
    open: list[OverviewRow]
    recurring: list[OverviewRow]
    kinds: list[tuple[str, int]]
    jobs: list[tuple[str, int]]
    silences_ending: list[Silenced]
    upgrade: Upgrade | None


def overview(histories: Mapping[str, Sequence[Transition]], since: int, until: int, issues: IssueCatalogue) -> Overview:
    """The overview of the transitions of each incident in order. Merged incidents do not count."""
    states = [state for history in histories.values() if (state := _state(history, until)) is not None]
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
        open=still_open,
        recurring=_recurring(opened),
        kinds=Counter(kind_words(s.cause) for s in opened).most_common(_MOST),
        jobs=Counter(_place(s.cluster, s.job_name or s.job_id) for s in opened).most_common(_MOST),
        silences_ending=sorted((s for s in silences.values() if s.until <= ends_before), key=lambda s: s.until),
        upgrade=_upgrade(opened, issues),
    )


def _state(history: Sequence[Transition], until: int) -> Transition | None:
    """The newest transition before `until`; None before the incident opened, and if it was merged into another one."""
    newest = next((t for t in reversed(history) if t.at < until), None)
    return None if newest is None or newest.part_of else newest


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
