"""How flinkwatch itself logs: readable text on a terminal, JSON elsewhere; one line per event, a constant
sentence plus fields.
"""

import logging
import sys
from typing import Any

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


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
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
    handler = _Handler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer], foreign_pre_chain=shared
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    # What it logs with a traceback it also raises.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    # Its clients retry by themselves, and what they give up on they raise.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
