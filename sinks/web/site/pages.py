"""Makes pages from documents. Every page is complete without JavaScript."""

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any
from urllib.parse import quote

import msgspec

from detectors.incident import SEVERITIES
from detectors.values.durations import humanize
from sinks.contract.phrases import issue_address, issue_sentences
from sinks.contract.wording import SEVERITY_WORDS, moment, runbook_url
from sinks.web.incident_page import render_incident
from sinks.web.page_context import EarlierIncident, PageContext, SentNotification
from sinks.web.site.documents import (
    ClusterDocument,
    Clusters,
    ConfigurationDocument,
    History,
    IncidentDocument,
    OpenIncidents,
    Problem,
    ReadingNow,
    Receivers,
)
from sinks.web.site.query import KINDS, SiteQuery
from sinks.web.templating import render

REFRESH_S = 30
"""How often a page that shows the present state loads itself again."""

_NAVIGATION = (
    ("Open incidents", "/"),
    ("History", "/history"),
    ("Clusters", "/clusters"),
    ("Configuration", "/config"),
    ("Receivers", "/receivers"),
)


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a page was asked for: its path without `prefix`, the query, and the time (epoch ms)."""

    prefix: str
    path: str
    query: SiteQuery
    now: int
    refreshes: bool = False
    runbook_base_url: str = ""
    flink_ui_url: Mapping[str, str] = {}

    def href(self, *parts: str) -> str:
        """The address of another page, from parts that may contain any text."""
        return "/".join((self.prefix, *(quote(part, safe="", errors="replace") for part in parts))) or "/"

    def part(self, offset: int) -> str:
        """The address of another part of the list on this page."""
        return self.query.with_offset(self.prefix + self.path, offset)

    def narrowed(self, parameter: str, value: str) -> str:
        """The address of this page with one more filter."""
        narrowed = msgspec.structs.replace(self.query, **{parameter: value})
        return narrowed.with_offset(self.prefix + self.path, 0)

    def without_refresh(self) -> str:
        return msgspec.structs.replace(self.query, refresh="off").with_offset(
            self.prefix + self.path, self.query.offset
        )

    def ago(self, time: int) -> str:
        """How long ago a time was, in words."""
        return humanize(self.now - time)


Page = Callable[[Any, PageRequest], str]

# Seconds beyond which a time or a time span is no longer one that people know.
_MUCH = 1e11


def open_incidents(document: OpenIncidents, asked: PageRequest) -> str:
    groups = [(name, list(found)) for name, found in groupby(document.incidents, lambda one: one.cluster)]
    return _page("open.html.j2", asked, document, groups=groups, kinds=KINDS, severities=SEVERITIES[::-1])


def incident(document: IncidentDocument, asked: PageRequest) -> str:
    context = PageContext(
        earlier=[EarlierIncident(one.incident, one.summary, one.opened_at, one.ended_at) for one in document.earlier],
        notifications=[
            SentNotification(one.receiver, one.at, one.seq, one.state, one.reason) for one in document.notifications
        ],
        marks=document.marks,
        thresholds=document.thresholds,
        incident_address=f"{asked.prefix}/incidents/{{incident}}",
        runbook_base_url=asked.runbook_base_url,
        flink_ui_url=asked.flink_ui_url,
        navigation=[(label, asked.prefix + path) for label, path in _NAVIGATION],
        notice=document.problem or "",
    )
    return render_incident(document.transitions[::-1], context)


def history(document: History, asked: PageRequest) -> str:
    tables = (
        ("Kind", document.kinds, "kind"),
        ("Cluster", document.clusters, "cluster"),
        ("Job", document.jobs, "job"),
        ("Opened on", document.days, ""),
    )
    return _page("history.html.j2", asked, document, tables=tables, kinds=KINDS, severities=SEVERITIES[::-1])


def clusters(document: Clusters, asked: PageRequest) -> str:
    return _page("clusters.html.j2", asked, document)


def cluster(document: ClusterDocument, asked: PageRequest) -> str:
    return _page(
        "cluster.html.j2",
        asked,
        document,
        now_words=now_words,
        limit_words=limit_words,
        runbook_url=runbook_url,
        issue_address=issue_address,
        issue_sentences=issue_sentences,
    )


def configuration(document: ConfigurationDocument, asked: PageRequest) -> str:
    return _page("config.html.j2", asked, document, as_json=_as_json)


def receivers(document: Receivers, asked: PageRequest) -> str:
    return _page("receivers.html.j2", asked, document)


def error_page(problem: Problem, prefix: str) -> str:
    """The page of an error. It shows nothing of the request."""
    asked = PageRequest(prefix=prefix, path="", query=SiteQuery(), now=0)
    return render("error.html.j2", problem=problem, **_frame(asked))


def now_words(reading: ReadingNow) -> str:
    """What a reading shows now: its value, its age, or the time left.

    >>> from sinks.web.site.documents import ReadingNow
    >>> usual = dict(labels={}, at=0, help="", limit_from="", overridden=False, exceeded=False)
    >>> now_words(ReadingNow(name="gc_time_ratio", value=0.25, measure="value", now=0.25, limit=0.3, **usual))
    '0.25'
    """
    if reading.now is not None and reading.measure != "value":
        late = reading.now < 0
        words = _time_span(abs(reading.now))
        return f"{words} ago" if reading.measure == "age" or late else f"in {words}"
    return "" if reading.value is None else _quantity(reading.name, reading.value)


def limit_words(reading: ReadingNow) -> str:
    """The limit in the unit of the reading; empty without one."""
    if reading.limit is None:
        return ""
    return _time_span(reading.limit) if reading.measure != "value" else _quantity(reading.name, reading.limit)


def _quantity(name: str, value: float) -> str:
    if name.endswith("_timestamp_seconds"):
        return moment(int(value * 1000)) if abs(value) < _MUCH else f"{value:g} s"
    if name.endswith("_seconds"):
        return _time_span(value)
    if name.endswith("_bytes"):
        return f"{value / 2**20:,.4g} MB"
    return f"{value:,.4g}"


def _time_span(seconds: float) -> str:
    return humanize(seconds * 1000) if 0 <= seconds < _MUCH else f"{seconds:g} s"


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _page(template: str, asked: PageRequest, document: msgspec.Struct, **values: object) -> str:
    context = PageContext(notice=getattr(document, "problem", None) or "")
    return render(template, document=document, context=context, **values, **_frame(asked))


def _frame(asked: PageRequest) -> dict[str, Any]:
    """What every page needs."""
    return {
        "asked": asked,
        "navigation": [(label, asked.prefix + path or "/", asked.path == path) for label, path in _NAVIGATION],
        "severity_words": SEVERITY_WORDS,
        "refresh_s": REFRESH_S,
    }
