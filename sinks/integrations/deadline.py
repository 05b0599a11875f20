"""Limits the total time of a call.

A socket's timeout limits each wait for bytes, not their sum, and does not cover name resolution. A proxy that sends a
byte now and then would block a receiver for ever.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")

# A call that exceeds its time cannot be stopped from outside. It is abandoned, up to this number of calls.
_HANGING_MOST = 4

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
