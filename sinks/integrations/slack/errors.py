"""Classifies Slack's error responses as outcomes."""

import time

from slack_sdk.errors import SlackApiError

from sinks.contract.outcome import Refused, RetryAfter, Unknown
from sinks.integrations.calls import rate_limited, retry_after

_SETUP = {
    "invalid_auth": "the token is not valid: set the bot token of the app (xoxb-...)",
    "not_authed": "no token was sent: set the bot token of the app (xoxb-...)",
    "account_inactive": "the token's user or workspace was deleted: install the app again",
    "token_revoked": "the token was revoked: install the app again and set the new token",  # nosec B105 - a sentence
    "token_expired": "the token has expired: set a new one",  # nosec B105 - a sentence
    "missing_scope": "the app lacks a permission: add the scope chat:write and install it again",
    "no_permission": "the token lacks a permission: add the scope chat:write to the app",
    "not_allowed_token_type": "use a bot token (xoxb-...)",  # nosec B105 - a sentence
    "channel_not_found": "the channel does not exist or is private: check its name or invite the app",
    "not_in_channel": "the app is not in the channel: /invite it",
    "is_archived": "the channel is archived: choose another one",
    "restricted_action": "a workspace setting does not allow the app to post here: ask an administrator",
}
_AUTH_CODES = frozenset(_SETUP) - {"channel_not_found", "not_in_channel", "is_archived", "restricted_action"}
_TARGET = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found"})
_RATE_LIMITED = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_UNAVAILABLE = frozenset({"service_unavailable", "team_added_to_org", "accesslimited"})
# Slack: "some aspect of the operation may have succeeded before the error was raised".
_UNSURE = frozenset({"internal_error", "fatal_error", "request_timeout"})


def classify_answer(error: SlackApiError) -> RetryAfter | Unknown | Refused:
    status, data = error.response.status_code, error.response.data
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    if status == 429 or code in _RATE_LIMITED:
        return rate_limited(error.response.headers)
    if status == 503 or code in _UNAVAILABLE:
        return RetryAfter(retry_after(error.response.headers, time.time()), "Slack is not available", "serverError")
    if status >= 500 or code in _UNSURE:
        return Unknown(f"Slack failed with HTTP status {status}", "serverError")
    return _classify_code(code, status)


def _classify_code(code: str, status: int) -> Refused | Unknown:
    if code in _SETUP:
        return Refused(code, _SETUP[code], "setup", "authError" if code in _AUTH_CODES else "clientError")
    if code in _TARGET:
        return Refused(code, "the earlier message is gone or can no longer be edited", "target", "clientError")
    if not code or " " in code:
        # Not Slack's JSON: a proxy's error page, or a truncated response.
        return Unknown(f"the response is not from Slack's API, HTTP status {status}", "other")
    return Refused(code, "Slack rejected the content of the message", "message", "clientError")
