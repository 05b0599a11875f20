"""The sections of which a change needs a restart: what of them a file changes.

Compared is what a file alone says, without the environment: the job's environment is not that of whoever runs `config
apply`. What is published of these sections are hashes, by key.
"""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from streaming.configuration.diff import ABSENT, leaves, written
from streaming.configuration.settings import FIXED, validate
from streaming.configuration.yaml_document import NO_DOCUMENT, YamlDocument
from streaming.errors import ConfigError

# Names of variables and files that hold secrets are none themselves.
_SECRET = re.compile(r"(secret|password|token|credential|jaas|url|[._-]key)(?!.*_(env|file)$)", re.IGNORECASE)

Values = dict[str, Any]


def fixed_values(document: YamlDocument | None, environment: Mapping[str, str]) -> Values:
    """Every setting of these sections by its key, defaults included. Raises ConfigError."""
    try:
        settings = validate(document or NO_DOCUMENT, {})
    except ConfigError:
        # A file that is not valid alone: the environment holds the rest.
        settings = validate(document or NO_DOCUMENT, environment)
    return {
        key: value
        for section in FIXED
        for key, value in leaves(section, getattr(settings, section).model_dump(mode="json"))
    }


def hashes(values: Values) -> dict[str, str]:
    """What is published of them."""
    return {key: _hash(value) for key, value in values.items()}


def refuse_changes(document: YamlDocument, new: Values, old: Values) -> None:
    """Raises ConfigError with every key whose value is not that with which the job began."""
    problems = [(key, _shown(key, old), _shown(key, new)) for key in _keys(old, new) if old.get(key) != new.get(key)]
    _refuse(document, [(key, f"from {was} to {now}") for key, was, now in problems])


def refuse_other_hashes(document: YamlDocument, new: Values, published: Mapping[str, str]) -> None:
    """The same where only hashes are known: sections that the document has are compared."""
    there = {key: value for key, value in hashes(new).items() if key.partition(".")[0] in document.data}
    other = [key for key, value in there.items() if published and published.get(key) != value]
    _refuse(document, [(key, f"to {_shown(key, new)}, which is not what the job runs with") for key in other])


def _refuse(document: YamlDocument, problems: list[tuple[str, str]]) -> None:
    if problems:
        lines = [(document.line(_place(key)), key, what) for key, what in problems]
        raise ConfigError(
            "\n".join(
                f"{document.name}:{line}: {key}: changed {what}, which needs a restart. The file was not applied"
                for line, key, what in sorted(lines)
            )
            + f"\nTo apply the rest now, take {', '.join(key for _, key, _ in sorted(lines))} out of the file, or use "
            "`flinkwatch config apply` with a file that holds detectors, overrides and silences alone."
        )


def _place(key: str) -> list[str]:
    """Keys of Spark properties have dots themselves."""
    steps = key.split(".")
    return [*steps[:2], ".".join(steps[2:])] if steps[:2] == ["streaming", "spark"] else steps


def _keys(old: Values, new: Values) -> Iterator[str]:
    yield from old
    yield from (key for key in new if key not in old)


def _shown(key: str, values: Values) -> str:
    if key not in values:
        return ABSENT
    return "a value that is not shown" if _SECRET.search(key) else written(values[key])


def _hash(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:8]
