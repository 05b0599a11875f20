"""flinkwatch's own log: text on a terminal, JSON elsewhere. One line per event: a constant sentence and fields."""

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
    return _json


def write_line(line: str) -> None:
    """Write one line to stderr. If the disk is full or the pipe closed, the line is lost and no error is raised."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        # There is no other place to report it. The buffered text is written with the next line.
        return


class _Lines:
    """The logger that structlog prints to. It never raises in the thread that logs."""

    def __init__(self, *_: object) -> None:
        pass

    def msg(self, message: str) -> None:
        write_line(message)

    debug = info = warning = warn = error = err = critical = fatal = failure = exception = log = msg


class JsonStderr(io.TextIOBase):
    """Standard error of a process that logs JSON: lines printed by other code become JSON events."""

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
    if not line.startswith("{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def keep_one_form() -> None:
    """If the log is JSON, turn every line that this process prints to stderr into JSON from now on."""
    if _json and not isinstance(sys.stderr, JsonStderr):
        sys.stderr = JsonStderr(sys.stderr)


def _as_event(line: str) -> str:
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": line, "level": "error", "timestamp": now})


class _StructlogHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        # py4j logs to the root logger what it also raises.
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
        # structlog's default tracebacks show local variables, which may be passwords.
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
    # The Kafka clients retry and finally raise, so their warnings add nothing.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
