"""Talks to Slack and says what became of it. It neither formats, nor retries, nor waits between tries.

Every call ends as one of the outcomes of `sinks.outcome`, never as an exception.
"""

import http.client
import logging
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, ConfigDict, Field, model_validator
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackRequestError

from detectors.incidents.incident import Severity
from detectors.units import Duration
from sinks.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.secret import Secret, SecretError, read_secret
from sinks.slack.render import Message

_EVENT_TYPE = "flinkwatch_incident"
_RATE_LIMIT_DEFAULT_S = 30.0
_RATE_LIMIT_MAX_S = 3600.0
_HISTORY_LIMIT = 200


class SlackConfig(BaseModel):
    """Where and how incidents are told to Slack."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    enabled: bool = Field(default=False, description="Tell Slack of incidents; needs a channel and a bot token.")
    channel: str = Field(
        default="",
        description="Channel to post to: name or, better, its ID (survives a renaming, and lets a lost answer be "
        "looked up). The bot must be a member.",
    )
    token_env: str = Field(
        default="SLACK_BOT_TOKEN",
        description="Environment variable that holds the bot token (xoxb-..., scope chat:write; with "
        "channels:history a message whose fate is unknown is looked up and not sent twice).",
    )
    token_file: Path | None = Field(
        default=None, description="File that holds the bot token, read at each call; wins over the variable."
    )
    min_severity: Severity = Field(
        default="warning",
        description="Incidents below this are not posted: a channel of noise is muted.",
    )
    thread_updates: bool = Field(
        default=True,
        description="Also say each change in one line in the incident's thread; off where threads are too many.",
    )
    runbook_base_url: str = Field(
        default="", description="Address of the runbooks; the kind of the cause is added as a last part."
    )
    timeout: Duration = Field(
        default=10_000,
        ge=1_000,
        le=120_000,
        description="How long to wait for Slack's answer; it usually comes within a second.",
    )
    base_url: str = Field(
        default="https://slack.com/api/",
        pattern=r"^https?://[^\s/]+",
        description="Address of Slack's web API; another one for tests and proxies.",
    )

    @model_validator(mode="after")
    def _channel_is_needed(self) -> Self:
        if self.enabled and not self.channel:
            raise ValueError("channel is needed when enabled")
        return self

    def token(self) -> Secret:
        """The bot token. Raises SecretError when it is not set."""
        return read_secret("token", self.token_env, self.token_file)


class Found(msgspec.Struct, frozen=True):
    """A message of ours that stands in the channel, and the number of the transition it shows."""

    channel: str
    ts: str
    seq: int


_SETUP = {
    "invalid_auth": "the token is not valid: set the bot token of the app (xoxb-...)",
    "not_authed": "no token was sent: set the bot token of the app (xoxb-...)",
    "account_inactive": "the token's user or workspace is gone: install the app again",
    "token_revoked": "the token was revoked: install the app again and set the new token",
    "token_expired": "the token has expired: set a new one",
    "missing_scope": "the app lacks a permission: add the scope chat:write and install it again",
    "no_permission": "the token may not do this: give the app the scope chat:write",
    "not_allowed_token_type": "use a bot token (xoxb-...)",
    "channel_not_found": "no such channel, or it is private: check its name or invite the app",
    "not_in_channel": "the app is not in the channel: /invite it",
    "is_archived": "the channel is archived: choose another one",
    "restricted_action": "a workspace setting forbids the app to post here: ask an administrator",
}
_AUTH_CODES = frozenset(_SETUP) - {"channel_not_found", "not_in_channel", "is_archived", "restricted_action"}
_TARGET = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found"})
_RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_UNAVAILABLE = frozenset({"service_unavailable", "team_added_to_org", "accesslimited"})
# Slack: "some aspect of the operation may have succeeded before the error was raised".
_UNSURE = frozenset({"internal_error", "fatal_error", "request_timeout"})


# What the SDK raises over an answer that is not a JSON object, or not text.
_NOT_SLACK = (AttributeError, TypeError, ValueError, LookupError)


class SlackClient:
    """Posts, edits and looks up messages of one channel."""

    def __init__(self, config: SlackConfig) -> None:
        self._config = config
        # The SDK writes an error line for each failed try and, below this level, whole bodies.
        self._silent = logging.getLogger("flinkwatch.slack_sdk")
        self._silent.setLevel(logging.CRITICAL)

    def post(self, message: Message, incident: str, seq: int) -> Outcome:
        """A new message in the channel."""
        return self._call("chat.postMessage", {"channel": self._config.channel, **_body(message, incident, seq)})

    def edit(self, channel: str, ts: str, message: Message, incident: str, seq: int) -> Outcome:
        """The message `ts` of channel ID `channel` with new content. Doing it twice changes nothing."""
        return self._call("chat.update", {"channel": channel, "ts": ts, **_body(message, incident, seq)})

    def reply(self, channel: str, ts: str, message: Message) -> Outcome:
        """A line in the thread of `ts`; it does not show in the channel."""
        return self._call("chat.postMessage", {"channel": channel, "thread_ts": ts, "text": message.text, **_QUIET})

    def find(self, channel: str, incident: str, since: int) -> Found | RetryAfter | None:
        """Our newest message of `incident` in channel ID `channel` not older than `since` (epoch ms).

        None: it is not there, or Slack refuses to tell (no right to read the channel).
        """
        query = {
            "channel": channel,
            "oldest": f"{since / 1000:.6f}",
            "limit": _HISTORY_LIMIT,
            "include_all_metadata": True,
        }
        try:
            history = self._web().api_call("conversations.history", params=query)
            return _ours(history.get("messages") or [], channel, incident)
        except SlackApiError as error:
            outcome = _classify_answer(error)
        except (OSError, http.client.HTTPException) as error:
            outcome = _classify_transport(error)
        except (SecretError, SlackRequestError):
            return None
        except _NOT_SLACK as error:
            outcome = Unknown(type(error).__name__, "other")
        if isinstance(outcome, RetryAfter):
            return outcome
        return RetryAfter(None, outcome.reason, outcome.failure) if isinstance(outcome, Unknown) else None

    def _web(self) -> WebClient:
        # Made for each call, so that a rotated token takes effect; it holds no connection.
        web = WebClient(
            token=self._config.token(),
            base_url=self._config.base_url,
            timeout=max(1, self._config.timeout // 1000),
            retry_handlers=[],
            logger=self._silent,
        )
        if urllib.request.proxy_bypass(urlsplit(self._config.base_url).hostname or ""):
            # The SDK takes HTTPS_PROXY from the environment but does not look at NO_PROXY.
            web.proxy = None
        return web

    def _call(self, method: str, body: dict[str, Any]) -> Outcome:
        try:
            answer = self._web().api_call(method, json=body)
            channel, ts = answer.get("channel"), answer.get("ts")
            return Delivered(channel, ts) if channel and ts else Unknown("ok without a ts", "other")
        except SecretError as error:
            return Refused("no_token", str(error), "setup", "authError")
        except SlackRequestError:
            return Refused("invalid_url", "base_url is not an http(s) address", "setup", "clientError")
        except SlackApiError as error:
            return _classify_answer(error)
        except (OSError, http.client.HTTPException) as error:
            return _classify_transport(error)
        except _NOT_SLACK as error:
            return Unknown(f"not an answer of Slack's API: {type(error).__name__}", "other")


_QUIET: dict[str, Any] = {"unfurl_links": False, "unfurl_media": False, "link_names": False, "parse": "none"}


def _ours(messages: list[dict[str, Any]], channel: str, incident: str) -> Found | None:
    for message in messages:
        metadata = message.get("metadata") or {}
        payload = metadata.get("event_payload") or {}
        if metadata.get("event_type") == _EVENT_TYPE and payload.get("incident") == incident:
            return Found(channel, str(message["ts"]), int(payload["seq"]))
    return None


def _body(message: Message, incident: str, seq: int) -> dict[str, Any]:
    payload = {"incident": incident, "seq": seq}
    return {
        "text": message.text,
        # Always sent: an edit without blocks keeps the old ones.
        "blocks": message.blocks,
        "metadata": {"event_type": _EVENT_TYPE, "event_payload": payload},
        **_QUIET,
    }


def _classify_answer(error: SlackApiError) -> Outcome:
    """The outcome of an answer that is not ok."""
    status, data = error.response.status_code, error.response.data
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    if status == 429 or code in _RATE_LIMITED:
        wish = _wish(error.response.headers)
        return RetryAfter(_RATE_LIMIT_DEFAULT_S if wish is None else wish, "rate limited", "rateLimited")
    if status == 503 or code in _UNAVAILABLE:
        return RetryAfter(_wish(error.response.headers), "Slack is not available", "serverError")
    if status >= 500 or code in _UNSURE:
        return Unknown(f"Slack failed with HTTP status {status}", "serverError")
    return _classify_code(code, status)


def _classify_code(code: str, status: int) -> Refused | Unknown:
    if code in _SETUP:
        return Refused(code, _SETUP[code], "setup", "authError" if code in _AUTH_CODES else "clientError")
    if code in _TARGET:
        return Refused(code, "the earlier message is gone or can no longer be edited", "target", "clientError")
    if not code or " " in code:
        # Not Slack's JSON: a proxy's page, or an answer that was cut.
        return Unknown(f"not an answer of Slack's API, HTTP status {status}", "other")
    return Refused(code, "Slack does not take the message as it is", "message", "clientError")


def _wish(headers: dict[str, Any]) -> float | None:
    """Seconds of Retry-After, None when missing or not a number."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    # Not `< 0`: NaN is in no range. At least a second, so that "0" is no busy loop.
    return min(max(seconds, 1.0), _RATE_LIMIT_MAX_S) if seconds >= 0 else None


def _classify_transport(error: OSError | http.client.HTTPException) -> Outcome:
    """The outcome of a call without an answer: only a failure to connect proves that nothing was sent."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    name = type(reason).__name__
    if isinstance(error, urllib.error.URLError) and not isinstance(reason, ConnectionResetError | BrokenPipeError):
        timeout = isinstance(reason, TimeoutError)
        what = "certificate not accepted" if isinstance(reason, ssl.SSLCertVerificationError) else "cannot connect"
        return RetryAfter(None, f"{what}: {name}", "contextDeadlineExceeded" if timeout else "other")
    if isinstance(reason, TimeoutError):
        return Unknown("no answer in time", "contextDeadlineExceeded")
    return Unknown(f"connection lost: {name}", "other")
