"""Requests to a Prometheus server's HTTP API, which Thanos, Mimir and VictoriaMetrics serve as well.

A request is repeated if the server does not answer or is overloaded. Redirects are not followed, because they would
send the credentials elsewhere.
"""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from sinks.integrations.http_post import NoRedirect
from streaming.errors import RecordingError

_TIMEOUT_S = 120
_PAUSES_S = (1.0, 2.0, 4.0, 8.0)
_MAX_ANSWER = 64 << 20
_SHOWN = 300
_LATER = frozenset({408, 429, 500, 502, 503, 504})
_REASONS = {
    401: "the server wants other credentials: --prometheus-auth names a file with them",
    403: "the server wants other credentials: --prometheus-auth names a file with them",
    404: "there is no Prometheus at this address; its path may have a prefix, such as /prometheus",
    405: "there is no Prometheus at this address; its path may have a prefix, such as /prometheus",
}

Answer = TypeVar("Answer")


class PrometheusError(RecordingError):
    """The server cannot be read; the message names it and the reason."""


class TooManySamplesError(PrometheusError):
    """The answer has more samples than the server or flinkwatch permits: ask for a shorter time."""


class ScrapedSeries(msgspec.Struct):
    """One series: its labels with `__name__`, and its samples as (epoch seconds, value)."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct):
    result: list[ScrapedSeries]


class _Samples(msgspec.Struct):
    data: _Matrix


class _Names(msgspec.Struct):
    data: list[str]


class _Failure(msgspec.Struct):
    error: str = ""
    error_type: str = msgspec.field(default="", name="errorType")


_opener = urllib.request.build_opener(NoRedirect)


class PrometheusApi:
    """One server. `authorization` gives the header of that name, read again for each request; "" for none."""

    def __init__(
        self, url: str, authorization: Callable[[], str] = lambda: "", pause: Callable[[float], object] = time.sleep
    ) -> None:
        self._url = _checked(url)
        self._authorization = authorization
        self._pause = pause

    @property
    def name(self) -> str:
        """The address without its scheme."""
        return self._url.partition("://")[2]

    def samples(self, selector: str, begin: int, end: int) -> list[ScrapedSeries]:
        """The samples of a selector from `begin` to `end` (epoch ms), as they were scraped.

        Whether `begin` itself is part of it differs between versions of Prometheus. Raises PrometheusError, or
        TooManySamplesError.
        """
        asked = {"query": f"{selector}[{end - begin}ms]", "time": f"{end / 1000:.3f}"}
        return self._ask("/api/v1/query", urlencode(asked).encode(), _Samples).data.result

    def names(self, selector: str, begin: int, end: int) -> list[str]:
        """The names of the metrics that match a selector from `begin` to `end` (epoch ms). Raises PrometheusError."""
        asked = {"match[]": selector, "start": f"{begin / 1000:.3f}", "end": f"{end / 1000:.3f}"}
        return self._ask(f"/api/v1/label/__name__/values?{urlencode(asked)}", None, _Names).data

    def _ask(self, path: str, form: bytes | None, shape: type[Answer]) -> Answer:
        for pause in (*_PAUSES_S, None):
            try:
                return msgspec.json.decode(self._body(path, form), type=shape)
            except urllib.error.HTTPError as error:
                with error:
                    failure = self._failure(error)
                if error.code not in _LATER or pause is None or isinstance(failure, TooManySamplesError):
                    raise failure from None
            except (OSError, http.client.HTTPException) as error:
                if pause is None:
                    raise self._error(f"it does not answer: {getattr(error, 'reason', '') or error}") from None
            except msgspec.MsgspecError:
                raise self._error("its answer is not that of Prometheus's HTTP API") from None
            self._pause(pause)
        raise AssertionError("the last round returns or raises")

    def _body(self, path: str, form: bytes | None) -> bytes:
        head: Mapping[str, str] = {"User-Agent": "flinkwatch"}
        if authorization := self._authorization():
            head = {**head, "Authorization": authorization}
        request = urllib.request.Request(f"{self._url}{path}", data=form, headers=dict(head))  # noqa: S310 - checked
        with _opener.open(request, timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read(_MAX_ANSWER + 1)
        if len(body) > _MAX_ANSWER:
            raise self._too_many()
        return body

    def _failure(self, error: urllib.error.HTTPError) -> PrometheusError:
        try:
            found = msgspec.json.decode(error.read(), type=_Failure)
        except (msgspec.MsgspecError, OSError, http.client.HTTPException):
            found = _Failure()
        if found.error_type == "timeout" or "too many samples" in found.error:
            return self._too_many()
        if 300 <= error.code < 400:
            return self._error(f"the address has moved to {error.headers.get('Location', '')[:_SHOWN]}")
        reason = _REASONS.get(error.code, "")
        detail = found.error[:_SHOWN]
        return self._error(f"HTTP status {error.code}: " + (": ".join(filter(None, (reason, detail))) or error.reason))

    def _too_many(self) -> TooManySamplesError:
        text = f"Prometheus at {self.name}: too many samples; --match selects those of fewer series"
        return TooManySamplesError(text)

    def _error(self, reason: str) -> PrometheusError:
        return PrometheusError(f"Prometheus at {self.name}: {reason}")


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment:
        raise PrometheusError(f"{url}: not the address of a server, such as http://prometheus:9090")
    if parts.username is not None:
        raise PrometheusError("the address of Prometheus has a password in it: write it into a file, --prometheus-auth")
    return url.rstrip("/")
