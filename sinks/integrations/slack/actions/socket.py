"""One connection of Slack's Socket Mode, opened from inside, kept up, and acknowledged at once.

Slack's SDK has the protocol. When to connect again is decided here, because the SDK does it without a pause.
"""

import logging
import random
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from slack_sdk import WebClient
from slack_sdk.errors import SlackClientError
from slack_sdk.socket_mode.builtin.client import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from sinks.integrations.slack.client import SlackClient
from sinks.integrations.slack.settings import SlackConfig
from sinks.prometheus.delivery_metrics import DeliveryMetrics
from sinks.secret import SecretError

log = structlog.get_logger()

Receive = Callable[[str, Any], None]
"""Takes the type and the payload of an envelope. It returns at once and does not raise."""

_FIRST_S, _MOST_S = 1.0, 60.0
# A connection that has lasted so long was a good one.
_GOOD_S = 60.0
_LOOK_EVERY_S = 0.25
_PING_S = 5.0
# The SDK takes a message apart by calling itself once for each buffer that it fills.
_BUFFER = 256 * 1024
_WHAT_TO_DO = {
    "invalid_auth": "set the app-level token (xapp-...)",
    "not_authed": "set the app-level token (xapp-...)",
    "token_revoked": "create a new app-level token",  # nosec B105 - words, no password
    "not_allowed_token_type": "use an app-level token (xapp-...), not the bot token",  # nosec B105
    "missing_scope": "give the app-level token the scope connections:write",
    "forbidden_team": "install the app in this workspace",
}


_REASONS = frozenset({"warning", "refresh_requested", "link_disabled", "too_many_websockets"})


class _Control(msgspec.Struct):
    type: str = ""
    reason: str = ""


_decode = msgspec.json.Decoder(_Control).decode


class SocketLostError(Exception):
    """The connection ended or could not be opened. `code` is short, for a metric; the text says what to do."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def socket_address(config: SlackConfig, client: SlackClient) -> str:
    """The address of one new connection. Raises SocketLostError, which says what is wrong with the set-up."""
    try:
        answer = client.ask("apps.connections.open", {}, token=config.actions.app_token())
    except SecretError as error:
        raise SocketLostError("no_token", f"sinks.slack.actions.{error}") from None
    if isinstance(answer, dict):
        return str(answer.get("url") or "")
    code = getattr(answer, "code", answer.failure)
    raise SocketLostError(code, f"apps.connections.open: {code}: {_WHAT_TO_DO.get(code, answer.reason)}")


class _Client(SocketModeClient):
    """The SDK's client. Instead of connecting again, it notes that Slack asks for it."""

    asked_to_leave = False

    def close_now(self) -> None:
        """Closes without waiting for the SDK's threads to look up from what they wait for, which takes seconds."""
        self.closed = True
        self.message_queue.put(None)
        connected = self.current_session.sock if self.current_session is not None else None
        if connected is not None:
            with suppress(OSError):
                connected.shutdown(socket.SHUT_RDWR)
        self.close()

    def connect_to_new_endpoint(self, force: bool = False) -> None:  # noqa: ARG002 - the SDK's signature
        self.asked_to_leave = True


class SlackSocket:
    """`run` in a thread of its own. `problem` may be called from any thread."""

    def __init__(self, config: SlackConfig, client: SlackClient, receive: Receive, metrics: DeliveryMetrics) -> None:
        self._config, self._slack, self._receive, self._metrics = config, client, receive, metrics
        self._silent = logging.getLogger("flinkwatch.slack_sdk")
        self._silent.setLevel(logging.CRITICAL)
        self._problem: str | None = "the connection for buttons is not open yet"
        self._reason = "disconnect"
        self.team = ""
        """The ID of the workspace, known once the connection is open."""

    def problem(self) -> str | None:
        """Why buttons do nothing at present; None if they work."""
        return self._problem

    def run(self, stop: Event) -> None:
        """Keeps a connection open until `stop`. Failures are logged, counted, and followed by a growing pause."""
        pause = _FIRST_S
        while not stop.is_set():
            began = time.monotonic()
            try:
                self._hold(stop)
            except SocketLostError as error:
                self._metrics.socket_lost.labels(error.code).inc()
                pause = _FIRST_S if time.monotonic() - began > _GOOD_S else pause
                self._problem = f"buttons do nothing: {error}"
                log.warning("connection for Slack's buttons lost", reason=str(error), retry_in_s=round(pause, 1))
                # Several deliverers that lost theirs together do not come back together.
                stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311  # nosec B311 - not for security
                pause = min(pause * 2, _MOST_S)

    def _hold(self, stop: Event) -> None:
        """Opens a connection and returns when it is to be replaced. Raises SocketLostError."""
        self.team = self._ask_team()
        self._reason = "disconnect"
        client = self._client(socket_address(self._config, self._slack))
        try:
            client.connect()
            while not stop.is_set():
                if not client.is_connected():
                    raise SocketLostError("lost", "the connection ended")
                if client.asked_to_leave:
                    raise SocketLostError(self._reason, f"Slack asked for a new connection: {self._reason}")
                stop.wait(_LOOK_EVERY_S)
        except (OSError, SlackClientError) as error:
            raise SocketLostError("lost", f"cannot connect: {type(error).__name__}") from None
        finally:
            client.close_now()

    def _ask_team(self) -> str:
        answer = self._slack.ask("auth.test", {})
        if not isinstance(answer, dict):
            raise SocketLostError("auth.test", f"auth.test: {answer.reason}")
        return str(answer.get("team_id") or "")

    def _client(self, address: str) -> _Client:
        host = urlsplit(address).hostname or ""
        client = _Client(
            app_token="",  # nosec B106 - the address is known, and the SDK asks for none
            web_client=WebClient(logger=self._silent),
            logger=self._silent,
            auto_reconnect_enabled=False,
            ping_interval=_PING_S,
            receive_buffer_size=_BUFFER,
            concurrency=1,
            on_message_listeners=[self._on_text],
        )
        client.wss_uri = address
        if urllib.request.proxy_bypass(host):
            # The SDK uses HTTPS_PROXY from the environment but ignores NO_PROXY.
            client.proxy = None
        client.socket_mode_request_listeners.append(self._on_request)
        return client

    def _on_text(self, text: str) -> None:
        """The SDK keeps the reason of a disconnect to itself."""
        try:
            message = _decode(text)
        except (msgspec.MsgspecError, RecursionError):
            return
        if message.type == "hello":
            self._problem = None
            log.info("connection for Slack's buttons is open")
        elif message.type == "disconnect":
            self._reason = message.reason if message.reason in _REASONS else "disconnect"

    def _on_request(self, client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        self._receive(request.type, request.payload)
