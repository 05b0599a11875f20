"""The page under clients that mean no good: connections are bounded in number and in time, and scrapes are answered."""

import errno
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from structlog.testing import capture_logs

from sinks.prometheus import bounded_server
from sinks.prometheus.bounded_server import MOST_CONNECTIONS, BoundedServer
from sinks.prometheus.http_server import PrometheusConfig, StatusServer


@pytest.fixture
def page() -> Iterator[StatusServer]:
    made = StatusServer(PrometheusConfig(address="127.0.0.1", port=0))
    made.start()
    yield made
    made.stop()


def connect(page: StatusServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", page.port), timeout=30)


def get(page: StatusServer, path: str = "/metrics") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=30)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def server(page: StatusServer) -> BoundedServer:
    assert page.server is not None
    return page.server


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def handlers() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def test_a_thousand_idle_connections_take_a_bounded_number_of_handlers_and_scrapes_are_answered(
    page: StatusServer,
) -> None:
    with ExitStack() as idle:
        for number in range(1_000):
            idle.enter_context(closing(connect(page)))
            if number % 100 == 99:
                assert get(page) == 200
                assert handlers() <= MOST_CONNECTIONS
        assert server(page).connections() <= MOST_CONNECTIONS
    eventually(lambda: server(page).connections() == 0)


def test_a_request_that_comes_byte_by_byte_ends_at_its_deadline(
    page: StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte is quick enough for a limit on silence; all of them together are not."""
    monkeypatch.setattr(bounded_server, "REQUEST_WITHIN_S", 0.5)

    def trickle(client: socket.socket) -> None:
        for byte in b"GET /metrics HTTP/1.1\r\nX-Slow: " + b"a" * 3_000:
            client.sendall(bytes([byte]))
            threading.Event().wait(0.01)

    with closing(connect(page)) as slow, pytest.raises(OSError, match=r"reset|[Bb]roken pipe"):
        trickle(slow)
    assert get(page) == 200


def test_a_client_that_does_not_read_its_answer_ends_at_its_deadline(
    page: StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "ANSWER_WITHIN_S", 0.5)
    monkeypatch.setattr(page, "answer", lambda _path, _accept: (200, "text/plain", b"x" * 50_000_000))
    with closing(connect(page)) as slow:
        slow.sendall(b"GET / HTTP/1.0\r\n\r\n")
        eventually(lambda: server(page).connections() == 1)
        eventually(lambda: server(page).connections() == 0)


def test_slow_clients_do_not_push_out_one_that_has_asked(page: StatusServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a scrape is answered, idle clients take each other's place and not its own."""
    begun, go = threading.Event(), threading.Event()
    answer = page.answer

    def slow(path: str, accept: str) -> object:
        begun.set()
        assert go.wait(30)
        return answer(path, accept)

    monkeypatch.setattr(page, "answer", slow)
    with closing(connect(page)) as scrape, ExitStack() as idle:
        scrape.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
        assert begun.wait(30)
        for _ in range(3 * MOST_CONNECTIONS):
            idle.enter_context(closing(connect(page)))
        go.set()
        assert scrape.makefile("rb").readline() == b"HTTP/1.0 200 OK\r\n"


def test_a_failing_accept_does_not_spin_and_the_page_comes_back(
    page: StatusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the process has no descriptor left."""
    failures = []

    def refuse(_: socket.socket) -> object:
        failures.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    with capture_logs() as logs, monkeypatch.context() as patch, closing(connect(page)) as waiting:
        eventually(lambda: server(page).connections() == 1)
        patch.setattr(socket.socket, "accept", refuse)
        with closing(connect(page)):
            eventually(lambda: len(failures) >= 4)
        assert failures[3] - failures[0] > 0.5
        # The idle client was closed for its descriptor.
        assert waiting.recv(1) == b""
    assert [line["event"] for line in logs] == ["cannot accept a connection"]
    assert get(page) == 200


@pytest.mark.parametrize("target", ["http://[::1", "http://[::1/metrics"])
def test_a_malformed_address_is_the_clients_mistake(
    page: StatusServer, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(connect(page)) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert client.makefile("rb").readline().startswith(b"HTTP/1.0 400 ")
    assert capsys.readouterr().err == ""


def test_a_client_that_has_gone_and_one_that_talks_rubbish_leave_no_traceback(
    page: StatusServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in (b"", b"\x16\x03\x01", b"GET /metrics HTTP/9.9\r\n\r\n", b"\x00" * 70_000):
        with closing(connect(page)) as client:
            client.sendall(text)
    eventually(lambda: server(page).connections() == 0)
    assert capsys.readouterr().err == ""
    assert get(page) == 200
