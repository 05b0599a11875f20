"""The end of a long-running command: SIGTERM and SIGINT."""

import signal
import threading


class Stop:
    """Set by a signal; everything that waits, waits on it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def install(self) -> None:
        """Take over SIGTERM and SIGINT; only in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._event.set())

    def wait(self, seconds: float) -> bool:
        """True as soon as the process is to end."""
        return self._event.wait(seconds)

    def set(self) -> None:
        """End."""
        self._event.set()
