"""Unwraps log lines in files written by kubectl, container runtimes, Docker and log shippers.

The wrapping gives pod, container and the time at which the line was written to the container's output.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from detectors.events.layouts import json_layout, stack_line, text_layout, times


class UnwrappedLine(NamedTuple):
    """The line inside a wrapping.

    `arrival` is the time in the wrapping (epoch ms, -1 without one); `host` and `container` are from the wrapping too.
    `partial`: the runtime has split the line and the rest follows. `value` is the reader's input, if it is not `text`.
    """

    text: bytes
    arrival: int = -1
    host: str = ""
    container: str = ""
    partial: bool = False
    value: bytes | None = None


Unwrap = Callable[[bytes], UnwrappedLine | None]
"""Returns the line inside, or None for a line without the wrapping."""


class WrapperFormat(NamedTuple):
    """A wrapping; `name` completes the sentence "looks like …"."""

    name: str
    unwrap: Unwrap


class LineHead(NamedTuple):
    """The beginning of a log line: its time in ms (-1 if there is none), and whether it is in UTC."""

    time: int
    zoned: bool


_PREFIX = rb"\[pod/(?P<host>[^/\]\s]+)/(?P<container>[^\]\s]+)\] ?"
_TIME = rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
_STAMP = _TIME + rb" ?"
_CRI = _TIME + rb" (?:stdout|stderr) (?:(?P<partial>P)|F)(?:\:\S*)?(?: |$)"
_COMPOSE = rb"(?P<host>[a-z0-9][\w.-]{0,100}?) *\| ?"
_QUARTER_MS = 15 * 60_000
_MAX_ZONE_MS = 15 * 3_600_000
_DOCUMENT_TIMES = ("@timestamp", "time", "timestamp", "date", "ts")


class _Docker(msgspec.Struct):
    log: str
    time: str
    stream: str = ""


_decode_docker = msgspec.json.Decoder(_Docker).decode
_decode_document = msgspec.json.Decoder(dict[str, Any]).decode


def _in_front(pattern: bytes) -> Unwrap:
    """Takes away what the pattern matches in front of a line."""
    match = re.compile(pattern).match

    def unwrap(line: bytes) -> UnwrappedLine | None:
        found = match(line)
        if found is None:
            return None
        part = {name: (value or b"").decode(errors="replace") for name, value in found.groupdict().items()}
        host, container = part.get("host", ""), part.get("container", "")
        text, arrival = line[found.end() :], times.of_text(part.get("time", ""))[0]
        return UnwrappedLine(text, arrival, host, container, partial=bool(part.get("partial")))

    return unwrap


_stamped = _in_front(_STAMP)


def _plain(line: bytes) -> UnwrappedLine | None:
    # Other output of a process may begin with a time in UTC, as log4j's own errors do.
    found = _stamped(line) if line[10:11] == b"T" else None
    return UnwrappedLine(line, found.arrival if found is not None else -1)


def _docker(line: bytes) -> UnwrappedLine | None:
    if not line.startswith(b'{"log":'):
        return None
    try:
        found = _decode_docker(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    text = found.log.encode(errors="replace")
    return UnwrappedLine(text.rstrip(b"\r\n"), times.of_text(found.time)[0], partial=not text.endswith(b"\n"))


def _shipped(line: bytes) -> UnwrappedLine | None:
    """A log shipper's JSON document. The reader decodes it; only its time and its line are read here."""
    if not line.startswith(b"{"):
        return None
    try:
        found = _decode_document(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    text = next((t for k in ("message", "log", "MESSAGE") if isinstance(t := found.get(k), str)), None)
    if text is None:
        return None
    arrival = next((ms for k in _DOCUMENT_TIMES if (ms := _time(found.get(k))) > 0), -1)
    return UnwrappedLine(text.encode(errors="replace"), arrival, value=line)


def _time(value: object) -> int:
    if isinstance(value, str):
        return times.of_text(value)[0]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return times.of_number(value) if is_number else -1  # type: ignore[arg-type]


PLAIN = WrapperFormat("a log file", _plain)
FORMATS = (
    PLAIN,
    WrapperFormat("`kubectl logs --prefix --timestamps`", _in_front(_PREFIX + _STAMP)),
    WrapperFormat("`kubectl logs --prefix`", _in_front(_PREFIX)),
    WrapperFormat("a container runtime's log (CRI, /var/log/containers)", _in_front(_CRI)),
    WrapperFormat("`kubectl logs --timestamps`", _stamped),
    WrapperFormat("Docker's json-file", _docker),
    WrapperFormat("documents of a log shipper", _shipped),
    WrapperFormat("`docker compose logs`", _in_front(_COMPOSE)),
)
"""A format that contains another comes before it: if two explain a file equally well, the first one is used."""


_IN_RECORDS = tuple(_in_front(pattern) for pattern in (_PREFIX + _STAMP, _PREFIX, _CRI, _STAMP))


class UnwrappedText(NamedTuple):
    """Lines without their wrapping, and the pod and container that it names."""

    text: str
    pod: str
    container: str


def unwrap_text(text: str) -> list[UnwrappedText] | None:
    """The lines of a text that kubectl or a container runtime has wrapped, parts joined; None for any other text.

    >>> unwrap_text("2026-11-21T02:13:00.5Z stdout P Checkpoint 6 exp\\n2026-11-21T02:13:00.5Z stdout F ired")
    [UnwrappedText(text='Checkpoint 6 expired', pod='', container='')]
    """
    if text[10:11] != "T" and not text.startswith("[pod/"):
        return None
    lines = text.encode(errors="replace").splitlines()
    unwrap, first = next(
        ((u, inner) for u in _IN_RECORDS if (inner := u(lines[0])) is not None), (None, UnwrappedLine(b""))
    )
    if unwrap is None:
        return None
    # The time may be the line's own.
    if head(first.text.decode(errors="replace")) is None and text_layout.split(text.partition("\n")[0]) is not None:
        return None
    found: list[UnwrappedText] = []
    partial = False
    for line in lines:
        inner = unwrap(line) or UnwrappedLine(line)
        text = inner.text.decode(errors="replace")
        before = found[-1] if found else None
        if before is not None and (before.pod, before.container) == (inner.host, inner.container):
            found[-1] = before._replace(text=f"{before.text}{'' if partial else chr(10)}{text}")
        else:
            found.append(UnwrappedText(text, inner.host, inner.container))
        partial = inner.partial
    return found


def head(line: str) -> LineHead | None:
    """The beginning of a line in a known layout; None for any other line.

    >>> head("2018-11-29 18:43:04,624 INFO  o.a.f.CheckpointCoordinator - Checkpoint 224 expired").time
    1543516984624
    """
    found = text_layout.split(line) or text_layout.split(text_layout.without_line_number(line))
    if found is not None:
        return LineHead(found[0], found[2])
    logged = json_layout.read(line) if line[:1] == "{" else None
    return None if logged is None else LineHead(logged.time, logged.zoned)


def continues(line: str) -> bool:
    """Whether a line without a head continues the previous one, as stack lines do."""
    return line[:1].isspace() or line.startswith(("Caused by:", "Suppressed:")) or stack_line.read(line) is not None


def guess(lines: Iterable[bytes]) -> tuple[WrapperFormat, bool]:
    """The most likely format of these lines, and whether any line is in a known layout once unwrapped."""
    lines = list(lines)
    best, score = PLAIN, (0, 0)
    for each in FORMATS:
        inner = [found for line in lines if (found := each.unwrap(line)) is not None]
        heads = sum(head(found.text.decode(errors="replace")) is not None for found in inner)
        # A wrapping around most lines is reported even if no line inside is understood.
        around = len(inner) if each is not PLAIN and 2 * len(inner) > len(lines) else 0
        if (heads, around) > score:
            best, score = each, (heads, around)
    return best, score[0] > 0


def zone_of(local: int, utc: int) -> int | None:
    """The offset in ms of a local time (read as UTC) from the same time in UTC; None if they cannot be the same time.

    >>> zone_of(1543516984624, 1543488184600) // 3_600_000
    8
    """
    offset = round((local - utc) / _QUARTER_MS) * _QUARTER_MS
    return offset if abs(offset) <= _MAX_ZONE_MS else None
