"""Reads conf/known_issues.yaml once per process and validates each entry."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from detectors.incidents.known_issues import IssueCatalogue, KnownIssues
from streaming.errors import ConfigError

FILE = Path(__file__).resolve().parents[2] / "conf" / "known_issues.yaml"


@cache
def shipped() -> IssueCatalogue:
    """The entries of the file that comes with the program. Raises ConfigError."""
    loader = cast(Any, __spec__).loader
    # Executors of a cluster have the program as a zip file. Its loader reads the file from there.
    inside = "/".join(FILE.parts[-2:]) if hasattr(loader, "archive") else str(FILE)
    return load(FILE, lambda: bytes(loader.get_data(inside)))


def load(path: Path, read: Callable[[], bytes] | None = None) -> IssueCatalogue:
    """The entries of a file. Raises ConfigError, which names file, entry, key and the allowed values."""
    try:
        text = (read or path.read_bytes)().decode()
        document: Any = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not YAML: {getattr(error, 'problem', None) or error}") from None
    try:
        found = KnownIssues.model_validate(document)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(path, document, e) for e in error.errors(include_url=False))) from None
    return IssueCatalogue(found.known_issues, hashlib.sha256(text.encode()).hexdigest()[:8])


def _explain(path: Path, document: Any, error: ErrorDetails) -> str:
    """`file: entry: key: problem; allowed values`. An entry is named by its id, else by its number from 1."""
    place = list(error["loc"])
    entry = ""
    if place[:1] == ["known_issues"] and len(place) > 1 and isinstance(place[1], int):
        one = document["known_issues"][place[1]]
        entry = f"{(one.get('id') if isinstance(one, dict) else None) or f'entry {place[1] + 1}'}: "
        place = place[2:]
    key = f"{'.'.join(str(p) for p in place)}: " if place else ""
    if error["type"] == "extra_forbidden":
        return f"{path}: {entry}{key}unknown key"
    message = error["msg"].removeprefix("Value error, ")
    return f"{path}: {entry}{key}{message[:1].lower()}{message[1:]}"
