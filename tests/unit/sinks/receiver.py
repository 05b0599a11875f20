"""An HTTP server that takes POSTs, keeps them and answers as told: what a webhook's owner would run."""

import json
import threading
from collections import deque
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Listens on 127.0.0.1 until `close`. `answers` are given first, then 200."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: deque[tuple[int, Mapping[str, str]]] = deque()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.receiver.received.append(Received(self.path, dict(self.headers.items()), body))
        status, headers = self.receiver.answers.popleft() if self.receiver.answers else (200, {})
        if status == 0:
            # No answer at all.
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.receiver.received.append(Received("GET " + self.path, dict(self.headers.items()), b""))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: `received` has it all."""
