"""Copies what Spark's JVM and the Python workers write to stderr into flinkwatch's own log."""

import threading
from collections.abc import Iterable

import structlog

from streaming.logs import is_event, logs_json, write_line

log = structlog.get_logger()

# Lines of every start, without use for the reader.
_NOISE = (
    "WARNING: Using incubator modules",
    "Setting default log level to ",
    "To adjust logging level use ",
    "WARNING: package sun.security.action not in java.base",
    "Using Spark's default log4j profile",
    "Streaming TransformWithStateInPandas Python worker",
    "Starting Streaming TransformWithState",
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
    # From a batch that was stopped; the query has the reason.
    'Exception in thread "stateConnectionListenerThread"',
    # Lines of stack traces outside of a logger. Their first line is kept.
    "\tat ",
    "\t... ",
)
_TRACEBACK = "Traceback (most recent call last):"


class JvmLog:
    """Reads `lines` to their end in a thread of its own, since a full pipe would block the JVM."""

    def __init__(self, lines: Iterable[bytes] | None = None) -> None:
        self.quiet = False
        self.last = ""
        """The last line that is not noise, for the error message of a JVM that does not start."""
        self._in_traceback = False
        if lines is not None:
            threading.Thread(target=self._read, args=(lines,), name="jvm-log", daemon=True).start()

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.take(line.decode(errors="replace").rstrip())

    def take(self, line: str) -> None:
        """Log one line: as it is if it is JSON or the log is text, else as a field of an event."""
        if not line.strip() or line.startswith(_NOISE) or self._continues_traceback(line):
            return
        self.last = line
        if self.quiet:
            return
        if not logs_json() or is_event(line):
            write_line(line)
        else:
            log.warning("output of Spark", line=line)

    def _continues_traceback(self, line: str) -> bool:
        """Whether a line belongs to a traceback of a Python worker, of which only the exception is kept."""
        self._in_traceback = line == _TRACEBACK or (self._in_traceback and line.startswith("  "))
        return self._in_traceback
