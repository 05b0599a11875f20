"""What Spark's JVM and the Python workers write to stderr, as lines of flinkwatch's own log."""

import threading
from collections.abc import Iterable

import structlog

from streaming.logs import is_event, logs_json, write_line

log = structlog.get_logger()

# Said at every start, and nothing to act on.
_NOISE = (
    "WARNING: Using incubator modules",
    "Setting default log level to ",
    "To adjust logging level use ",
    "WARNING: package sun.security.action not in java.base",
    "Using Spark's default log4j profile",
    "Streaming TransformWithStateInPandas Python worker",
    "Starting Streaming TransformWithState",
    # Of a batch that was ended; the query says why.
    'Exception in thread "stateConnectionListenerThread"',
    # Stack traces that no logger has written. Their first line is kept.
    "\tat ",
    "\t... ",
)


class JvmLog:
    """Reads `lines` until they end, in a thread of its own: a pipe that no one empties would hold the JVM."""

    def __init__(self, lines: Iterable[bytes] | None = None) -> None:
        self.quiet = False
        self.last = ""
        """The last line that means something, for the error of a JVM that does not start."""
        if lines is not None:
            threading.Thread(target=self._read, args=(lines,), name="jvm-log", daemon=True).start()

    def _read(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.take(line.decode(errors="replace").rstrip())

    def take(self, line: str) -> None:
        """One line: passed on when it is JSON already or a person reads it, wrapped when it is not."""
        if not line.strip() or line.startswith(_NOISE):
            return
        self.last = line
        if self.quiet:
            return
        if not logs_json() or is_event(line):
            write_line(line)
        else:
            log.warning("spark", line=line)
