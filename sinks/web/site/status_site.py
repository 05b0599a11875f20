"""The status site: which path has which page and document, and who gets an answer.

A request passes the check of its host name and its login first. Every path has a page for people and, under /api/v1,
the same content as JSON. Nothing can be changed over HTTP.
"""

import sqlite3
import threading
import time
from email.message import Message
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
import structlog

from sinks.secret import SecretError
from sinks.web.site import answers, pages, views
from sinks.web.site.exchange import HttpRequest, HttpResponse
from sinks.web.site.guard import allowed_names, host_problem, may_read
from sinks.web.site.query import BadQueryError, SiteQuery, parse
from sinks.web.site.schema import schema_text
from sinks.web.site.settings import WebConfig
from sinks.web.site.sources import Sources

log = structlog.get_logger()

API = "/api/v1"
_OWN = ("/metrics", "/-/healthy", "/-/ready")
_AT_ONCE, _WAIT_S = 2, 10.0
_WARN_EVERY_S = 60.0
_encode = msgspec.json.Encoder(order="deterministic").encode

_LIST = ("limit", "offset")
_NAMES = ("q", "cluster", "job", "kind", "severity")


class SitePath(NamedTuple):
    """A path below / and the same below /api/v1. If it ends with a slash, the name that follows is what is asked for.

    `waits`: the answer is 503 until the topics have been read.
    """

    path: str
    document: str
    view: views.View
    page: pages.Page
    parameters: tuple[str, ...] = ()
    waits: bool = True


SITE_PATHS = (
    SitePath("/", "/incidents", views.open_incidents, pages.open_incidents, (*_NAMES, *_LIST, "refresh")),
    SitePath("/incidents/", "/incidents/", views.incident, pages.incident, _LIST),
    SitePath("/history", "/history", views.history, pages.history, (*_NAMES, "state", "days", *_LIST)),
    SitePath("/clusters", "/clusters", views.clusters, pages.clusters, ("q", *_LIST, "refresh")),
    SitePath("/clusters/", "/clusters/", views.cluster, pages.cluster, (*_LIST, "refresh")),
    SitePath("/config", "/config", views.configuration, pages.configuration),
    SitePath("/receivers", "/receivers", views.receivers, pages.receivers, ("refresh",), waits=False),
)


