"""An HTTP server with a limit for the number and duration of connections.

The server shares its process with Spark's driver or with delivery, so clients must not be able to use up threads and
file descriptors. Each connection has one request. If all handlers are busy, a new connection replaces the oldest one
that has not sent its whole request yet. A scraper sends its request at once, so it is not replaced.
"""

import contextlib
import socket
import sys
import threading
import time
from http.server import ThreadingHTTPServer
from typing import Any

import structlog

log = structlog.get_logger()

MOST_CONNECTIONS = 50
REQUEST_WITHIN_S = 10.0
"""Time limit for a client to send its request."""
ANSWER_WITHIN_S = 60.0
"""Time limit for a client to read the response, counted from the end of the request."""

_PAUSE_S = 0.2
_WARN_EVERY_S = 60.0


class _Connection:
    """One client; `deadline` is on the monotonic clock."""

    def __init__(self, client: socket.socket) -> None:
        self.client = client
        self.asked = False
        self.hung_up = False
        self.deadline = time.monotonic() + REQUEST_WITHIN_S

    def hang_up(self) -> None:
        """Wake the thread that reads or writes. It alone closes the descriptor, so that is not reused too early."""
        self.hung_up = True
        with contextlib.suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)


class BoundedServer(ThreadingHTTPServer):
    """Handlers call `asked` once they have read their request."""

    daemon_threads = True
    # The kernel queues this many more connections while the server closes others.
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        self._connections: dict[int, _Connection] = {}
        self._changed = threading.Condition()
        self._warned_at = -_WARN_EVERY_S
        super().__init__(*args)

    def asked(self, client: socket.socket) -> None:
        """The whole request has arrived; the time limit for the response begins."""
        with self._changed:
            if connection := self._connections.get(id(client)):
                connection.asked = True
                connection.deadline = time.monotonic() + ANSWER_WITHIN_S

    def connections(self) -> int:
        return len(self._connections)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. After a failure, close another one and pause, since a retry would fail at once."""
        try:
            return super().get_request()
        except OSError as error:
            self._warn("cannot accept a connection", error=error.strerror or str(error))
            with self._changed:
                self._close_oldest()
            time.sleep(_PAUSE_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle the request in a new thread, in place of another client if all are busy."""
        with self._changed:
            if self._is_full():
                self._warn("too many connections, closing the oldest", limit=MOST_CONNECTIONS)
                self._close_oldest()
                self._changed.wait_for(lambda: not self._is_full(), timeout=_PAUSE_S)
            admitted = not self._is_full()
            if admitted:
                self._connections[id(request)] = _Connection(request)
        if not admitted:
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError as error:
            # The system has no more threads.
            self._warn("cannot handle a connection", error=str(error))
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Called at the end of every handled connection."""
        super().shutdown_request(request)
        with self._changed:
            self._connections.pop(id(request), None)
            self._changed.notify()

    def service_actions(self) -> None:
        """Called about ten times a second: closes connections that exceed their time limit."""
        with self._changed:
            for connection in self._connections.values():
                if connection.deadline < time.monotonic():
                    connection.hang_up()

    def server_close(self) -> None:
        super().server_close()
        with self._changed:
            for connection in self._connections.values():
                connection.hang_up()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class says so
        """Log an error, unless the connection was closed by the client or by this server."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self._warn("request failed", error=f"{type(error).__name__}: {error}")

    def _is_full(self) -> bool:
        return len(self._connections) >= MOST_CONNECTIONS

    def _close_oldest(self) -> None:
        """Close the oldest connection that has not sent its request, else the oldest of all."""
        held = [one for one in self._connections.values() if not one.hung_up]
        if held:
            next((one for one in held if not one.asked), held[0]).hang_up()

    def _warn(self, event: str, **fields: object) -> None:
        if time.monotonic() - self._warned_at >= _WARN_EVERY_S:
            self._warned_at = time.monotonic()
            log.warning(event, **fields)
