"""How flinkwatch itself logs: readable text on a terminal, JSON elsewhere; one line per event, a constant
sentence plus fields.
"""

import logging
import sys
from typing import Any

import structlog

from streaming.terminal import printable_fields


def configure_logs(log_format: str = "auto") -> None:
    """Set up structlog and the standard library's logging (kafka-python, py4j) to write to stderr in one form."""
    text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
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
