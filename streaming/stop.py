"""The end of a long-running command: SIGTERM and SIGINT."""

import os
import signal
import threading


class Stopped(Exception):  # noqa: N818 - asked to end, which is no error
    """The process is to end while it waits."""


class Stop:
    """Set by a signal; everything that waits, waits on it. A second signal ends the process at once."""

    def __init__(self) -> None:
        self._event = threading.Event()

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
        """End."""
        self._event.set()

    def _signalled(self, number: int, _frame: object) -> None:
        if self._event.is_set():
            # The JVM ends with the pipe that its standard input is.
            os._exit(128 + number)
        self._event.set()
