"""Shifts a recording to start now: Kafka's timestamps and the times inside the records, by whole seconds.

Times are recognised by their form, ISO 8601 dates (with a blank or a T) and epochs in seconds, milliseconds or
nanoseconds, and must be near the time of the recording. Fractions of seconds and zones are kept.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from detectors.events.event import Record

# A printed time may be in any zone, up to half a day away from UTC.
_NEAR_S = 26 * 3600
_TIMES = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|(?<![\w.])\d{10}(?:\d{3}|\d{9})?(?!\w)")


def redated(records: Sequence[Record], now: int) -> Iterator[Record]:
    """The records, shifted so that the first is at `now` (epoch ms) or up to a second later."""
    first, last = records[0].timestamp // 1000, records[-1].timestamp // 1000
    by = -(-(now - records[0].timestamp) // 1000)
    move = partial(_moved, between=(first - _NEAR_S, last + _NEAR_S), by=by)
    for record in records:
        value = _TIMES.sub(move, record.value) if record.value is not None else None
        yield msgspec.structs.replace(record, timestamp=record.timestamp + by * 1000, value=value)


def _moved(found: re.Match[bytes], between: tuple[int, int], by: int) -> bytes:
    text = found[0].decode()
    if "-" not in text:
        seconds, rest = text[:10], text[10:]
        return f"{int(seconds) + by}{rest}".encode() if between[0] <= int(seconds) <= between[1] else found[0]
    try:
        at = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        return found[0]
    if not between[0] <= at.timestamp() <= between[1]:
        return found[0]
    return (at + timedelta(seconds=by)).strftime(f"%Y-%m-%d{text[10]}%H:%M:%S").encode()
