"""A local stand-in for Slack's web API, for the demo and for tests: it stores messages and shows them on a page.

It behaves as Slack's documentation says where the project depends on it: a name will do for posting but editing needs
the channel ID, an edit without blocks keeps the old ones, errors are `ok: false` with status 200, limits are checked.

    with SlackServer(channels=("flink-alerts",)) as server:
        client = WebClient(token=TOKEN, base_url=server.base_url)
        server.fail_next("chat.postMessage", status=429, headers={"Retry-After": "1"})
"""

import itertools
import json
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message as MimeMessage
from email.parser import BytesParser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from streaming.demo.slack_limits import blocks_problem
from streaming.demo.slack_page import fragment, page

TOKEN = "xoxb-local-stand-in"  # noqa: S105 - the stand-in's own, worth nothing elsewhere

_BOT_USER = "U0FLINKWATCH"
_TEXT_LIMIT = 40_000
_HISTORY_DEFAULT = 100

Body = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One request as it came in; `at` is wall-clock time in seconds."""

    method: str
    at: float
    body: Body


@dataclass
class Posted:
    """A message that stands in a channel."""

    channel: str
    ts: str
    text: str = ""
    blocks: list[Any] = field(default_factory=list)
    thread_ts: str | None = None
    metadata: Any = None
    edited_ts: str | None = None

    def as_slack(self, with_metadata: bool) -> Body:
        """The message as Slack's API gives it back."""
        message: Body = {"type": "message", "user": _BOT_USER, "bot_id": "B0FLINKWATCH", "ts": self.ts}
        message |= {"text": self.text, "blocks": self.blocks}
        if self.thread_ts is not None:
            message["thread_ts"] = self.thread_ts
        if self.edited_ts is not None:
            message["edited"] = {"user": _BOT_USER, "ts": self.edited_ts}
        if with_metadata and self.metadata is not None:
            message["metadata"] = self.metadata
        return message


@dataclass(frozen=True)
class _Fault:
    status: int | None
    headers: Mapping[str, str]
    error: str
    silent_s: float
    reset: bool
    accept: bool


