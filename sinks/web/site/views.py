"""Makes the document of each page from the sources. A view returns None if what it is asked for does not exist."""

from collections.abc import Callable

from detectors.diagnosis.diagnosis import diagnose
from detectors.diagnosis.known_cluster import KnownCluster, known_clusters
from sinks.web.site import lookup
from sinks.web.site.documents import (
    ClusterDocument,
    Clusters,
    ClusterSummary,
    ConfigurationDocument,
    Document,
    History,
    IncidentDocument,
    OpenIncidents,
    Receivers,
    RiskNow,
)
from sinks.web.site.lookup import OPEN, Where, where
from sinks.web.site.query import SiteQuery
from sinks.web.site.readings import detectors_now, readings_now
from sinks.web.site.receivers import receivers_health
from sinks.web.site.sources import Sources

_DAY_MS = 86_400_000
_CLUSTERS_SHOWN = 100

View = Callable[[Sources, str, SiteQuery, str], Document | None]
"""Sources, the name in the path, the query, and the path of the document itself, for `next`."""


def open_incidents(sources: Sources, _: str, query: SiteQuery, path: str) -> OpenIncidents:
    selected = where(query, OPEN)
    with sources.store.reading() as db:
        total = lookup.count(db, selected)
        return OpenIncidents(
            problem=sources.problem(),
            total=total,
            clusters=lookup.clusters(db, selected)[:_CLUSTERS_SHOWN],
            incidents=lookup.by_cluster(db, selected, query),
            next=query.next(path, total),
        )


def incident(sources: Sources, name: str, query: SiteQuery, path: str) -> IncidentDocument | None:
    with sources.store.reading() as db:
        found = lookup.incident(db, name)
        if found is None:
            return None
        kept = lookup.numbers(db, name)
        transitions = lookup.transitions(db, name, kept[::-1][query.offset : query.offset + query.limit])
        return IncidentDocument(
            problem=sources.problem(),
            incident=found,
            complete=kept == list(range(1, found.seq + 1)),
            total=len(kept),
            transitions=transitions,
            notifications=lookup.notifications(db, name),
            marks=sources.collector.feedback.marks(name),
            earlier=lookup.earlier(db, found),
            thresholds=sources.settings.thresholds(transitions[0]) if transitions else [],
            next=query.next(path, len(kept)),
        )


def history(sources: Sources, _: str, query: SiteQuery, path: str) -> History:
    since = sources.now_ms() // _DAY_MS * _DAY_MS - (query.days - 1) * _DAY_MS
    selected = where(query, since=since)
    with sources.store.reading() as db:
        total = lookup.count(db, selected)
        return History(
            problem=sources.problem(),
            since=since,
            total=total,
            kinds=lookup.counts(db, "kind", selected),
            clusters=lookup.counts(db, "cluster", selected),
            jobs=lookup.counts(db, "job", Where(f"{selected.text} AND job <> ''", selected.values)),
            days=lookup.days(db, selected),
            incidents=lookup.newest(db, selected, query),
            next=query.next(path, total),
        )


def clusters(sources: Sources, _: str, query: SiteQuery, path: str) -> Clusters:
    with sources.store.reading() as db:
        found = lookup.clusters(db)
    named = {one.cluster for one in found}
    found += [ClusterSummary(cluster=name) for name in sorted(sources.clusters()) if name and name not in named]
    wanted = [one for one in found if query.q.lower() in one.cluster.lower()]
    return Clusters(
        problem=sources.problem(),
        total=len(wanted),
        clusters=wanted[query.offset : query.offset + query.limit],
        next=query.next(path, len(wanted)),
    )


def cluster(sources: Sources, name: str, query: SiteQuery, path: str) -> ClusterDocument | None:
    readings = sorted(sources.readings(name), key=lambda reading: reading.key())
    with sources.store.reading() as db:
        selected = Where(f"{OPEN} AND cluster = ?", (name,))
        opened = {one.name: one.count for one in lookup.counts(db, "kind", selected)}
        incidents = lookup.by_cluster(db, selected, SiteQuery())
        if not readings and not lookup.count(db, Where("cluster = ?", (name,))):
            return None
    shown = readings[query.offset : query.offset + query.limit]
    found = diagnose(known_clusters(readings).get(name) or KnownCluster(name), sources.issues)
    by_kind = readings_now(shown, lambda job: sources.settings.effective(name, job), sources.now_ms())
    return ClusterDocument(
        problem=sources.problem(),
        cluster=name,
        config=sources.settings.hash,
        incidents=incidents,
        total=len(readings),
        detectors=detectors_now(by_kind, sources.settings.effective(name, ""), opened),
        next=query.next(path, len(readings)),
        version=found.cluster.version,
        risks=[
            RiskNow(rule=rule.name, seen=seen, why=rule.why, to_do=rule.to_do, runbook=rule.runbook)
            for rule, seen in found.risks
        ],
        known_issues=found.issues,
        unknown=found.unknown,
    )


def configuration(sources: Sources, _: str, query: SiteQuery, path: str) -> ConfigurationDocument | None:  # noqa: ARG001
    return sources.settings.document(sources.now_ms(), sources.problem())


def receivers(sources: Sources, _: str, query: SiteQuery, path: str) -> Receivers:  # noqa: ARG001
    with sources.store.reading() as db:
        states = lookup.notification_states(db)
    return Receivers(
        problem=sources.problem(),
        receivers=receivers_health(sources.collector.delivery.collect(), states),
        checks=sources.checks(),
    )
