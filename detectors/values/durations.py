"""Durations as they are written in the configuration and shown in messages."""

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


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
