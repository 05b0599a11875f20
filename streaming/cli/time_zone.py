"""The zone of `--time-zone`: a name such as Europe/Berlin, or an offset such as +08:00."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d\d))?")
_HOUR_MS = 3_600_000


class TimeZone(NamedTuple):
    """A zone: its name, `zone` (the UTC offset in ms of a local time), and `offset` (the one that applies now)."""

    name: str
    zone: Callable[[int], int]
    offset: int


class ZoneOption(click.ParamType[TimeZone]):
    name = "zone"

    def convert(self, value: Any, param: Any, ctx: Any) -> TimeZone:
        found = _zone(value.strip())
        if found is None:
            known = "write a name such as Europe/Berlin, or an offset such as +08:00"
            self.fail(f"unknown time zone {value.strip()!r}: {known}", param, ctx)

        @cache
        def in_hour(hour: int) -> int:
            return _ms(datetime.fromtimestamp(hour * _HOUR_MS / 1000, UTC).replace(tzinfo=found).utcoffset())

        return TimeZone(value.strip(), lambda local: in_hour(local // _HOUR_MS), _ms(datetime.now(found).utcoffset()))


def _ms(offset: timedelta | None) -> int:
    return round((offset or timedelta()).total_seconds() * 1000)


def _zone(text: str) -> tzinfo | None:
    if text.upper() in ("UTC", "Z", "GMT"):
        return UTC
    if (found := _OFFSET.fullmatch(text)) is not None and int(found[2]) <= 15:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
