"""What pages and documents ask of the incident store. `db` is always a connection of `IncidentStore.reading`."""

import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from detectors.incident import SEVERITIES, Transition, decode_transition
from sinks.web.site.documents import ClusterSummary, Count, IncidentSummary, LoggedNotification
from sinks.web.site.query import SiteQuery

_COLUMNS = ", ".join(IncidentSummary.__struct_fields__)
# The cluster with the worst incident first, silenced incidents last in their cluster.
_WORST = "CASE WHEN silenced THEN -1 ELSE severity END"
_BY_CLUSTER = f"worst_of_cluster DESC, cluster, {_WORST} DESC, since, incident"
_RANKS: dict[str, int] = {severity: rank for rank, severity in enumerate(SEVERITIES)}
_NEWEST = "opened_at DESC, incident"
_NAMES_SHOWN, _EARLIER_SHOWN = 100, 10

OPEN = "ended_at IS NULL"


class Where(NamedTuple):
    """A condition in SQL with its values."""

    text: str
    values: tuple[str | int, ...] = ()


def where(query: SiteQuery, *conditions: str, since: int = 0) -> Where:
    """The incidents that a query selects; `since` is the earliest end (epoch ms)."""
    parts, values = list(conditions), list[str | int]()
    for name in ("cluster", "job", "kind", "state"):
        if value := getattr(query, name):
            parts.append(f"{name} = ?")
            values.append(value)
    if query.severity:
        parts.append("severity = ?")
        values.append(_RANKS[query.severity])
    if since:
        parts.append(f"({OPEN} OR ended_at >= ?)")
        values.append(since)
    if query.q:
        parts.append("instr(lower(incident || ' ' || cluster || ' ' || job || ' ' || kind || ' ' || summary), ?)")
        values.append(query.q.lower())
    return Where(" AND ".join(parts) or "1", tuple(values))


def count(db: sqlite3.Connection, selected: Where) -> int:
    (found,) = db.execute(f"SELECT count(*) FROM incidents WHERE {selected.text}", selected.values).fetchone()  # noqa: S608  # nosec B608
    return int(found)


def by_cluster(db: sqlite3.Connection, selected: Where, query: SiteQuery) -> list[IncidentSummary]:
    """A part of the selected incidents, by cluster and severity."""
    worst = f"SELECT cluster, max({_WORST}) AS worst_of_cluster FROM incidents WHERE {selected.text} GROUP BY cluster"  # noqa: S608  # nosec B608
    named = f"incidents JOIN ({worst}) USING (cluster)"
    twice = Where(selected.text, (*selected.values, *selected.values))
    return _summaries(db, twice, _BY_CLUSTER, query.limit, query.offset, named)


def newest(db: sqlite3.Connection, selected: Where, query: SiteQuery) -> list[IncidentSummary]:
    """A part of the selected incidents, the newest first."""
    return _summaries(db, selected, _NEWEST, query.limit, query.offset)


def incident(db: sqlite3.Connection, name: str) -> IncidentSummary | None:
    return next(iter(_summaries(db, Where("incident = ?", (name,)), _NEWEST, 1, 0)), None)


def earlier(db: sqlite3.Connection, one: IncidentSummary) -> list[IncidentSummary]:
    """Former incidents with the same cause on the same job and cluster, newest first."""
    same = Where(
        "cluster = ? AND job = ? AND kind = ? AND opened_at < ? AND incident <> ?",
        (one.cluster, one.job, one.kind, one.opened_at, one.incident),
    )
    return _summaries(db, same, _NEWEST, _EARLIER_SHOWN, 0)


def _summaries(
    db: sqlite3.Connection, selected: Where, order: str, limit: int, offset: int, table: str = "incidents"
) -> list[IncidentSummary]:
    """A part of the selected incidents in an order. Only names are sorted, since all columns take twice as long."""
    found = db.execute(
        f"SELECT incident FROM {table} WHERE {selected.text} ORDER BY {order} LIMIT ? OFFSET ?",  # noqa: S608  # nosec B608
        (*selected.values, limit, offset),
    )
    names = [name for (name,) in found]
    marks = ",".join("?" * len(names))
    rows = db.execute(f"SELECT {_COLUMNS} FROM incidents WHERE incident IN ({marks})", names)  # noqa: S608  # nosec B608
    by_name = {row[0]: _summary(row) for row in rows}
    return [by_name[name] for name in names]


