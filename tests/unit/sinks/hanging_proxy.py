"""A proxy in front of a receiver that passes requests on and then hangs, each in one of the ways that proxies do."""

import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Self
from urllib.parse import urlsplit

How = Literal["answers nothing", "answers with headers alone", "answers byte by byte"]
HOW: tuple[How, ...] = ("answers nothing", "answers with headers alone", "answers byte by byte")


class HangingProxy:
    """Listens on 127.0.0.1 until `close`. The first `times` requests hang; with `lets_through` they take effect."""

    def __init__(self, target: str, how: How, times: int = 1, *, lets_through: bool = True) -> None:
        self.how, self.left, self.lets_through = how, times, lets_through
        self.target = urlsplit(target)
        self.closing = threading.Event()
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The target's address by way of the proxy."""
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.target.path}"

    def hangs(self) -> bool:
        """Whether this request is one of those."""
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    proxy: HangingProxy

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hangs = self.proxy.hangs()
        if hangs and not self.proxy.lets_through:
            self._hang()
            return
        target = http.client.HTTPConnection(self.proxy.target.hostname or "", self.proxy.target.port or 80, timeout=30)
        target.request(self.command, self.path, body, dict(self.headers.items()))
        answer = target.getresponse()
        content = answer.read()
        target.close()
        if hangs:
            self._hang()
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _hang(self) -> None:
        if self.proxy.how != "answers nothing":
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.flush()
        while not self.proxy.closing.wait(0.2):
            if self.proxy.how == "answers byte by byte":
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing."""
