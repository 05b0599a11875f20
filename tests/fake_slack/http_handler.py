"""The HTTP handler of the fake Slack: bodies in three forms, uploads, and connections that break."""

import json
import socket
import struct
from collections.abc import Mapping
from email.message import Message as MimeMessage
from email.parser import BytesParser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Protocol
from urllib.parse import parse_qsl, urlsplit

from tests.fake_slack.objects import Body, Fault


class Slack(Protocol):
    """What answers."""

    def handle(self, method: str, body: Body, token: str) -> tuple[Fault | None, Body]:
        """A fault to act out, or none, and the body."""

    def take_answer(self, user: str, body: Body) -> None:
        """An answer to one person."""

    def press(self, ts: str, wish: str, *, choice: str = "") -> object:
        """A person presses a button."""

    def wait_silently(self, seconds: float) -> None:
        """Waits, but not beyond the server's end."""

    def show(self, path: str) -> tuple[str, bytes] | None:
        """Content type and content of a page, None when there is none."""


class Handler(BaseHTTPRequestHandler):
    """One request; `slack` is set by the server."""

    slack: Slack
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        shown = self.slack.show(urlsplit(self.path).path)
        if shown is None:
            self._send(HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain"}, b"not found\n")
        else:
            content_type, content = shown
            self._send(HTTPStatus.OK, {"Content-Type": content_type}, content)

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if path.startswith("/upload/"):
            self._take_file(path.removeprefix("/upload/"))
            return
        if path.startswith("/answer/"):
            self.slack.take_answer(path.split("/")[2], self._body())
            self._send(HTTPStatus.OK, {"Content-Type": "text/plain"}, b"ok")
            return
        if path == "/press":
            self._press(self._body())
            return
        body = self._body()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or str(body.pop("token", ""))
        method = path.removeprefix("/api/")
        fault, answer = self.slack.handle(method, body, token)
        if fault is not None and (fault.reset or fault.silent_s):
            self._break_off(fault)
            return
        status = fault.status if fault is not None and fault.status is not None else HTTPStatus.OK
        headers = {"Content-Type": "application/json; charset=utf-8", **(fault.headers if fault is not None else {})}
        self._send(status, headers, json.dumps(answer).encode())

    def _press(self, body: Body) -> None:
        """A button of the page."""
        try:
            self.slack.press(str(body["ts"]), str(body["wish"]), choice=str(body.get("choice", "")))
        except (AssertionError, LookupError, StopIteration):
            self._send(HTTPStatus.BAD_REQUEST, {"Content-Type": "text/plain"}, b"no such button")
        else:
            self._send(HTTPStatus.OK, {"Content-Type": "text/plain"}, b"ok")

    def _take_file(self, name: str) -> None:
        """The upload itself: the bytes alone, the address is the permission."""
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault, answer = self.slack.handle("upload", {"file": name, "content": content}, "")
        if fault is not None and (fault.reset or fault.silent_s):
            self._break_off(fault)
            return
        failed = HTTPStatus.BAD_REQUEST if fault is None or fault.status is None else fault.status
        status = HTTPStatus.OK if answer["ok"] else failed
        self._send(status, {"Content-Type": "text/plain"}, f"{HTTPStatus(status).phrase} - {len(content)}".encode())

    def _body(self) -> Body:
        """Parameters of a JSON, form or multipart body; in the last two, blocks and metadata are JSON texts."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content_type = self.headers.get("Content-Type", "")
        if content_type.startswith("application/json"):
            parsed = json.loads(raw) if raw else {}
            return parsed if isinstance(parsed, dict) else {}
        if content_type.startswith("multipart/form-data"):
            parameters = _multipart(content_type, raw)
        else:
            parameters = dict(parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True))
        for name in ("blocks", "attachments", "metadata", "files"):
            if name in parameters:
                parameters[name] = json.loads(parameters[name])
        return parameters

    def _break_off(self, fault: Fault) -> None:
        if fault.silent_s:
            self.slack.wait_silently(fault.silent_s)
        if fault.reset:
            # Closing with linger 0 sends RST and no FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        self.close_connection = True

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: `calls` has it all."""


def _multipart(content_type: str, raw: bytes) -> Body:
    parsed: MimeMessage = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + raw)
    parts = parsed.get_payload()
    found: Body = {}
    for part in parts if isinstance(parts, list) else []:
        name = part.get_param("name", header="content-disposition") if isinstance(part, MimeMessage) else None
        if isinstance(name, str) and isinstance(part, MimeMessage):
            content = part.get_payload(decode=True)
            found[name] = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
    return found
