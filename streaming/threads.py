"""The threads that run next to the query, and the orderly end of the process on SIGTERM or SIGINT."""

import os
import signal
import threading
import time

# `timeout` and some terminals signal both the process and its group, so the process receives one signal twice.
_SAME_S = 1.0


class Background:
    """Runs `_run` of a subclass in a thread. `_run` must return soon after `_stop` is set."""

    def __init__(self, name: str, ends_within_s: float = 2.0) -> None:
        self._ends_within_s = ends_within_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end. Does nothing if it was never started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._ends_within_s)

    def _run(self) -> None:
        raise NotImplementedError


class Stopped(Exception):  # noqa: N818 - asked to end, which is no error
    """The process was asked to stop while it waited."""


class Stop:
    """An event that a signal sets and every wait observes. A second signal ends the process at once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._signalled_at = 0.0

    def install(self) -> None:
        """Install handlers for SIGTERM and SIGINT. Call it from the main thread only."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def wait(self, seconds: float) -> bool:
        """Wait for some seconds; return True as soon as the process should stop."""
        return self._event.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Wait for some seconds. Raises Stopped as soon as the process should stop."""
        if self.wait(seconds):
            raise Stopped

    def set(self) -> None:
        self._event.set()

    def _signalled(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        if not self._event.is_set():
            self._signalled_at = now
            self._event.set()
        elif now - self._signalled_at >= _SAME_S:
            # The JVM ends when its standard input, a pipe from this process, closes.
            os._exit(128 + number)
