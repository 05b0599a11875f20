"""Sends one POST request with JSON and classifies the response. It does not retry and does not wait.

Used by all sinks except Slack, which has an SDK. urllib is sufficient: there is one request at a time, and it supports
the environment's proxy settings. Redirects are not followed, because they would turn the POST into a GET.
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
    401: "the receiver rejected the token: check token and signature",
    403: "the receiver rejected the token: check token and signature",
    404: "the receiver does not know this path: check the address",
    405: "the receiver does not accept POST requests: check the address",
    407: "the proxy requires authentication: check HTTPS_PROXY and NO_PROXY",
    410: "the address is no longer in use",
}


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Outcome:
    """Send `body` to an http(s) address."""
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
        # The timeout applies to the connection and to the response separately.
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
        f"the receiver rejected the message: {text}" if text else "the receiver rejected the message",
        "message",
        "clientError",
    )


def retry_after(value: str | None, now: float) -> float | None:
    """Seconds in a Retry-After header, a number or a date; None if it is neither. `now` is in epoch seconds."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    # At least a second, so that 0 does not cause a busy loop.
    return min(max(seconds, 1.0), _WAIT_MOST_S) if not math.isnan(seconds) else None


def _text(error: urllib.error.HTTPError) -> str:
    try:
        return " ".join(error.read(_ANSWER_SHOWN).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException):
        return ""
