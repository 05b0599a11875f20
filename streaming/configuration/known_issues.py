"""Reads conf/known_issues.yaml once per process and validates each entry."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from detectors.incidents.known_issues import IssueCatalogue, KnownIssues
from streaming.configuration.validation_errors import explain
from streaming.configuration.yaml_document import parse_document, read_content
from streaming.errors import ConfigError

FILE = Path(__file__).resolve().parents[2] / "conf" / "known_issues.yaml"


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
