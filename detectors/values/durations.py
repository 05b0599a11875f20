"""Durations as they are written in the configuration and shown in messages."""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_OF_FLINK = re.compile(r"['\"]?(\d{1,12})\s*([a-z]*)['\"]?")
_ISO = re.compile(r"P(?:(\d{1,9})D)?T?(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})(?:\.\d+)?S)?")
_UNITS_OF_FLINK = _UNITS | {"": 1, "milli": 1, "sec": 1000, "second": 1000, "min": 60_000, "minute": 60_000}
_UNITS_OF_FLINK |= {"millisecond": 1, "hour": 3_600_000, "day": 86_400_000}

LONG_AGO = -(1 << 62)
"""Before every event time (ms); sums with it still fit into 64 bits."""


def parse_duration(value: object) -> int:
    """Milliseconds of "500ms", "30s", "5m", "24h" or "7d". Raises ValueError with a hint.

    >>> parse_duration("1.5m")
    90000
    """
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        hint = f", for instance {value}s or {value}m" if isinstance(value, int | float) or str(value).isdigit() else ""
        raise ValueError(f'is not a duration: write a number with a unit of ms, s, m, h or d, like "5m"{hint}')
    return round(float(found[1]) * _UNITS[found[2]])


def format_duration(ms: int) -> str:
    """The shortest exact form that `parse_duration` can read."""
    for unit in ("d", "h", "m", "s"):
        if ms and ms % _UNITS[unit] == 0:
            return f"{ms // _UNITS[unit]}{unit}"
    return f"{ms}ms"


Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$"}),
]
"""Milliseconds in the program, text such as "5m" in the configuration."""


def flink_duration(text: str) -> int:
    """A duration as Flink's configuration and Flink's log lines write it, in ms; 0 if it is not one.

    >>> flink_duration("30 s"), flink_duration("10min"), flink_duration("PT5M"), flink_duration("Inf")
    (30000, 600000, 300000, 0)
    """
    text = text.strip()
    if iso := _ISO.fullmatch(text):
        days, hours, minutes, seconds = (int(part or 0) for part in iso.groups())
        return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000
    found = _OF_FLINK.fullmatch(text.lower())
    if found is None:
        return 0
    return int(found[1]) * _UNITS_OF_FLINK.get(found[2], _UNITS_OF_FLINK.get(found[2].removesuffix("s"), 0))


def roughly(ms: float) -> str:
    """A duration that is only estimated, in one unit.

    >>> roughly(5_400), roughly(312_000), roughly(3_520_000), roughly(64_560_000), roughly(900_000_000)
    ('5.4 s', '5 min', '59 min', '18 h', '10 d')
    """
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms / size:.0f} {unit}"
    return humanize(ms)


def humanize(ms: float) -> str:
    """A duration for messages, rounded to about two significant digits.

    >>> humanize(240), humanize(1234), humanize(22_400), humanize(200_000), humanize(7_500_000)
    ('0.24 s', '1.2 s', '22 s', '3 min 20 s', '2 h 5 min')
    """
    seconds = max(ms, 0) / 1000
    if seconds < 9.95:
        return f"{seconds:.2g} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
