"""Classifies the responses of the Bot Connector service as outcomes."""

import time

import msgspec

from sinks.contract.outcome import Failure, Refused, RetryAfter, Unknown
from sinks.integrations.calls import retry_after
from sinks.integrations.http_post import Response, classify_failure

_SETUP = {
    "BotNotRegistered": "the bot is not registered: check app_id",
    "BotNotInConversationRoster": "the bot is not in the conversation: add the app to the team or chat",
    "BotDisabledByAdmin": "an administrator has disabled the bot",
    "ConversationBlockedByUser": "the conversation does not accept messages of the bot: check its moderation settings",
    "ConversationNotFound": "the conversation does not exist: check its ID, and add the app to the team or chat",
}
_STATUS = {
    401: "Teams rejected the access token: check app_id and tenant",
    403: "the bot must not post in the conversation: add the app to the team or chat",
    404: "the conversation does not exist: check its ID, and service_url",
}
# Documented as to be tried again; 412 comes from simultaneous operations on one conversation.
_AGAIN = frozenset({412, 502, 503, 504})
# What an edit gets whose message is gone. After a deletion Teams answers 403 with a code such as ServiceError
# (microsoft/BotFramework-Services, issue 269).
_GONE = frozenset({"ActivityNotFoundInConversation", "BadArgument"})


class _Error(msgspec.Struct):
    code: str = ""


class _ErrorAnswer(msgspec.Struct):
    error: _Error = msgspec.field(default_factory=_Error)


def classify_refusal(answer: Response, *, edited: bool) -> RetryAfter | Unknown | Refused:
    """The outcome of a response that is not a success. `edited`: the call was about an existing message."""
    status = answer.status
    if status in _AGAIN:
        seconds = retry_after(answer.headers, time.time())
        return RetryAfter(seconds, f"Teams is not available: HTTP status {status}", "serverError")
    code = _code(answer.body)
    if edited and (code in _GONE or status == 404 or (status == 403 and code not in _SETUP)):
        reason = "the earlier message is gone or can no longer be edited"
        return Refused(code or f"http_{status}", reason, "target", "clientError")
    if status in _STATUS:
        failure: Failure = "authError" if status in {401, 403} else "clientError"
        return Refused(code or f"http_{status}", _SETUP.get(code, _STATUS[status]), "setup", failure)
    if code and 400 <= status < 500 and status != 429:
        return Refused(code, "Teams rejected the content of the message", "message", "clientError")
    return classify_failure(answer)


def _code(body: bytes) -> str:
    """Teams' own code of an error; empty if there is none, as in the page of a proxy."""
    try:
        code = msgspec.json.decode(body, type=_ErrorAnswer).error.code
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return code if code.isalnum() and code.isascii() and len(code) <= 80 else ""
