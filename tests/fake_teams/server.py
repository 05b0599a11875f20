"""The Bot Connector service of Teams, the token service and the webhook of a workflow, as their documentation says."""

import itertools
import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote

from tests.fake_teams.cards import card_of, card_problem, too_big

APP_ID, SECRET = "00000000-1111-2222-3333-444444444444", "local stand-in"  # nosec B105 - worth nothing elsewhere
CONVERSATION = "19:flink-alerts@thread.tacv2"
WORKFLOW_PATH = "/workflows/1/triggers/manual/paths/invoke"
SIGNATURE = "sig-of-the-workflow"

_SCOPE = "https://api.botframework.com/.default"


class TeamsCall(NamedTuple):
    """`method` is token, post, reply, edit or workflow."""

    method: str
    activity: dict[str, Any]


class RefusalError(Exception):
    """An error in the form of the service."""

    def __init__(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, dict(headers or {})


class TeamsServer:
    """Listens on 127.0.0.1 from construction until `close`. All of it may be used from any thread."""

    def __init__(self, lifetime_s: int = 3599, on_call: Callable[[TeamsCall], None] | None = None) -> None:
        """`lifetime_s`: what the token service announces; `expire_tokens` makes them invalid. `on_call` runs in the
        request's thread, before the answer.
        """
        self.calls: list[TeamsCall] = []
        self.messages: dict[str, dict[str, Any]] = {}
        """The messages of the conversation by ID, without replies and deleted ones."""
        self.replies: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.workflow: list[dict[str, Any]] = []
        self.conversations = {CONVERSATION}
        self.on_call = on_call
        self._lifetime_s = lifetime_s
        self._tokens: set[str] = set()
        self._deleted: set[str] = set()
        self._faults: defaultdict[str, deque[RefusalError]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        handler = type("OurTeamsHandler", (_Handler,), {"teams": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="teams", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def settings(self) -> dict[str, Any]:
        """The section `sinks.teams` of a bot in the conversation."""
        return {
            "enabled": True,
            "app_id": APP_ID,
            "conversation": CONVERSATION,
            "service_url": f"{self.url}/teams/",
            "login_url": self.url,
        }

    @property
    def workflow_url(self) -> str:
        return f"{self.url}{WORKFLOW_PATH}?sig={SIGNATURE}"

    def fail_next(
        self, method: str, status: int, code: str = "Unknown", headers: Mapping[str, str] | None = None
    ) -> None:
        """Makes the next call of `method` fail. Status 0: it takes effect, but its answer is lost."""
        with self._lock:
            self._faults[method].append(RefusalError(status, code, headers))

    def expire_tokens(self) -> None:
        with self._lock:
            self._tokens.clear()

    def delete(self, message: str) -> None:
        """What a person does with a message."""
        with self._lock:
            del self.messages[message]
            self._deleted.add(message)

    def methods(self) -> list[str]:
        """All calls but those of the token service."""
        with self._lock:
            return [call.method for call in self.calls if call.method != "token"]

    def answer(
        self, verb: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], Any]:
        """Status, headers and content of the answer; status 0: the connection ends without one."""
        path, _, query = path.partition("?")
        with self._lock:
            try:
                return self._answer(verb, path, query, headers, body)
            except RefusalError as error:
                return error.status, error.headers, {"error": {"code": error.code, "message": "…"}}

    def _answer(
        self, verb: str, path: str, query: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], Any]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[1:] == ["oauth2", "v2.0", "token"]:
            return self._grant(body)
        if path == WORKFLOW_PATH:
            lost = self._begin("workflow", json.loads(body))
            if parse_qs(query).get("sig") != [SIGNATURE]:
                raise RefusalError(401, "Unauthorized")
            self._check_content(self.calls[-1].activity)
            self.workflow.append(self.calls[-1].activity)
            return (0 if lost else 202), {}, None
        if headers.get("Authorization", "").removeprefix("Bearer ") not in self._tokens:
            raise RefusalError(401, "Unauthorized")
        if parts[:3] != ["teams", "v3", "conversations"] or parts[4] != "activities":
            raise RefusalError(404, "")
        conversation, _, root = parts[3].partition(";messageid=")
        return self._message(verb, conversation, root, parts[5:], json.loads(body))

    def _message(
        self, verb: str, conversation: str, root: str, rest: list[str], activity: dict[str, Any]
    ) -> tuple[int, Mapping[str, str], Any]:
        method = "edit" if verb == "PUT" else "reply" if root else "post"
        lost = self._begin(method, activity)
        if conversation not in self.conversations:
            raise RefusalError(404, "ConversationNotFound")
        self._check_content(activity)
        name = rest[0] if rest else str(int(time.time() * 1000) + next(self._numbers))
        if method == "edit":
            if name in self._deleted:
                raise RefusalError(403, "ServiceError")
            if name not in self.messages:
                raise RefusalError(404, "ActivityNotFoundInConversation")
        if method == "reply":
            self.replies[root].append(activity)
        else:
            self.messages[name] = activity
        return (0 if lost else 200 if method == "edit" else 201), {}, {"id": name}

    def _begin(self, method: str, activity: dict[str, Any]) -> bool:
        """Keeps a call. Raises a fault that was ordered. True: its answer is to be lost."""
        call = TeamsCall(method, activity)
        self.calls.append(call)
        if self.on_call is not None:
            self.on_call(call)
        if not self._faults[method]:
            return False
        fault = self._faults[method].popleft()
        if fault.status:
            raise fault
        return True

    def _check_content(self, activity: dict[str, Any]) -> None:
        if too_big(activity):
            raise RefusalError(413, "MessageSizeTooBig")
        if "attachments" in activity and card_problem(card_of(activity)):
            raise RefusalError(400, "BadSyntax")

    def _grant(self, body: bytes) -> tuple[int, Mapping[str, str], Any]:
        lost = self._begin("token", {})
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if form != {
            "grant_type": "client_credentials",
            "client_id": APP_ID,
            "client_secret": SECRET,
            "scope": _SCOPE,
        }:
            text = f"AADSTS7000215: Invalid client secret provided: {form.get('client_secret')}"
            return 401, {}, {"error": "invalid_client", "error_description": text}
        token = f"token-{next(self._numbers)}"
        self._tokens.add(token)
        return (0 if lost else 200), {}, {"token_type": "Bearer", "expires_in": self._lifetime_s, "access_token": token}


class _Handler(BaseHTTPRequestHandler):
    teams: TeamsServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, content = self.teams.answer(self.command, self.path, dict(self.headers.items()), body)
        if status == 0:
            self.close_connection = True
            return
        written = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing: `calls` has it all."""
