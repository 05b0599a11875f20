"""Versions of software, compared by their numbers."""

import re

_NUMBERS = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,3}")


def version_numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with; none if it is unknown.

    >>> version_numbers("1.17.2-SNAPSHOT"), version_numbers("")
    ((1, 17, 2), ())
    """
    found = _NUMBERS.match(version)
    return tuple(map(int, found[0].split("."))) if found else ()
