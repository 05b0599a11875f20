"""One POST of JSON and what became of it, for every sink but Slack, whose SDK does this. It neither retries nor waits.

urllib is enough: one request at a time, and it knows the proxies of the environment. Redirects are not followed: a POST
would turn into a GET.
"""

import http.client
import math
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.deadline import within
from sinks.integrations.slack.errors import classify_transport

_ANSWER_SHOWN = 300
_WAIT_MOST_S = 3600.0
_RATE_LIMIT_DEFAULT_S = 30.0
_LATER = frozenset({408, 425, 502, 503, 504})
_SETUP = {
    401: "it does not accept our token: check token and signature",
    403: "it does not accept our token: check token and signature",
    404: "nothing listens under this path: check the address",
    405: "it takes no POST: check the address",
    407: "the proxy wants a login: check HTTPS_PROXY and NO_PROXY",
    410: "the address is no longer in use",
}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Outcome:
    """Sends `body` to an http(s) address."""
    head = {"Content-Type": "application/json", "User-Agent": "flinkwatch", **headers}
    request = urllib.request.Request(url, data=body, headers=head, method="POST")  # noqa: S310 - checked in settings

    def post() -> Outcome:
        try:
            with _opener.open(request, timeout=timeout_s) as answer:
                answer.read(_ANSWER_SHOWN)
                return Delivered()
        except urllib.error.HTTPError as error:
            with error:
                return _classify(error.code, error.headers, _text(error))

    try:
        # The timeout is for the connection and for the answer, each.
        return within(url, 2 * timeout_s, post)
    except (OSError, http.client.HTTPException) as error:
        return classify_transport(error)


def _classify(status: int, headers: Message, text: str) -> Outcome:
    if status == 429:
        wish = retry_after(headers.get("Retry-After"), time.time())
        return RetryAfter(_RATE_LIMIT_DEFAULT_S if wish is None else wish, "rate limited", "rateLimited")
    if status in _LATER:
        wish = retry_after(headers.get("Retry-After"), time.time())
        return RetryAfter(wish, f"HTTP status {status}", "serverError")
    if status >= 500:
        return Unknown(f"HTTP status {status}", "serverError")
    code = f"http_{status}"
    if 300 <= status < 400:
        return Refused(code, f"the address has moved to {headers.get('Location', '')[:200]}", "setup", "clientError")
    if status in _SETUP:
        return Refused(code, _SETUP[status], "setup", "authError" if status in {401, 403, 407} else "clientError")
    return Refused(
        code,
        f"it does not take the message: {text}" if text else "it does not take the message",
        "message",
        "clientError",
    )


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After asks for, a number or a date; None when it is neither. `now` is epoch seconds."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    # At least a second, so that 0 is no busy loop.
    return min(max(seconds, 1.0), _WAIT_MOST_S) if not math.isnan(seconds) else None


def _text(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(_ANSWER_SHOWN).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException):
        return ""