class StatusSite:
    """Answers requests from several threads. `address` is what the server listens on."""

    def __init__(self, config: WebConfig, address: str, sources: Sources) -> None:
        self._config = config
        self._sources = sources
        self._names = allowed_names(config, address)
        # Pages must leave the process time for deliveries and scrapes.
        self._turn = threading.BoundedSemaphore(_AT_ONCE)
        self._quiet_until = 0.0

    def respond(self, request: HttpRequest) -> HttpResponse | None:
        """The response; None for the server's own paths, unless they are protected and the login is missing."""
        own = request.path in _OWN
        if own and not self._config.protect_metrics:
            return None
        path = self._without_prefix(request.path)
        as_json = own or path == "/api" or path.startswith("/api/")
        try:
            return self._refusal(request, own, as_json) or (None if own else self._answer(path, request, as_json))
        except BadQueryError as error:
            return self._failure(HTTPStatus.BAD_REQUEST, str(error), as_json, error.allowed)
        except sqlite3.Error as error:
            self._warn("the status site cannot read its incidents", error=str(error))
            return self._failure(HTTPStatus.SERVICE_UNAVAILABLE, f"incidents cannot be read: {error}", as_json)
        except Exception as error:  # noqa: BLE001 - it is logged
            self._warn("the status site failed to answer", exc_info=error)
            return self._failure(HTTPStatus.INTERNAL_SERVER_ERROR, "the reason is in flinkwatch's log", as_json)

    def _without_prefix(self, path: str) -> str:
        """The path without that of `external_url`, which a proxy may or may not have removed."""
        prefix = self._config.prefix
        inside = prefix and (path == prefix or path.startswith(f"{prefix}/"))
        return path.removeprefix(prefix) or "/" if inside else path

    def _refusal(self, request: HttpRequest, own: bool, as_json: bool) -> HttpResponse | None:
        if not own and (problem := host_problem(request.headers, self._names)):
            return self._failure(HTTPStatus.MISDIRECTED_REQUEST, problem, as_json)
        try:
            if may_read(request.headers, self._config):
                return None
        except SecretError as error:
            self._warn("the status site refuses everyone, because its secret cannot be read", error=str(error))
            detail = "the token or password of the status site cannot be read; see flinkwatch's log"
            return self._failure(HTTPStatus.SERVICE_UNAVAILABLE, detail, as_json)
        scheme = "Basic" if self._config.has_password else "Bearer"
        login = f'{scheme} realm="flinkwatch"'
        return self._failure(HTTPStatus.UNAUTHORIZED, "a login is needed", as_json, login=login)

    def _answer(self, path: str, request: HttpRequest, as_json: bool) -> HttpResponse:
        inner = path.removeprefix(API) if path.startswith(f"{API}/") else "" if as_json else path
        if as_json and inner == "/schema.json":
            return answers.document(schema_text().encode(), request.headers)
        route, name = _route(inner, as_json)
        if route is None:
            return self._failure(HTTPStatus.NOT_FOUND, "there is no such path", as_json)
        query = parse(request.query, tuple(one for one in route.parameters if one != "refresh" or not as_json))
        if route.waits and (reason := self._sources.incomplete()):
            return self._failure(HTTPStatus.SERVICE_UNAVAILABLE, f"the topics are still read: {reason}", as_json)
        if not self._turn.acquire(timeout=_WAIT_S):
            return self._failure(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are asked for at once", as_json)
        try:
            return self._show(route, name, query, request.headers, path)
        finally:
            self._turn.release()

    def _show(self, route: SitePath, name: str, query: SiteQuery, headers: Message, path: str) -> HttpResponse:
        as_json, prefix = path.startswith(API), self._config.prefix
        document = route.view(self._sources, name, query, f"{prefix}{path}")
        if document is None:
            detail = f"{route.view.__name__.replace('_', ' ')} not found"
            return self._failure(HTTPStatus.NOT_FOUND, detail, as_json)
        if as_json:
            return answers.document(_encode(document), headers)
        refreshes = "refresh" in route.parameters
        asked = pages.PageRequest(
            prefix=prefix,
            path=path,
            query=query,
            now=self._sources.now_ms(),
            refreshes=refreshes,
            runbook_base_url=self._sources.runbook_base_url,
            flink_ui_url=self._sources.flink_ui_url,
        )
        again = (("Refresh", str(pages.REFRESH_S)),) if refreshes and query.refresh != "off" else ()
        return answers.page(route.page(document, asked), headers=again)

    def _warn(self, event: str, **fields: object) -> None:
        """Log at most one warning a minute, since anyone may send requests."""
        now = time.monotonic()
        if now >= self._quiet_until:
            self._quiet_until = now + _WARN_EVERY_S
            log.warning(event, **fields)

    def _failure(
        self, status: HTTPStatus, detail: str, as_json: bool, allowed: list[str] | None = None, login: str = ""
    ) -> HttpResponse:
        prefix = self._config.prefix
        return answers.failure(status, detail, as_json=as_json, prefix=prefix, allowed=allowed, login=login)


def _route(path: str, as_json: bool) -> tuple[SitePath | None, str]:
    """The route of a path, and the name in it."""
    for route in SITE_PATHS:
        pattern = route.document if as_json else route.path
        if not pattern.endswith("/") or pattern == "/":
            if path == pattern:
                return route, ""
        elif path.startswith(pattern) and path != pattern:
            return route, unquote(path.removeprefix(pattern))
    return None, ""
