"""The bot's access token: OAuth 2.0 client credentials, kept until shortly before it expires."""

import re
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlencode

import msgspec

from sinks.contract.outcome import Refused, RetryAfter, Unknown
from sinks.integrations.calls import rate_limited
from sinks.integrations.http_post import Response, request
from sinks.integrations.teams.settings import TeamsConfig
from sinks.secret import Secret, SecretError

_SCOPE = "https://api.botframework.com/.default"
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_RENEW_BEFORE_S = 300.0
# The text of an error may be long and repeat the request; its number is what can be looked up.
_NUMBER = re.compile(r"AADSTS\d{1,10}")


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float


class _Denied(msgspec.Struct):
    error: str = ""
    error_description: str = ""


class BotToken:
    """Used from one thread. The client secret is read at each renewal, so that a rotated one takes effect."""

    def __init__(self, config: TeamsConfig, monotonic: Callable[[], float]) -> None:
        self._config = config
        self._monotonic = monotonic
        self._token = Secret("")
        self._renew_at = 0.0

    def get(self) -> Secret | RetryAfter | Refused:
        """The token in force, a new one if it expires soon, or why there is none."""
        if self._token and self._monotonic() < self._renew_at:
            return self._token
        answer = self._ask()
        if not isinstance(answer, Response):
            return answer
        return self._keep(answer) if answer.ok else _classify(answer)

    def forget(self) -> None:
        """Teams does not accept it any more."""
        self._token = Secret("")

    def _ask(self) -> Response | RetryAfter | Refused:
        config = self._config
        try:
            secret = config.client_secret()
        except SecretError as error:
            return Refused("no_secret", str(error), "setup", "authError")
        form = {
            "grant_type": "client_credentials",
            "client_id": config.app_id,
            "client_secret": str(secret),
            "scope": _SCOPE,
        }
        url = f"{config.login_url.rstrip('/')}/{config.tenant}/oauth2/v2.0/token"
        answer = request("POST", url, urlencode(form).encode(), _FORM, config.timeout / 1000)
        if isinstance(answer, Unknown):
            # No message was sent, so the whole call can be repeated.
            return RetryAfter(None, f"no access token: {answer.reason}", answer.failure)
        return answer

    def _keep(self, answer: Response) -> Secret | RetryAfter:
        try:
            granted = msgspec.json.decode(answer.body, type=_Granted)
        except (msgspec.DecodeError, UnicodeDecodeError):
            granted = _Granted("", 0)
        token = granted.access_token
        if not token or not token.isascii() or not token.isprintable():
            return RetryAfter(None, "no access token: the response is not from the token service", "other")
        self._token = Secret(token)
        self._renew_at = self._monotonic() + max(granted.expires_in - _RENEW_BEFORE_S, 0.0)
        return self._token


def _classify(answer: Response) -> RetryAfter | Refused:
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return rate_limited(answer.headers)
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return RetryAfter(None, f"no access token: HTTP status {answer.status}", "serverError")
    try:
        denied = msgspec.json.decode(answer.body, type=_Denied)
    except (msgspec.DecodeError, UnicodeDecodeError):
        denied = _Denied()
    number = _NUMBER.search(denied.error_description)
    code = number[0] if number else f"http_{answer.status}"
    reason = "no access token: check app_id, tenant and the client secret, which may have expired"
    return Refused(code, reason, "setup", "authError")
