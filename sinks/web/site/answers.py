"""Responses of the status site, with the headers that keep browsers from doing more than showing a page."""

from email.message import Message
from hashlib import sha256
from http import HTTPStatus

import msgspec

from sinks.web.site.documents import Problem
from sinks.web.site.exchange import HttpResponse
from sinks.web.site.pages import error_page
from sinks.web.templating import content_security_policy

_JSON, _PROBLEM, _HTML = "application/json", "application/problem+json", "text/html; charset=utf-8"
_SAFE = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    # Pages show log lines. A program that polls keeps the ETag itself.
    ("Cache-Control", "no-store"),
)
_ASK_AGAIN = ("Retry-After", "5")
_LOGIN = "WWW-Authenticate"

Headers = tuple[tuple[str, str], ...]


def page(html: str, status: HTTPStatus = HTTPStatus.OK, headers: Headers = ()) -> HttpResponse:
    """A page. Text that UTF-8 cannot express becomes a question mark."""
    policy = ("Content-Security-Policy", content_security_policy())
    return HttpResponse(status, (("Content-Type", _HTML), *_SAFE, policy, *headers), html.encode("utf-8", "replace"))


def document(body: bytes, asked: Message) -> HttpResponse:
    """A JSON document, or 304 without a body if the client has it."""
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = (*_SAFE, ("ETag", tag))
    if _is_known(tag, asked.get("If-None-Match", "")):
        return HttpResponse(HTTPStatus.NOT_MODIFIED, headers, b"")
    return HttpResponse(HTTPStatus.OK, (("Content-Type", _JSON), *headers), body)


def failure(
    status: HTTPStatus, detail: str, *, as_json: bool, prefix: str, allowed: list[str] | None = None, login: str = ""
) -> HttpResponse:
    """An error for a program or a person. `allowed` is what the query may have, `login` how to log in."""
    headers: Headers = ()
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers += (_ASK_AGAIN,)
    if login:
        headers += ((_LOGIN, login),)
    problem = Problem(title=status.phrase, status=int(status), detail=detail, allowed=allowed or [])
    if as_json:
        return HttpResponse(status, (("Content-Type", _PROBLEM), *_SAFE, *headers), msgspec.json.encode(problem))
    return page(error_page(problem, prefix), status, headers)


def _is_known(tag: str, given: str) -> bool:
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in given.split(","))
