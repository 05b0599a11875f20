"""Reads conf/known_issues.yaml and the site's own files once per process and validates each entry.

The driver reads the files of a site (`known_issues.files`). Executors get their content with the query.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from detectors.incidents.known_issues import IssueCatalogue, IssueEntry, KnownIssues
from streaming.configuration.validation_errors import explain
from streaming.configuration.yaml_document import parse_document, read_content
from streaming.errors import ConfigError

FILE = Path(__file__).resolve().parents[2] / "conf" / "known_issues.yaml"


class IssueFile(NamedTuple):
    """A file of a site with known issues: its name, for errors, and its content."""

    name: str
    content: bytes


@cache
def read_files(paths: tuple[str, ...]) -> tuple[IssueFile, ...]:
    """The files of a site; they and the shipped file are valid. Raises ConfigError."""
    files = tuple(IssueFile(path, read_content(Path(path))) for path in paths)
    in_force(files)
    return files


@cache
def in_force(files: tuple[IssueFile, ...] = ()) -> IssueCatalogue:
    """The shipped entries and those of a site. An entry of a site replaces the shipped one with its ID.

    Raises ConfigError.
    """
    if not files:
        return shipped()
    own: dict[str, IssueEntry] = {}
    places: dict[str, str] = {}
    hashes = []
    for file in files:
        read = load(Path(file.name), file.content)
        for entry in read.entries:
            if entry.id in own:
                raise ConfigError(f"{file.name}: {entry.id} is already in {places[entry.id]}")
            own[entry.id], places[entry.id] = entry, file.name
        hashes.append(read.hash)
    rest = [entry for entry in shipped().entries if entry.id not in own]
    entries = KnownIssues(known_issues=(*own.values(), *rest)).known_issues
    return IssueCatalogue(entries, "-".join((shipped().hash, *hashes)))


@cache
def shipped() -> IssueCatalogue:
    """The entries of the file that comes with the program. Raises ConfigError."""
    loader = cast(Any, __spec__).loader
    # Executors of a cluster have the program as a zip file. Its loader reads the file from there.
    return load(FILE, loader.get_data("/".join(FILE.parts[-2:])) if hasattr(loader, "archive") else None)


def load(path: Path, content: bytes | None = None) -> IssueCatalogue:
    """The entries of a file. Raises ConfigError, which names file, line, key and the allowed values."""
    content = read_content(path) if content is None else content
    document = parse_document(str(path), content, tuple(KnownIssues.model_fields))
    try:
        found = KnownIssues.model_validate(document.data)
    except ValidationError as error:
        problems = explain(KnownIssues, error.errors(include_url=False), document.where, document.data)
        raise ConfigError(problems) from None
    return IssueCatalogue(found.known_issues, hashlib.sha256(content).hexdigest()[:8])