class SlackServer:
    """Listens on 127.0.0.1 from construction until `close`. All of it may be used from any thread."""

    def __init__(
        self,
        channels: Sequence[str] = ("flink-alerts",),
        token: str = TOKEN,
        port: int = 0,
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        """`port` 0 takes a free one. `on_call` runs in the request's thread, after the answer was decided."""
        self.calls: list[Call] = []
        self.messages: list[Posted] = []
        self._channels = {name.lstrip("#"): f"C{number:010d}" for number, name in enumerate(channels, 1)}
        self._token = token
        self.on_call = on_call
        self._faults: defaultdict[str, deque[_Fault]] = defaultdict(deque)
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._closing = threading.Event()
        handler = type("Handler", (_Handler,), {"slack": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="slack", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The page that shows the channel."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def base_url(self) -> str:
        """What SlackConfig.base_url takes."""
        return f"{self.url}api/"

    def channel_id(self, name: str) -> str:
        """The ID of a channel."""
        return self._channels[name.lstrip("#")]

    def close(self) -> None:
        """Stops; requests that are kept waiting end without an answer."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def fail_next(
        self,
        method: str,
        *,
        error: str = "internal_error",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        silent_s: float = 0.0,
        reset: bool = False,
        accept: bool = False,
        times: int = 1,
    ) -> None:
        """Makes the next `times` calls of `method` fail.

        With `error` alone the answer is `ok: false`; `status` and `headers` change the HTTP answer. `silent_s`: no
        answer, the connection is closed after that many seconds. `reset`: it is reset at once. `accept`: the call
        takes effect nevertheless, only its answer is lost.
        """
        fault = _Fault(status, dict(headers or {}), error, silent_s, reset, accept)
        with self._lock:
            self._faults[method].extend([fault] * times)

    def parents(self) -> list[Posted]:
        """The messages of the channel, without replies, oldest first."""
        with self._lock:
            return [message for message in self.messages if message.thread_ts is None]

    def replies(self, ts: str) -> list[Posted]:
        """The replies in the thread of `ts`, oldest first."""
        with self._lock:
            return [message for message in self.messages if message.thread_ts == ts]

    def delete(self, ts: str) -> None:
        """Removes a message, as a person in Slack can."""
        with self._lock:
            self.messages = [message for message in self.messages if message.ts != ts]

    # What follows is for the request handler.

    def handle(self, method: str, body: Body, token: str) -> tuple[_Fault | None, Body]:
        """What to answer: a fault to act out, or none, and the body."""
        with self._lock:
            call = Call(method, time.time(), body)
            self.calls.append(call)
            fault = self._faults[method].popleft() if self._faults[method] else None
            if fault is not None and not fault.accept:
                answer: Body = {"ok": False, "error": fault.error}
            else:
                answer = self._answer(method, body, token)
        if self.on_call is not None:
            self.on_call(call)
        return fault, answer

    def wait_silently(self, seconds: float) -> None:
        """Waits, but not beyond `close`."""
        self._closing.wait(seconds)

    def show(self, path: str) -> tuple[str, str] | None:
        """Content type and text of a page, None when there is none."""
        with self._lock:
            channels = {identifier: name for name, identifier in self._channels.items()}
            messages = [
                message.as_slack(with_metadata=True) | {"channel": message.channel} for message in self.messages
            ]
        match path:
            case "/":
                return "text/html", page(messages, channels)
            case "/fragment":
                return "text/html", fragment(messages, channels)
            case "/messages.json":
                return "application/json", json.dumps(messages, ensure_ascii=False, indent=1)
            case _:
                return None

    def _answer(self, method: str, body: Body, token: str) -> Body:
        if not token:
            return _error("not_authed")
        if token != self._token:
            return _error("invalid_auth")
        methods: dict[str, Callable[[Body], Body]] = {
            "auth.test": self._auth_test,
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "conversations.history": self._history,
            "conversations.replies": self._replies,
        }
        return methods[method](body) if method in methods else _error("unknown_method")

    def _auth_test(self, _: Body) -> Body:
        return {"ok": True, "url": self.url, "team": "Local", "user": "flinkwatch", "user_id": _BOT_USER}

    def _post(self, body: Body) -> Body:
        name = str(body.get("channel", "")).lstrip("#")
        channel = self._channels.get(name) or (name if name in self._channels.values() else None)
        if channel is None:
            return _error("channel_not_found")
        problem = _content_problem(body)
        if problem:
            return _error(problem)
        thread_ts = body.get("thread_ts")
        if thread_ts is not None and self._find(channel, str(thread_ts)) is None:
            return _error("thread_not_found")
        message = Posted(channel, self._new_ts(), thread_ts=thread_ts, metadata=body.get("metadata"))
        message.text, message.blocks = str(body.get("text", "")), list(body.get("blocks") or [])
        self.messages.append(message)
        return {"ok": True, "channel": channel, "ts": message.ts, "message": message.as_slack(with_metadata=False)}

    def _update(self, body: Body) -> Body:
        channel = str(body.get("channel", ""))
        if channel not in self._channels.values():
            return _error("channel_not_found")
        message = self._find(channel, str(body.get("ts", "")))
        if message is None:
            return _error("message_not_found")
        problem = _content_problem(body)
        if problem:
            return _error(problem)
        message.text = str(body.get("text", message.text))
        message.blocks = list(body["blocks"]) if body.get("blocks") is not None else message.blocks
        message.metadata = body.get("metadata", message.metadata)
        message.edited_ts = self._new_ts()
        return {"ok": True, "channel": channel, "ts": message.ts, "text": message.text}

    def _history(self, body: Body) -> Body:
        channel = str(body.get("channel", ""))
        if channel not in self._channels.values():
            return _error("channel_not_found")
        oldest, limit = float(body.get("oldest", 0)), int(body.get("limit", _HISTORY_DEFAULT))
        found = [m for m in self.parents() if m.channel == channel and float(m.ts) > oldest]
        # Newest first, as Slack does.
        return _page_of(found[::-1], limit, body)

    def _replies(self, body: Body) -> Body:
        channel, ts = str(body.get("channel", "")), str(body.get("ts", ""))
        if channel not in self._channels.values():
            return _error("channel_not_found")
        parent = self._find(channel, ts)
        if parent is None:
            return _error("thread_not_found")
        return _page_of([parent, *self.replies(ts)], int(body.get("limit", _HISTORY_DEFAULT)), body)

    def _find(self, channel: str, ts: str) -> Posted | None:
        return next((m for m in self.messages if m.channel == channel and m.ts == ts), None)

    def _new_ts(self) -> str:
        return f"{int(time.time())}.{next(self._numbers):06d}"


def _error(code: str) -> Body:
    return {"ok": False, "error": code}


def _page_of(messages: list[Posted], limit: int, body: Body) -> Body:
    with_metadata = str(body.get("include_all_metadata", "")).lower() in {"1", "true"}
    shown = [message.as_slack(with_metadata) for message in messages[:limit]]
    return {"ok": True, "messages": shown, "has_more": len(messages) > limit}


def _content_problem(body: Body) -> str:
    text, blocks = str(body.get("text") or ""), body.get("blocks")
    if not text and not blocks and not body.get("attachments"):
        return "no_text"
    if len(text) > _TEXT_LIMIT:
        return "msg_too_long"
    return blocks_problem(blocks) if blocks else ""


class _Handler(BaseHTTPRequestHandler):
    slack: SlackServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        shown = self.slack.show(urlsplit(self.path).path)
        if shown is None:
            self._send(HTTPStatus.NOT_FOUND, {"Content-Type": "text/plain"}, b"not found\n")
        else:
            content_type, text = shown
            self._send(HTTPStatus.OK, {"Content-Type": f"{content_type}; charset=utf-8"}, text.encode())

    def do_POST(self) -> None:
        body = self._body()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ") or str(body.pop("token", ""))
        method = urlsplit(self.path).path.removeprefix("/api/")
        fault, answer = self.slack.handle(method, body, token)
        if fault is not None and (fault.reset or fault.silent_s):
            self._break_off(fault)
            return
        status = fault.status if fault is not None and fault.status is not None else HTTPStatus.OK
        headers = {"Content-Type": "application/json; charset=utf-8", **(fault.headers if fault is not None else {})}
        self._send(status, headers, json.dumps(answer).encode())

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
        for name in ("blocks", "attachments", "metadata"):
            if name in parameters:
                parameters[name] = json.loads(parameters[name])
        return parameters

    def _break_off(self, fault: _Fault) -> None:
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
