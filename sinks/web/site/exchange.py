"""A request to the HTTP server and its response, as values."""

from collections.abc import Callable
from email.message import Message
from http import HTTPStatus
from typing import NamedTuple


class HttpRequest(NamedTuple):
    """`path` and `query` are as the client sent them, still percent-encoded."""

    path: str
    query: str
    headers: Message


class HttpResponse(NamedTuple):
    """The server adds Content-Length, and leaves out the body of an answer to HEAD."""

    status: HTTPStatus
    headers: tuple[tuple[str, str], ...]
    body: bytes


Responder = Callable[[HttpRequest], HttpResponse | None]
"""Answers a request; None leaves the request to the server."""
