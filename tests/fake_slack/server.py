"""A local fake of Slack's web API, for the demo and for tests: it stores messages and shows them on a page.

It behaves as Slack's documentation says where the project depends on it: a name will do for posting but editing needs
the channel ID, an edit without blocks keeps the old ones, errors are `ok: false` with status 200, limits are checked.

    with SlackServer(channels=("flink-alerts",)) as server:
        client = WebClient(token=TOKEN, base_url=server.base_url)
        server.fail_next("chat.postMessage", status=429, headers={"Retry-After": "1"})
"""

import itertools
import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from typing import Any, Self

from tests.fake_slack.http_handler import Handler
from tests.fake_slack.objects import TEAM, Body, Call, Fault, Posted, Upload, buttons
from tests.fake_slack.page import fragment, page
from tests.fake_slack.rates import Rates
from tests.fake_slack.socket_mode import Envelope, SocketMode
from tests.fake_slack.workspace import Workspace, error

TOKEN = "xoxb-local-stand-in"  # nosec B105 - the stand-in's own, worth nothing elsewhere
APP_TOKEN = "xapp-local-stand-in"  # nosec B105 - the same

__all__ = ["APP_TOKEN", "TOKEN", "Body", "Call", "Posted", "SlackServer", "Upload"]

_HTML = "text/html; charset=utf-8"


