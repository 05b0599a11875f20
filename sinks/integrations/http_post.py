"""Sends one request and classifies the response. It does not retry and does not wait.

Used by all sinks except Slack, which has an SDK. urllib is sufficient: there is one request at a time, and it supports
the environment's proxy settings. Redirects are not followed, because they would turn the POST into a GET.
"""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple

from sinks.contract.outcome import Delivered, Outcome, Refused, RetryAfter, Unknown
from sinks.integrations.calls import classify_transport, rate_limited, retry_after, within
from sinks.secret import read_header_secret

_ANSWER_SHOWN = 300
# No API that is called here answers with more.
_ANSWER_READ = 65_536
_LATER = frozenset({408, 425, 502, 503, 504})
_SETUP = {
    401: "the receiver rejected the token: check token and signature",
    403: "the receiver rejected the token: check token and signature",
    404: "the receiver does not know this path: check the address",
    405: "the receiver does not accept POST requests: check the address",
    407: "the proxy requires authentication: check HTTPS_PROXY and NO_PROXY",
    410: "the address is no longer in use",
}


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Lets a redirect be an error: it would send credentials to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(NoRedirect)


class Response(NamedTuple):
    """What a server has answered; of `body` at most 64 KiB."""

    status: int
    headers: Message
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


def post_json(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Outcome:
    answer = request("POST", url, body, headers, timeout_s)
    if not isinstance(answer, Response):
        return answer
    return Delivered() if answer.ok else classify_failure(answer)


def request(
    method: str, url: str, body: bytes, headers: Mapping[str, str], timeout_s: float
) -> Response | RetryAfter | Unknown:
    """The response of any status. `body` is JSON unless the headers name another type."""
    head = {"Content-Type": "application/json", "User-Agent": "flinkwatch", **headers}
    asked = urllib.request.Request(url, data=body, headers=head, method=method)  # noqa: S310 - checked in settings

    def send() -> Response:
        try:
            with _opener.open(asked, timeout=timeout_s) as answer:
                return Response(answer.status, answer.headers, answer.read(_ANSWER_READ))
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, error.headers, _body(error))

    try:
        # The timeout applies to the connection and to the response separately.
        return within(url, 2 * timeout_s, send)
    except (OSError, http.client.HTTPException) as error:
        return classify_transport(error)


def classify_failure(answer: Response) -> RetryAfter | Unknown | Refused:
    """The outcome of a response that is not a success, by its status alone."""
    status, headers, _ = answer
    if status == 429:
        return rate_limited(headers)
    if status in _LATER:
        return RetryAfter(retry_after(headers, time.time()), f"HTTP status {status}", "serverError")
    if status >= 500:
        return Unknown(f"HTTP status {status}", "serverError")
    code = f"http_{status}"
    if 300 <= status < 400:
        return Refused(code, f"the address has moved to {headers.get('Location', '')[:200]}", "setup", "clientError")
    if status in _SETUP:
        return Refused(code, _SETUP[status], "setup", "authError" if status in {401, 403, 407} else "clientError")
    reason, text = "the receiver rejected the message", _text(answer.body)
    return Refused(code, f"{reason}: {text}" if text else reason, "message", "clientError")


def _body(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(_ANSWER_READ)
    except (OSError, http.client.HTTPException):
        return b""


def _text(body: bytes) -> str:
    return " ".join(body[:_ANSWER_SHOWN].decode("utf-8", "replace").split())


def bearer(env: str | None, file: Path | None) -> dict[str, str]:
    """The header with the token, if one is configured. Raises SecretError."""
    if env is None and file is None:
        return {}
    return {"Authorization": f"Bearer {read_header_secret('token', env, file)}"}
