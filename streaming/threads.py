"""What goes on beside the query in a thread of its own."""

import threading


class Background:
    """`_run` of a subclass, from `start` on; it ends soon after `_stop` is set."""

    def __init__(self, name: str, ends_within_s: float = 2.0) -> None:
        self._ends_within_s = ends_within_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End; nothing to do when it never began."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._ends_within_s)

    def _run(self) -> None:
        raise NotImplementedError
