"""Bounds the whole of a call.

The timeout of a socket bounds each wait for bytes, not their sum, and does not cover the look-up of a name. A proxy
that sends a byte now and then would hold a receiver up for ever.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")

# A call that exceeds its time cannot be ended from outside, so it is left to itself, but not without bound.
_HANGING_MOST = 4

_hanging: dict[str, list[threading.Thread]] = {}
_lock = threading.Lock()


class HangingError(OSError):
    """Earlier calls still wait for their answers, and nothing was sent."""


def within(name: str, seconds: float, work: Callable[[], _T]) -> _T:
    """What `work` returns or raises. Raises TimeoutError when it takes longer than that, HangingError when too many
    calls of that name still hang.
    """
    with _lock:
        alive = [thread for thread in _hanging.pop(name, ()) if thread.is_alive()]
        if alive:
            _hanging[name] = alive
        if len(alive) >= _HANGING_MOST:
            raise HangingError(f"{len(alive)} earlier calls still wait for an answer")
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
