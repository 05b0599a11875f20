"""A server that answers as Prometheus does, for what a real one rarely does."""

import json
import re
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


class Answers:
    """Listens on 127.0.0.1. `failures` (status, body) are answered first; a status of 0 closes the connection.

    `scrapes` are (metric, labels, epoch ms); more of them than `most` are refused, as with --query.max-samples.
    """

    def __init__(self) -> None:
        self.scrapes: list[tuple[str, dict[str, str], int]] = []
        self.most = 10_000
        self.failures: deque[tuple[int, bytes]] = deque()
        self.paths: list[str] = []
        self.questions: list[list[str]] = []
        self.authorizations: list[str | None] = []
        handler = type("Handler", (_Handler,), {"answers": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(urlsplit(one).path == path for one in self.paths)

    def answer(self, path: str, asked: dict[str, list[str]]) -> tuple[int, Any]:
        if path.startswith("/api/v1/label/"):
            self.questions.append(asked["match[]"])
            return 200, sorted({name for name, _, _ in self.scrapes})
        self.questions.append(asked["query"])
        found = re.search(r"\[(\d+)ms\]", asked["query"][0])
        assert found is not None
        end = round(float(asked["time"][0]) * 1000)
        inside = [one for one in self.scrapes if end - int(found[1]) <= one[2] <= end]
        if len(inside) > self.most:
            return 422, "query processing would load too many samples into memory in query execution"
        return 200, {"result": [{"metric": {"__name__": n, **k}, "values": [[at / 1000, "1"]]} for n, k, at in inside]}


class _Handler(BaseHTTPRequestHandler):
    answers: Answers

    def do_GET(self) -> None:
        self._answer(parse_qs(urlsplit(self.path).query))

    def do_POST(self) -> None:
        self._answer(parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))

    def _answer(self, asked: dict[str, list[str]]) -> None:
        answers = self.answers
        answers.paths.append(self.path)
        answers.authorizations.append(self.headers.get("Authorization"))
        if answers.failures:
            status, body = answers.failures.popleft()
        else:
            status, data = answers.answer(urlsplit(self.path).path, asked)
            document = {"data": data} if status == 200 else {"errorType": "execution", "error": data}
            body = json.dumps({"status": "success" if status == 200 else "error", **document}).encode()
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", body.decode())
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: `paths` has it all."""
