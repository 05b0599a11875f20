"""Base class of the threads that run next to the query."""

import threading


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
