"""The end of a long-running command: SIGTERM and SIGINT."""

import os
import signal
import threading
import time

# `timeout` and some terminals send one signal to the process and to its group: the process has it twice.
_SAME_S = 1.0


class Stopped(Exception):  # noqa: N818 - asked to end, which is no error
    """The process is to end while it waits."""


class Stop:
    """Set by a signal; everything that waits, waits on it. A second signal ends the process at once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._signalled_at = 0.0

    def install(self) -> None:
        """Take over SIGTERM and SIGINT; only in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    def wait(self, seconds: float) -> bool:
        """True as soon as the process is to end."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raises Stopped when the process is to end."""
        if self._event.is_set():
            raise Stopped

    def set(self) -> None:
        self._event.set()

    def _signalled(self, number: int, _frame: object) -> None:
        now = time.monotonic()
        if not self._event.is_set():
            self._signalled_at = now
            self._event.set()
        elif now - self._signalled_at >= _SAME_S:
            # The JVM ends with the pipe that its standard input is.
            os._exit(128 + number)
