"""The status site on its HTTP server: what a client gets, methods, HEAD, 304, and the paths that stay as they were."""

import http.client
from collections.abc import Iterator
from contextlib import closing

import pytest

from sinks.prometheus.http_server import PrometheusConfig, StatusServer
from tests.unit.sinks.web.site.filled import FilledSite


@pytest.fixture
def port(filled: FilledSite) -> Iterator[int]:
    server = StatusServer(PrometheusConfig(address="127.0.0.1", port=0))
    server.add_site(filled.site.respond)
    server.start()
    filled.add_incident("i")
    yield server.port
    server.stop()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        found = connection.getresponse()
        return found.status, dict(found.headers), found.read()


def test_a_page_and_its_document_arrive_whole(port: int) -> None:
    status, headers, body = ask(port, "/")
    assert (status, int(headers["Content-Length"])) == (200, len(body))
    assert b"/incidents/i" in body
    assert ask(port, "/api/v1/incidents")[1]["Content-Type"] == "application/json"


def test_head_has_the_headers_and_no_body(port: int) -> None:
    whole, head = ask(port, "/api/v1/history"), ask(port, "/api/v1/history", "HEAD")
    assert (head[0], head[2]) == (200, b"")
    assert {**whole[1], "Date": ""} == {**head[1], "Date": ""}


def test_a_known_document_is_304_without_a_body(port: int) -> None:
    tag = ask(port, "/api/v1/incidents")[1]["ETag"]
    status, headers, body = ask(port, "/api/v1/incidents", If_None_Match=tag)
    assert (status, body, headers["ETag"], headers.get("Content-Length")) == (304, b"", tag, None)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(port: int, method: str) -> None:
    status, headers, _ = ask(port, "/api/v1/incidents", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


def test_a_browser_that_was_led_here_by_another_name_gets_nothing_but_scrapes_go_through(port: int) -> None:
    assert ask(port, "/", Host="evil.example")[0] == 421
    assert ask(port, "/metrics", Host="flinkwatch.monitoring.svc")[0] == 200
    assert ask(port, "/-/healthy", Host="anything")[0] == 200


def test_bytes_that_are_no_text_are_an_address_that_does_not_exist(port: int) -> None:
    for path in ("/%ff%fe", "/incidents/%00", "/clusters/%ed%a0%80"):
        assert ask(port, path)[0] == 404
