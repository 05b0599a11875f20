"""Converts times in logs and metrics to epoch milliseconds."""

import re
from calendar import timegm
from datetime import datetime
from functools import lru_cache

_TEXT = re.compile(r"\s*(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s*(Z|[+-]\d\d:?\d\d)?\s*$", re.ASCII)


@lru_cache(maxsize=4096)
def of_second(text: str) -> int:
    """Epoch ms of "yyyy-MM-dd HH:mm:ss" read as UTC; -1 if there is no such time."""
    try:
        return timegm(datetime.fromisoformat(text).timetuple()) * 1000
    except ValueError:
        return -1


def of_zone(text: str) -> int:
    """Offset in ms of a printed zone: "Z", "+0100", "-05:30".

    >>> of_zone("-05:30")
    -19800000
    """
    if text == "Z":
        return 0
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return (-minutes if text[0] == "-" else minutes) * 60_000


def of_text(text: str) -> tuple[int, bool]:
    """(ms, whether it is UTC) of a printed time: without a zone it is local time read as UTC. (-1, False) if none.

    >>> of_text("2026-11-21T01:06:25.154+0100")
    (1795219585154, True)
    >>> of_text("2020-08-25 04:55:27,399")
    (1598331327399, False)
    """
    found = _TEXT.match(text)
    second = of_second(found[1]) if found is not None else -1
    if found is None or second < 0:
        return -1, False
    ms = second + int((found[2] or "0").ljust(3, "0")[:3])
    return (ms - of_zone(found[3]), True) if found[3] else (ms, False)


def of_number(number: float) -> int:
    """Epoch ms of a number of seconds, ms, us or ns, distinguished by size; 0 if it is too large."""
    for limit, scale in ((1e11, 1000.0), (1e14, 1.0), (1e17, 1e-3), (1e20, 1e-6)):
        if abs(number) < limit:
            return round(number * scale)
    return 0
