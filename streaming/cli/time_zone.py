"""The zone of `--time-zone`: a name such as Europe/Berlin, or an offset such as +08:00."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")
_HOUR_MS = 3_600_000


class TimeZone(NamedTuple):
    """A zone: its name, `zone` (the UTC offset in ms of a local time), and `offset` (the one that applies now)."""

    name: str
    zone: Callable[[int], int]
    offset: int


def zone_named(text: str) -> TimeZone:
    """The zone that a text names. Raises ValueError, which says what to write.

    >>> zone_named("+08:00").offset // 3_600_000
    8
    """
    found = _zone(text.strip())
    known: dict[int, int] = {}

    def offset(local: int) -> int:
        hour = local // _HOUR_MS
        if hour not in known:
            time = datetime.fromtimestamp(hour * _HOUR_MS / 1000, UTC).replace(tzinfo=found)
            known[hour] = round((time.utcoffset() or timedelta()).total_seconds() * 1000)
        return known[hour]

    now = datetime.now(found).utcoffset() or timedelta()
    return TimeZone(text.strip(), offset, round(now.total_seconds() * 1000))


def _zone(text: str) -> tzinfo:
    if text.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if (found := _OFFSET.fullmatch(text)) is not None and int(found[2]) <= 15:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"unknown time zone {text!r}: write a name such as Europe/Berlin, or an offset such as +08:00"
        ) from None
