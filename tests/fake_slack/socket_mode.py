"""Socket Mode of the fake Slack: WebSockets to which clicks and commands are sent until one acknowledges them."""

import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.fake_slack.objects import Body

_POLL_S = 0.02


@dataclass
class Envelope:
    """What is sent: once, and again to another socket while it is not acknowledged."""

    body: Body
    sent: int = 0
    acknowledged: threading.Event = field(default_factory=threading.Event)


class SocketMode:
    """Listens on 127.0.0.1 once an address is asked for. All of it may be used from any thread."""

    def __init__(self, ack_within_s: float = 3.0) -> None:
        """An envelope that is not acknowledged within `ack_within_s` is sent again, three times in all."""
        self.ack_within_s = ack_within_s
        self.lose_acks = 0
        """So many acknowledgements get lost on their way."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._sockets: list[ServerConnection] = []
        self._envelopes: dict[str, Envelope] = {}
        self._numbers = itertools.count(1)
        self._turn = itertools.count()
        self._closed = threading.Event()
        self._server: Any = None

    def address(self) -> str:
        """The answer of apps.connections.open: an address for one connection."""
        with self._lock:
            if self._server is None:
                self._server = serve(self._serve, "127.0.0.1", 0)
                threading.Thread(target=self._server.serve_forever, name="socket mode", daemon=True).start()
            port = self._server.socket.getsockname()[1]
        return f"ws://127.0.0.1:{port}/link/?ticket={next(self._numbers)}"

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            server, sockets = self._server, list(self._sockets)
        for one in sockets:
            one.close()
        if server is not None:
            server.shutdown()

    def wait_for_sockets(self, count: int, seconds: float = 60) -> None:
        """Until so many connections are open."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._sockets) == count, seconds), len(self._sockets)

    def disconnect(self, reason: str, *, close: bool = True) -> None:
        """Slack's request to connect again, to every socket, with the end of the connection or before it."""
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            one.send(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {"host": "local"}}))
            if close:
                one.close()

    def send(self, kind: str, payload: Body, envelope_id: str = "") -> Envelope:
        """Sends an envelope in the background; the same ID again is the same envelope, which Slack sends again."""
        envelope_id = envelope_id or f"envelope-{next(self._numbers)}"
        body = {"type": kind, "envelope_id": envelope_id, "payload": payload, "accepts_response_payload": True}
        envelope = Envelope(body)
        with self._lock:
            self._envelopes[envelope_id] = envelope
        threading.Thread(target=self._push, args=(envelope,), name=envelope_id, daemon=True).start()
        return envelope

    def send_raw(self, text: str) -> None:
        """Sends any text to every socket."""
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            one.send(text)

    def _push(self, envelope: Envelope) -> None:
        for attempt in range(3):
            one = self._next_socket()
            if one is None:
                return
            retried = {"retry_attempt": attempt, "retry_reason": "timeout"} if attempt else {"retry_attempt": 0}
            try:
                one.send(json.dumps(envelope.body | retried))
                envelope.sent += 1
            except ConnectionClosed:
                continue
            if envelope.acknowledged.wait(self.ack_within_s):
                return

    def _next_socket(self) -> ServerConnection | None:
        """In turn, so that two deliverers each get a share."""
        deadline = time.monotonic() + 30
        while not self._closed.is_set() and time.monotonic() < deadline:
            with self._lock:
                if self._sockets:
                    return self._sockets[next(self._turn) % len(self._sockets)]
            self._closed.wait(_POLL_S)
        return None

    def _serve(self, socket: ServerConnection) -> None:
        if not urlsplit(socket.request.path if socket.request is not None else "").query.startswith("ticket="):
            socket.close(1008, "no ticket")
            return
        with self._changed:
            self._sockets.append(socket)
            count = len(self._sockets)
            self._changed.notify_all()
        try:
            socket.send(json.dumps({"type": "hello", "num_connections": count, "debug_info": {"host": "local"}}))
            for text in socket:
                self._acknowledge(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self._sockets.remove(socket)
                self._changed.notify_all()

    def _acknowledge(self, answer: Body) -> None:
        with self._lock:
            envelope = self._envelopes.get(str(answer.get("envelope_id")))
            if self.lose_acks > 0:
                self.lose_acks -= 1
                return
        if envelope is not None:
            envelope.acknowledged.set()
