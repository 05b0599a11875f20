"""Reads time and message of a log line in a text layout.

Layouts: L1 `%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n` (log4j 1, Flink ≤ 1.10), L2 the same with `[]` for %x
(log4j 2, Flink ≥ 1.11), L3 logback's `%d{…SSS} [%thread] %-5level %logger{60} %X{sourceThread} - %msg`, and YARN's
three: `%c{2} (%F:%M(%L)) - %m`, EMR's `%c (%t): %m` and Hadoop's own `%c: %m`. A log shipper may have removed the
padding. There may be a time zone after the time, colour codes anywhere, and an editor's line number in front.

Custom patterns are read if they begin with a time and a level, in any order, with or without brackets, thread and
logger. The time must have a date with the year first.
"""

import re

from detectors.events.layouts import escaped_breaks, times

_HEAD = (
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](\d{3})\d*(?: ?(Z|[+-]\d\d:?\d\d))? +"
    r"(?:\[.{0,200}?\] +)?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +"
    r"(?:\[.{0,200}?\] +)?[^\s:]+(?: +(?:\[.{0,200}?\] +|\S+ +)?- |(?: +\(.{0,200}?\))?: )"
)
_match_head = re.compile(_HEAD).match
# Only the default layouts. This is tried first, because it is a third cheaper.
_match_usual = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](\d{3}) +"
    r"(?:\[.{0,200}?\] +)?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +[^\s:]+ +(?:\[.{0,200}?\] +|\S+ +)?- "
).match
_LEVEL = r"\[? *(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL) *\]?:? +"
_EXTRA = r"(?:\[[^\]]{0,200}\] +|\| +){0,4}"
_match_loose = re.compile(
    rf"(?P<first>{_LEVEL})?\[?(?:(\d{{2,4}}[-/.]\d\d[-/.]\d{{2,4}})[ T])?(\d\d:\d\d:\d\d)(?:[,.](\d{{3}})\d*)?"
    rf"(?: ?(Z|[+-]\d\d:?\d\d))?\]? +{_EXTRA}(?(first)|{_LEVEL}){_EXTRA}"
    r"(?:\S+(?: +\[[^\]]{0,200}\])* +- |[\w$]+(?:\.[\w$]+)+ *: |\S+ +\| )?"
).match
_of_second = times.of_second
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = re.compile(r"\s*\d{1,7} (?=\s|\d{4}-\d\d-\d\d|[a-z]+\.|Caused by: )|\s+(?=\d{4}-\d\d-\d\d)")
# Splits a physical line with several events: before a head, before a cause, and before a throwable after a head.
_JOINT = re.compile(
    rf"(?<=\S)\s++(?:\.\.\.\s++)*+(?={_HEAD}|Caused by: [a-z])"
    r"|(?<=[.:])(?<!Caused by:)\s+(?=(?:[a-z_]\w*\.){2,}[A-Z]\w*(?:Exception|Error)\b)"
)


def split_events(text: str) -> list[str]:
    """The lines of a text, each with at most one event.

    >>> split_events("2022-05-18 11:30:39,662 INFO a.B - x 2022-05-18 11:30:39,666 INFO a.C - y")
    ['2022-05-18 11:30:39,662 INFO a.B - x', '2022-05-18 11:30:39,666 INFO a.C - y']
    """
    lines = escaped_breaks.lines(text)
    if text.find(text[:11], 11) < 0:
        return lines
    return [part for line in lines for part in _split_joined(line)]


def _split_joined(line: str) -> list[str]:
    """The events of a line. That it may have several shows in a repeated date."""
    return _JOINT.sub("\n", line).split("\n") if line.find(line[:11], 11) >= 0 and _match_head(line) else [line]


def split(line: str) -> tuple[int, str, bool] | None:
    """(time in ms or -1, message, whether the time is UTC), or None if the line has no head.

    Without a time zone the time is local, read as if it were UTC. Stack lines and output of native code have no head.

    >>> split("2018-11-29 18:43:04,624 INFO  o.a.f.r.checkpoint.CheckpointCoordinator - Checkpoint 224 expired")
    (1543516984624, 'Checkpoint 224 expired', False)
    """
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    head = _match_usual(line)
    if head is None:
        return _split_other(line)
    second, ms = head.groups()
    time = _of_second(second)
    return (time + int(ms) if time >= 0 else -1), line[head.end() :], False


def _split_other(line: str) -> tuple[int, str, bool] | None:
    head = _match_head(line)
    if head is None:
        return _split_custom(line)
    time, message = times.of_second(head[1]), line[head.end() :]
    if time < 0:
        return -1, message, False
    time += int(head[2])
    return (time - times.of_zone(head[3]), message, True) if head[3] else (time, message, False)


def _split_custom(line: str) -> tuple[int, str, bool] | None:
    head = _match_loose(line)
    if head is None:
        return None
    date, second, ms, zone = head.groups()[1:]
    time, zoned = times.of_text(f"{date}T{second}.{ms or 0}{zone or ''}")
    return time, line[head.end() :], zoned


def without_line_number(line: str) -> str:
    """The line without an editor's line number in front, and without blanks before the date."""
    found = _NUMBER.match(line)
    return line if found is None else line[found.end() :]
