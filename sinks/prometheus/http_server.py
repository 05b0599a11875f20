"""The HTTP server: /metrics for Prometheus, /-/healthy and /-/ready for orchestrators, and the status site, if any."""

import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import structlog
from prometheus_client import GC_COLLECTOR, PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from pydantic import BaseModel, ConfigDict, Field

from sinks.prometheus.bounded_server import BoundedServer
from sinks.prometheus.catalogue import scraped
from sinks.web.site.exchange import HttpRequest, HttpResponse, Responder

log = structlog.get_logger()

ReadinessCheck = Callable[[], str | None]
"""Returns why something is not ready, or None if it is ready. It must return at once and not raise."""

_TEXT = "text/plain; charset=utf-8"
_INDEX = b"""<!doctype html><title>flinkwatch</title><h1>flinkwatch</h1>
<p><a href="/metrics">Metrics</a> &middot; <a href="/-/healthy">healthy</a> &middot; <a href="/-/ready">ready</a></p>
"""


class PrometheusConfig(BaseModel):
    """The HTTP server with /metrics, /-/healthy and /-/ready."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="Whether to start the HTTP server.")
    address: str = Field(
        default="0.0.0.0",  # noqa: S104  # nosec B104 - Prometheus scrapes from another host
        description="Address to listen on. Use 127.0.0.1 to allow access only from this host.",
    )
    port: int = Field(default=9108, ge=0, le=65535, description="TCP port to listen on. 0 selects a free port.")


class Readiness(Collector):
    """The checks of /-/ready, also as metrics, because an orchestrator's probe sends no alerts."""

    def __init__(self) -> None:
        self._checks: dict[str, ReadinessCheck] = {}

    def add(self, name: str, check: ReadinessCheck) -> None:
        self._checks[name] = check

    def answers(self) -> list[tuple[str, str | None]]:
        return [(name, check()) for name, check in list(self._checks.items())]

    def collect(self) -> Iterator[Metric]:
        yield scraped("ready", [((name,), float(problem is None)) for name, problem in self.answers()])

    def describe(self) -> Iterator[Metric]:
        """Nothing, because registration must not run the checks."""
        return iter(())


class StatusServer:
    """Serves the metrics in `registry`, to which the job and delivery add their collectors."""

    def __init__(self, config: PrometheusConfig) -> None:
        self._config = config
        self._readiness = Readiness()
        self.registry = CollectorRegistry()
        for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR, self._readiness):
            self.registry.register(collector)
        self._remarks: dict[str, ReadinessCheck] = {}
        self._incomplete: ReadinessCheck = lambda: None
        self._site: Responder = lambda _: None
        self.server: BoundedServer | None = None
        self._thread: threading.Thread | None = None

    def add_readiness_check(self, name: str, check: ReadinessCheck) -> None:
        """/-/ready returns 200 only while every check returns None."""
        self._readiness.add(name, check)

    def add_remark(self, name: str, check: ReadinessCheck) -> None:
        """Show the text of `check` on /-/ready without failing it, for problems that a restart does not fix."""
        self._remarks[name] = check

    def hold_metrics_while(self, incomplete: ReadinessCheck) -> None:
        """Make /metrics return 503 while `incomplete` gives a reason: missing incidents would resolve alerts."""
        self._incomplete = incomplete

    def add_site(self, site: Responder) -> None:
        """Have `site` answer first; requests that it leaves are answered by this server."""
        self._site = site

    def checks(self) -> list[tuple[str, str | None]]:
        """All checks and remarks of /-/ready, with the reason of each that does not pass."""
        return [*self._readiness.answers(), *((name, remark()) for name, remark in list(self._remarks.items()))]

    @property
    def port(self) -> int:
        """The port on which the server listens; 0 while it does not."""
        return int(self.server.server_address[1]) if self.server is not None else 0

    def start(self) -> None:
        """Start to listen, if not yet started. Raises OSError with address and port."""
        if self.server is not None:
            return
        address = (self._config.address, self._config.port)
        handler = type("Handler", (_StatusHandler,), {"page": self})
        try:
            server = BoundedServer(address, handler)
        except OSError as error:
            reason = f"sinks.prometheus: cannot listen on {address[0]}:{address[1]}: {error.strerror}"
            raise OSError(error.errno, reason) from error
        self.server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics page", daemon=True)
        self._thread.start()
        log.info("HTTP server is listening", address=address[0], port=self.port)

    def stop(self) -> None:
        if self.server is not None and self._thread is not None:
            self.server.shutdown()
            self.server.server_close()
            self._thread.join(timeout=2)
            self.server = self._thread = None

    def respond(self, request: HttpRequest) -> HttpResponse:
        """The response of the site, or this server's own."""
        if (response := self._site(request)) is not None:
            return response
        status, content_type, body = self.answer(request.path, request.headers.get("Accept", ""))
        return HttpResponse(status, (("Content-Type", content_type),), body)

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        match path:
            case "/metrics":
                if reason := self._incomplete():
                    return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{reason}\n".encode()
                encode, content_type = choose_encoder(accept)
                return HTTPStatus.OK, content_type, encode(self.registry)
            case "/-/healthy":
                return HTTPStatus.OK, _TEXT, b"flinkwatch is healthy\n"
            case "/-/ready":
                return self._ready()
            case "/":
                return HTTPStatus.OK, "text/html; charset=utf-8", _INDEX
            case _:
                return HTTPStatus.NOT_FOUND, _TEXT, b"not found\n"

    def _ready(self) -> tuple[HTTPStatus, str, bytes]:
        problems = [f"{name}: {problem}\n" for name, problem in self._readiness.answers() if problem is not None]
        answered = [(name, remark()) for name, remark in list(self._remarks.items())]
        remarks = [f"{name}: {text}\n" for name, text in answered if text is not None]
        status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
        return status, _TEXT, "".join([*(problems or ["flinkwatch is ready\n"]), *remarks]).encode()


class _StatusHandler(BaseHTTPRequestHandler):
    page: StatusServer
    server_version = "flinkwatch"
    sys_version = ""
    server: BoundedServer

    def do_GET(self) -> None:
        self.server.asked(self.connection)
        try:
            parts = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "Malformed URI")
            return
        response = self.page.respond(HttpRequest(parts.path, parts.query, self.headers))
        self.send_response(response.status)
        for name, value in response.headers:
            self.send_header(name, value)
        if response.status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        """Refuse the request, as for all methods but GET and HEAD."""
        self.send_response(HTTPStatus.METHOD_NOT_ALLOWED)
        self.send_header("Allow", "GET, HEAD")
        self.send_header("Content-Length", "0")
        # The body is not read, so it must not be parsed as the next request.
        self.send_header("Connection", "close")
        self.end_headers()

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST  # noqa: N815 - the base class names them so

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Do not log requests, since there is a scrape every few seconds."""
