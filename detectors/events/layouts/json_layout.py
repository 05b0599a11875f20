"""Reads time, message and stack trace of a log line that is a JSON document.

Supported are log4j 1 JSONEventLayoutV1, log4j 2 JsonLayout and JsonTemplateLayout (Logstash, ECS, GELF, GCP), logback's
LogstashEncoder, and JSON written by a PatternLayout (EMR), which escapes nothing and prints the stack as raw lines
after the document. Log shippers may nest ECS's dotted keys, or put the decoded document next to their own keys.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from detectors.events.layouts import times

_MAX_CAUSES = 50

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_PATTERN = re.compile(r'\s*\{(?P<head>(?:\s*"[\w@.\-]+"\s*:\s*(?:"[^"]*"|-?[\d.]+)\s*,)+)\s*"message"\s*:\s*"')
_PATTERN_END = re.compile(r'"(?:\s*,\s*"[\w@.\-]+"\s*:\s*"[^"]*"){0,9}\s*\}\s*$')
_MAX_END = 500
_PATTERN_LEVEL = re.compile(r'"(?:level|severity)"')
_PATTERN_TIME = re.compile(r'"(?:timestamp|@timestamp|time|date|datetime)"\s*:\s*"([^"]*)"')


class LoggedLine(NamedTuple):
    """A line in a JSON layout. `time` is UTC if `zoned`, else local time read as UTC; -1 if there is none."""

    message: str
    time: int
    zoned: bool
    stack: str
    container: str
    host: str


def read(line: str | bytes) -> LoggedLine | None:
    """The log line in a JSON document, or None if the document is not in a known layout."""
    try:
        document = _decode(line)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _of_pattern(line if isinstance(line, str) else line.decode(errors="replace"))
    except RecursionError:
        return None
    found = _of(document)
    if found is None and isinstance(inner := document.get("json"), dict):
        found = _of(inner)
    return found


def _of(document: dict[str, Any]) -> LoggedLine | None:
    message = next((m for k in ("message", "short_message", "msg") if isinstance(m := document.get(k), str)), None)
    log = document.get("log")
    level = document.get("level", document.get("log.level", log.get("level") if isinstance(log, dict) else None))
    level = document.get("severity") if level is None else level
    if message is None or level is None:
        return None
    time, zoned = _time(document)
    stack = "\n".join(_stack(document))
    return LoggedLine(
        message, time, zoned, stack, _text(document.get("yarnContainerId")), _text(document.get("source_host"))
    )


def _of_pattern(line: str) -> LoggedLine | None:
    """A line written by a PatternLayout: quotes in the message are not escaped, and its end may be missing."""
    found = _PATTERN.match(line)
    if found is None or not _PATTERN_LEVEL.search(found["head"]):
        return None
    time = _PATTERN_TIME.search(found["head"])
    if time is None:
        return None
    message = line[found.end() :]
    end = _PATTERN_END.search(message, max(0, len(message) - _MAX_END))
    return LoggedLine(message if end is None else message[: end.start()], *times.of_text(time[1]), "", "", "")


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(document: dict[str, Any]) -> tuple[int, bool]:
    """The layout's own time. `@timestamp` is tried late, since a shipper may have put its own time there."""
    instant = document.get("instant")
    if isinstance(instant, dict):
        second, nano = instant.get("epochSecond"), instant.get("nanoOfSecond", 0)
        if isinstance(second, int) and isinstance(nano, int) and (ms := times.of_number(second)) > 0:
            return ms + nano // 1_000_000 % 1000, True
    for key in ("timeMillis", "timestamp", "@timestamp", "time"):
        value = document.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and (ms := times.of_number(value)) > 0:
            return ms, True
        if isinstance(value, str) and (found := times.of_text(value))[0] >= 0:
            return found
    return -1, False


def _stack(document: dict[str, Any]) -> Iterator[str]:
    """The lines of the throwable, from the field where the layout puts it; empty if there is none."""
    error, exception, own = document.get("error"), document.get("exception"), document.get("_exception")
    for found in (
        document.get("thrown"),
        document.get("stack_trace"),
        document.get("error.stack_trace"),
        error.get("stack_trace") if isinstance(error, dict) else None,
        exception.get("stacktrace", exception.get("stackTrace")) if isinstance(exception, dict) else exception,
        own.get("stackTrace") if isinstance(own, dict) else None,
        document.get("stacktrace"),
        document.get("throwable"),
        document.get("full_message"),
    ):
        if found:
            yield from _lines_of(found)
            return


def _lines_of(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        yield from (line for line in found if isinstance(line, str))
    elif isinstance(found, dict):
        yield from _thrown(found)


def _thrown(thrown: dict[str, Any] | None) -> Iterator[str]:
    """A throwable as log4j's JsonLayout writes it, in the form that Java prints."""
    for number in range(_MAX_CAUSES):
        if not isinstance(thrown, dict):
            return
        trace = thrown.get("extendedStackTrace", thrown.get("stackTrace"))
        if isinstance(trace, str):
            yield trace
            return
        message = _text(thrown.get("message")) or _text(thrown.get("localizedMessage"))
        head = f"{_text(thrown.get('name'))}: {message}" if message else _text(thrown.get("name"))
        yield f"Caused by: {head}" if number else head
        for frame in trace if isinstance(trace, list) else ():
            if isinstance(frame, dict):
                where = f"{_text(frame.get('file')) or 'Unknown Source'}:{frame.get('line')}"
                yield f"\tat {_text(frame.get('class'))}.{_text(frame.get('method'))}({where})"
        thrown = thrown.get("cause")
