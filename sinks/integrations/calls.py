"""What calls of all receivers have in common: a limit of the total time, the meaning of a failed connection, and
Retry-After.

A socket's timeout limits each wait for bytes, not their sum, and does not cover name resolution. A proxy that sends a
byte now and then would block a receiver for ever.
"""

import http.client
import socket
import ssl
import threading
import time
import urllib.error
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import TypeVar

from sinks.contract.outcome import RetryAfter, Unknown

_T = TypeVar("_T")
Headers = Mapping[str, str] | Message

# A call that exceeds its time cannot be stopped from outside. It is abandoned, up to this number of calls.
_HANGING_MOST = 4
_RATE_LIMIT_DEFAULT_S, _WAIT_MOST_S = 30.0, 3600.0

_hanging: dict[str, list[threading.Thread]] = {}
_lock = threading.Lock()


class HangingError(OSError):
    """Earlier calls still wait for their responses, and nothing was sent."""


def within(name: str, seconds: float, work: Callable[[], _T]) -> _T:
    """Run `work` in a thread and return or raise its result.

    Raises TimeoutError if it takes longer than `seconds`, and HangingError if too many calls with this name still hang.
    """
    with _lock:
        alive = [thread for thread in _hanging.pop(name, ()) if thread.is_alive()]
        if alive:
            _hanging[name] = alive
        if len(alive) >= _HANGING_MOST:
            raise HangingError(f"{len(alive)} earlier calls still wait for a response")
    future: Future[_T] = Future()
    thread = threading.Thread(target=_fulfil, args=(future, work), name=f"call to {name}", daemon=True)
    thread.start()
    try:
        return future.result(timeout=seconds)
    finally:
        if not future.done():
            with _lock:
                _hanging.setdefault(name, []).append(thread)


def _fulfil(future: Future[_T], work: Callable[[], _T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the caller gets it, in its own thread
        future.set_exception(error)


def classify_transport(error: OSError | http.client.HTTPException) -> RetryAfter | Unknown:
    """The outcome of a call without a response. Only a failure to connect proves that nothing was sent."""
    if isinstance(error, HangingError):
        return RetryAfter(None, str(error), "contextDeadlineExceeded")
    if isinstance(error, urllib.error.HTTPError):
        # From an upload. Nothing is visible in Slack before the call that follows it.
        return RetryAfter(None, f"Slack failed with HTTP status {error.code}", "serverError")
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    name = type(reason).__name__
    if isinstance(error, urllib.error.URLError) and not isinstance(reason, ConnectionResetError | BrokenPipeError):
        timeout = isinstance(reason, TimeoutError)
        what = "certificate not accepted" if isinstance(reason, ssl.SSLCertVerificationError) else "cannot connect"
        why = "the host name cannot be resolved" if isinstance(reason, socket.gaierror) else name
        return RetryAfter(None, f"{what}: {why}", "contextDeadlineExceeded" if timeout else "other")
    if isinstance(reason, TimeoutError):
        return Unknown("no response within the timeout", "contextDeadlineExceeded")
    return Unknown(f"connection lost: {name}", "other")


def rate_limited(headers: Headers) -> RetryAfter:
    wish = retry_after(headers, time.time())
    return RetryAfter(_RATE_LIMIT_DEFAULT_S if wish is None else wish, "rate limited", "rateLimited")


def retry_after(headers: Headers, now: float) -> float | None:
    """Seconds in the header Retry-After, a number or a date; None if it is neither. `now` is in epoch seconds."""
    value = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(value).timestamp() - now)
        except (ValueError, TypeError, OverflowError):
            return None
    # At least a second, so that 0 does not cause a busy loop. A NaN is not >= 0.
    return min(max(seconds, 1.0), _WAIT_MOST_S) if seconds >= 0 else None
