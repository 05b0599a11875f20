"""How flinkwatch itself logs: readable text on a terminal, JSON elsewhere; one line per event, a constant
sentence plus fields.
"""

import io
import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

from streaming.terminal import printable_fields

_json = False


def logs_json() -> bool:
    """Whether every line on stderr is to be a JSON object."""
    return _json


def write_line(line: str) -> None:
    """One line on stderr. A full disk or a closed pipe loses the line and stops nothing."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        # There is no place left to report it; what the buffer kept is written with the next line that can be.
        return


class _Lines:
    """What structlog prints to: a logger must never raise in the thread that logs."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, message: str) -> None:
        write_line(message)

    debug = info = warning = warn = error = err = critical = fatal = failure = exception = log = msg


class JsonStderr(io.TextIOBase):
    """Standard error of a process that logs JSON: a line that anything else prints becomes an event, too."""

    def __init__(self, inner: TextIO) -> None:
        self._inner = inner
        self._begun = threading.local()

    def write(self, text: str) -> int:
        *lines, self._begun.text = (getattr(self._begun, "text", "") + text).split("\n")
        for line in filter(str.strip, lines):
            self._inner.write((line if is_event(line) else _as_event(line)) + "\n")
        return len(text)

    def flush(self) -> None:
        self._inner.flush()

    def fileno(self) -> int:
        return self._inner.fileno()


def is_event(line: str) -> bool:
    """Whether a line is a JSON object."""
    if not line.startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def keep_one_form() -> None:
    """From now on nothing in this process prints anything but JSON to stderr, if that is the form of the log."""
    if _json and not isinstance(sys.stderr, JsonStderr):
        sys.stderr = JsonStderr(sys.stderr)


def _as_event(line: str) -> str:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": line, "level": "error", "timestamp": now})


class _StructlogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # What py4j logs with a traceback it also raises; it uses the root logger.
        if f"{os.sep}py4j{os.sep}" not in record.pathname:
            write_line(self.format(record))


def configure_logs(log_format: str = "auto") -> None:
    """Set up structlog and the standard library's logging (kafka-python, py4j) to write to stderr in one form."""
    global _json  # noqa: PLW0603 - set once, at start
    text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    _json = not text
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: list[Any] = [structlog.processors.format_exc_info]
    if text:
        # Its own tracebacks show local variables, among them passwords.
        console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        renderer += [printable_fields, console]
    else:
        renderer.append(structlog.processors.JSONRenderer())
    structlog.configure(
        processors=[*shared, *renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=_Lines,
    )
    handler = _StructlogHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer], foreign_pre_chain=shared
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # Its clients retry by themselves, and what they give up on they raise.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