class SlackServer:
    """Listens on 127.0.0.1 from construction until `close`. All of it may be used from any thread."""

    def __init__(
        self,
        channels: Sequence[str] = ("flink-alerts",),
        token: str = TOKEN,
        port: int = 0,
        on_call: Callable[[Call], None] | None = None,
        limits: bool = False,
    ) -> None:
        """`port` 0 takes a free one. `on_call` runs in the request's thread, after the answer was decided. `limits`:
        Slack's rate limits are kept.
        """
        self.calls: list[Call] = []
        self.on_call = on_call
        self._rates = Rates() if limits else None
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._lock = threading.RLock()
        self._closing = threading.Event()
        handler = type("OurHandler", (Handler,), {"slack": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self.sockets = SocketMode()
        self._workspace = Workspace(channels, token, self.url)
        self.answers: list[Body] = []
        """What was answered to people, ephemeral messages with the user."""
        self._answered = threading.Condition(self._lock)
        self._asked = itertools.count(1)
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
        return self._workspace.channels[name.lstrip("#")]

    def close(self) -> None:
        """Stops; requests that are kept waiting end without an answer."""
        self._closing.set()
        self.sockets.close()
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
        fault = Fault(status, dict(headers or {}), error, silent_s, reset, accept)
        with self._lock:
            self._faults[method].extend([fault] * times)

    def forgive(self) -> None:
        """Takes back all faults that are still to come."""
        with self._lock:
            self._faults.clear()

    @property
    def messages(self) -> list[Posted]:
        """All messages of the channels, including replies, oldest first."""
        with self._lock:
            return list(self._workspace.messages)

    def parents(self) -> list[Posted]:
        """The messages of the channel, without replies, oldest first."""
        with self._lock:
            return self._workspace.parents()

    def replies(self, ts: str) -> list[Posted]:
        """The replies in the thread of `ts`, oldest first."""
        with self._lock:
            return self._workspace.replies(ts)

    def file(self, name: str) -> Upload:
        """A file by its ID. KeyError: there is none."""
        with self._lock:
            return self._workspace.files[name]

    def delete(self, ts: str) -> None:
        """Removes a message, as a person in Slack can."""
        with self._lock:
            self._workspace.messages = [message for message in self._workspace.messages if message.ts != ts]

    def take_scope(self, scope: str) -> None:
        """Takes a permission from the app, as an installation without it."""
        with self._lock:
            self._workspace.scopes.discard(scope)

    def add_group(self, group: str, users: list[str]) -> None:
        """Makes a user group with these members."""
        with self._lock:
            self._workspace.groups[group] = users

    def remove_bot(self, channel: str) -> None:
        """Removes the bot from a channel."""
        with self._lock:
            self._workspace.left.add(self.channel_id(channel))

    def invite_bot(self, channel: str) -> None:
        """Takes the bot into a channel again."""
        with self._lock:
            self._workspace.left.discard(self.channel_id(channel))

    def press(
        self,
        ts: str,
        wish: str,
        *,
        choice: str = "",
        user: str = "U0ANN",
        name: str = "ann",
        envelope_id: str = "",
        **changes: Any,
    ) -> Envelope:
        """A person presses a button of message `ts`, or chooses `choice` of its menu. `changes` replace fields.

        AssertionError: the message has no such button.
        """
        message = next(one for one in self.messages if one.ts == ts)
        element = next((one for one in buttons(message.blocks) if one["action_id"].endswith(f"_{wish}")), None)
        assert element is not None, f"no button {wish} in {buttons(message.blocks)}"
        action = {"type": element["type"], "block_id": "flinkwatch", "action_id": element["action_id"]}
        action["action_ts"] = f"{time.time():.6f}"
        if element["type"] == "static_select":
            option = next(one for one in element["options"] if one["value"].endswith(f"/{choice}"))
            action["selected_option"] = option
        else:
            action["value"] = element["value"]
        payload = {
            "type": "block_actions",
            "user": {"id": user, "username": name, "name": name, "team_id": TEAM},
            "team": {"id": TEAM, "domain": "local"},
            "container": {"type": "message", "message_ts": ts, "channel_id": message.channel},
            "channel": {"id": message.channel},
            "message": message.as_slack(with_metadata=True),
            "response_url": f"{self.url}answer/{user}/{next(self._asked)}",
            "actions": [action],
        }
        return self.sockets.send("interactive", payload | changes, envelope_id)

    def command(self, text: str, user: str = "U0ANN", name: str = "ann") -> Envelope:
        """A person gives the command /flinkwatch."""
        payload = {
            "command": "/flinkwatch",
            "text": text,
            "user_id": user,
            "user_name": name,
            "team_id": TEAM,
            "channel_id": next(iter(self._workspace.channels.values())),
            "response_url": f"{self.url}answer/{user}/{next(self._asked)}",
        }
        return self.sockets.send("slash_commands", payload)

    def wait_for_answers(self, count: int, seconds: float = 60) -> list[Body]:
        """The answers to people, once there are so many."""
        with self._answered:
            assert self._answered.wait_for(lambda: len(self.answers) >= count, seconds), self.answers
            return list(self.answers)

    # What follows is for the request handler.

    def take_answer(self, user: str, body: Body) -> None:
        """A POST to a response_url."""
        with self._answered:
            self.answers.append(body | {"user": user})
            self._answered.notify_all()

    def handle(self, method: str, body: Body, token: str) -> tuple[Fault | None, Body]:
        """What to answer: a fault to act out, or none, and the body."""
        with self._lock:
            call = Call(method, time.time(), body)
            self.calls.append(call)
            fault = self._faults[method].popleft() if self._faults[method] else None
            wait = self._rates.wait(method, body, time.monotonic()) if self._rates is not None and fault is None else 0
            if wait:
                fault = Fault(HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": str(wait)}, "ratelimited")
            accepted = self._answer(method, body, token) if fault is None or fault.accept else {}
            answer = accepted if fault is None else error(fault.error)
        if self.on_call is not None:
            self.on_call(call)
        return fault, answer

    def wait_silently(self, seconds: float) -> None:
        """Waits, but not beyond `close`."""
        self._closing.wait(seconds)

    def show(self, path: str) -> tuple[str, bytes] | None:
        """Content type and content of a page, None when there is none."""
        with self._lock:
            channels = {identifier: name for name, identifier in self._workspace.channels.items()}
            messages = [
                message.as_slack(with_metadata=True) | {"channel": message.channel}
                for message in self._workspace.messages
            ]
            upload = self._workspace.files.get(path.removeprefix("/files/"))
        if upload is not None and upload.content is not None:
            return "image/png", upload.content
        match path:
            case "/":
                return _HTML, page(messages, channels).encode()
            case "/fragment":
                return _HTML, fragment(messages, channels).encode()
            case "/messages.json":
                return "application/json; charset=utf-8", json.dumps(messages, ensure_ascii=False, indent=1).encode()
            case _:
                return None

    def _answer(self, method: str, body: Body, token: str) -> Body:
        if method == "apps.connections.open":
            return {"ok": True, "url": self.sockets.address()} if token == APP_TOKEN else error("invalid_auth")
        if method == "upload":
            return {"ok": self._workspace.receive(body["file"], body["content"])}
        return self._workspace.answer(method, body, token)
