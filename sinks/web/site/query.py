"""The query string of a page or document: what it may have, and errors that say so."""

from typing import get_args
from urllib.parse import parse_qsl, urlencode

import msgspec

from detectors import DETECTORS
from detectors.incident import SEVERITIES, Severity
from sinks.web.site.documents import State

_LONGEST, _MOST_FIELDS = 1_000, 20
_MOST, _USUAL, _FURTHEST = 500, 100, 1_000_000
KINDS = tuple(detector.kind for detector in DETECTORS)
_CHOICES: dict[str, tuple[str, ...]] = {
    "kind": KINDS,
    "severity": tuple(SEVERITIES),
    "state": get_args(State),
    "refresh": ("off",),
}
_NUMBERS = {"limit": (1, _MOST), "offset": (0, _FURTHEST), "days": (1, 90)}


class BadQueryError(ValueError):
    """The query string is not allowed; `allowed` lists what is."""

    def __init__(self, detail: str, allowed: list[str]) -> None:
        super().__init__(detail)
        self.allowed = allowed


class SiteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; an empty text selects everything. `q` is searched in ID, names, kind and summary."""

    q: str = ""
    cluster: str = ""
    job: str = ""
    kind: str = ""
    severity: Severity | str = ""
    state: State | str = ""
    days: int = 14
    limit: int = _USUAL
    offset: int = 0
    refresh: str = ""

    def chosen(self) -> dict[str, str]:
        """The parameters that differ from their defaults, as text."""
        usual = SiteQuery()
        return {
            name: str(value)
            for name in self.__struct_fields__
            if (value := getattr(self, name)) != getattr(usual, name)
        }

    def with_offset(self, path: str, offset: int) -> str:
        """The path of another part of the list."""
        changed = {name: value for name, value in self.chosen().items() if name != "offset"}
        return path + "?" + urlencode(changed | ({"offset": str(offset)} if offset else {}))

    def next(self, path: str, total: int) -> str | None:
        """The path of the next part of a list of `total` entries; None after its last one."""
        following = self.offset + self.limit
        return self.with_offset(path, following) if following < total else None


def parse(text: str, allowed: tuple[str, ...]) -> SiteQuery:
    """The query string of an address that has the parameters `allowed`. Empty values count as left out, since a form
    sends every field. Raises BadQueryError.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise BadQueryError("the query string is not valid", list(allowed)) from None
    found: dict[str, str | int] = {}
    for name, value in pairs:
        if name not in allowed:
            raise BadQueryError(f"unknown parameter {name[:80]!r}", list(allowed))
        if name in found:
            raise BadQueryError(f"{name} occurs twice", list(allowed))
        if value:
            found[name] = _value(name, value)
    return msgspec.convert(found, SiteQuery)


def _value(name: str, value: str) -> str | int:
    if name in _NUMBERS:
        low, high = _NUMBERS[name]
        if not (value.isascii() and value.isdigit() and len(value) <= 9 and low <= int(value) <= high):
            raise BadQueryError(f"{name} is not a number from {low} to {high}", [f"{low} to {high}"])
        return int(value)
    if name in _CHOICES and value not in _CHOICES[name]:
        raise BadQueryError(f"{name} has none of its values", list(_CHOICES[name]))
    if len(value) > _LONGEST:
        raise BadQueryError(f"{name} has more than {_LONGEST} characters", [f"at most {_LONGEST} characters"])
    return value
