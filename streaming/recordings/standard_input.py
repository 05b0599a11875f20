"""Standard input as a log: what is there already goes into a file that can be surveyed, the rest is followed."""

import os
import queue
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from streaming.recordings.followed_log import NewBytes

_PIECE = 1 << 16
_WAITING = 1_000
_WINDOW_S = 1.0


class StandardInput:
    """What a program writes to this one, such as `kubectl logs -f`. Use it as a context manager."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._pieces: queue.Queue[bytes] = queue.Queue(_WAITING)
        self._folder = TemporaryDirectory(prefix="flinkwatch-")
        self.path = Path(self._folder.name) / "stdin"
        self.ended = False
        """Whether the program has closed it and all of it was read."""

    def __enter__(self) -> "StandardInput":
        threading.Thread(target=self._take, name="standard-input", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def backlog(self, *, whole: bool) -> Path:
        """A file with all of it if `whole`, else with what came until a second brought little."""
        with self.path.open("wb") as file:
            while not self.ended:
                size = sum(file.write(piece) for piece in self._next(_WINDOW_S))
                if not whole and size < _PIECE:
                    break
        return self.path

    def read(self) -> Iterator[NewBytes]:
        """What has come since the last call."""
        return (NewBytes(piece) for piece in self._next(0))

    def _next(self, seconds: float) -> Iterator[bytes]:
        """The pieces that come within this time, at most as many as there is room for."""
        until = time.monotonic() + seconds
        for _ in range(_WAITING):
            try:
                piece = self._pieces.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                return
            if not piece:
                self.ended = True
                return
            yield piece

    def _take(self) -> None:
        while piece := os.read(self._descriptor, _PIECE):
            self._pieces.put(piece)
        self._pieces.put(b"")
