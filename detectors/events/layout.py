"""One physical log line → its time and its message.

Layouts: L1 `%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n` (log4j 1, Flink ≤ 1.10), L2 the same with `[]` for %x
(log4j 2, Flink ≥ 1.11), L3 logback's `%d{…SSS} [%thread] %-5level %logger{60} %X{sourceThread} - %msg`.
The padding may have been eaten by a shipper, and a colour code may stand anywhere.
"""

import re
from calendar import timegm
from datetime import datetime

_HEAD = re.compile(
    r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[,.](\d{3}) +"
    r"(?:\[.{0,200}?\] +)?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +\S+ +(?:\[.{0,200}?\] +|\S+ +)?- "
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")

_seconds: dict[str, int] = {}


def _epoch_ms_of_second(text: str) -> int:
    """Epoch ms of "yyyy-MM-dd HH:mm:ss" read as UTC; -1 when there is no such time. Lines share seconds: cached."""
    found = _seconds.get(text)
    if found is None:
        if len(_seconds) > 4096:
            _seconds.clear()
        try:
            found = timegm(datetime.fromisoformat(text).timetuple()) * 1000
        except ValueError:
            found = -1
        _seconds[text] = found
    return found


def split(line: str) -> tuple[int, str] | None:
    """(local time in ms as if UTC or -1, message), or None when the line has no head (a stack line, a native print).

    >>> split("2018-11-29 18:43:04,624 INFO  o.a.f.r.checkpoint.CheckpointCoordinator - Checkpoint 224 expired")
    (1543516984624, 'Checkpoint 224 expired')
    """
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    head = _HEAD.match(line)
    if head is None:
        return None
    second = _epoch_ms_of_second(head[1])
    return (second + int(head[2]) if second >= 0 else -1), line[head.end() :]
