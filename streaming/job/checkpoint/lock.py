"""Prevents that two jobs use the same local checkpoint, where they would overwrite each other's batches."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from streaming.errors import PreflightError
from streaming.threads import Stop

log = structlog.get_logger()

_EVERY_S = 0.2


class CheckpointLock:
    """An advisory lock on a file in the checkpoint. The JVM inherits it, so it is held until both processes end."""

    NAME = "flinkwatch.lock"

    def __init__(self, folder: Path) -> None:
        self._file = folder / self.NAME
        self.descriptor: int | None = None
        """The open file, for the JVM to inherit; None if the storage has no locks."""

    @contextmanager
    def held(self, within: float, stop: Stop | None = None) -> Iterator["CheckpointLock"]:
        """Hold the lock; wait at most `within` seconds for another process. Raises PreflightError, Stopped."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._take(self.descriptor, time.monotonic() + within, stop or Stop())
        except OSError as error:
            # If the folder cannot be written, the check of the checkpoint reports it.
            log.debug("cannot lock the checkpoint", reason=str(error))
        try:
            yield self
        finally:
            if self.descriptor is not None:
                os.close(self.descriptor)
                self.descriptor = None

    def _take(self, descriptor: int, deadline: float, stop: Stop) -> None:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PreflightError(self._in_use(descriptor)) from None
                stop.pause(_EVERY_S)
            else:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return

    def _in_use(self, descriptor: int) -> str:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace")
        return (
            f"streaming.checkpoint: {self._file.parent} is in use by another flinkwatch (process {owner}). Stop that "
            "process, or set another streaming.checkpoint and kafka.topics.prefix for this one"
        )