def _summary(row: Sequence[Any]) -> IncidentSummary:
    fields = dict(zip(IncidentSummary.__struct_fields__, row, strict=True))
    return IncidentSummary(**fields | {"severity": SEVERITIES[fields["severity"]]})


def clusters(db: sqlite3.Connection, selected: Where = Where(OPEN)) -> list[ClusterSummary]:  # noqa: B008 - immutable
    """Counts of the selected incidents by cluster, the worst cluster first."""
    rows = db.execute(
        f"SELECT cluster, {', '.join(f'sum({_WORST} = {rank})' for rank in (2, 1, 0, -1))} "  # noqa: S608  # nosec B608
        f"FROM incidents WHERE {selected.text} GROUP BY cluster "
        f"ORDER BY max({_WORST}) DESC, cluster",
        selected.values,
    )
    return [
        ClusterSummary(cluster=name, critical=critical, warning=warning, info=info, silenced=silenced)
        for name, critical, warning, info, silenced in rows
    ]


def counts(db: sqlite3.Connection, column: str, selected: Where) -> list[Count]:
    """How many of the selected incidents have each value of a column, the largest counts first."""
    rows = db.execute(
        f"SELECT {column}, count(*) FROM incidents WHERE {selected.text} "  # noqa: S608  # nosec B608
        f"GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_NAMES_SHOWN}",
        selected.values,
    )
    return [Count(*row) for row in rows]


def days(db: sqlite3.Connection, selected: Where) -> list[Count]:
    """How many of the selected incidents opened on each day (UTC), the newest day first."""
    rows = db.execute(
        f"SELECT date(opened_at / 1000, 'unixepoch'), count(*) FROM incidents WHERE {selected.text} "  # noqa: S608  # nosec B608
        f"GROUP BY 1 ORDER BY 1 DESC LIMIT {_NAMES_SHOWN}",
        selected.values,
    )
    return [Count(*row) for row in rows if row[0] is not None]


def numbers(db: sqlite3.Connection, name: str) -> list[int]:
    """The numbers of an incident's transitions that are kept, in order."""
    return [seq for (seq,) in db.execute("SELECT seq FROM transitions WHERE incident = ? ORDER BY seq", (name,))]


def transitions(db: sqlite3.Connection, name: str, seqs: Sequence[int]) -> list[Transition]:
    """The transitions of an incident with these numbers, the newest first."""
    marks = ",".join("?" * len(seqs))
    rows = db.execute(
        f"SELECT body FROM transitions WHERE incident = ? AND seq IN ({marks}) ORDER BY seq DESC",  # noqa: S608  # nosec B608
        (name, *seqs),
    )
    return [decode_transition(zlib.decompress(body)) for (body,) in rows]


def notifications(db: sqlite3.Connection, name: str) -> list[LoggedNotification]:
    """What the receivers' notification logs have of an incident."""
    rows = db.execute(
        "SELECT receiver, incident, seq, state, at, reason FROM notifications WHERE incident = ? ORDER BY at", (name,)
    )
    return [LoggedNotification(**dict(zip(LoggedNotification.__struct_fields__, row, strict=True))) for row in rows]


def notification_states(db: sqlite3.Connection) -> dict[str, tuple[dict[str, int], int]]:
    """For each receiver: how many incidents its log has in each state, and when the last entry was written."""
    found: dict[str, tuple[dict[str, int], int]] = {}
    rows = db.execute("SELECT receiver, state, count(*), max(at) FROM notifications GROUP BY 1, 2 ORDER BY 1, 2")
    for receiver, state, number, at in rows:
        states, last = found.get(receiver, ({}, 0))
        found[receiver] = {**states, state: number}, max(last, at if state == "sent" else 0)
    return found
