"""A YAML document that knows the line of each key.

It is stricter than YAML: a duplicate key is an error, since otherwise the last one would win silently.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from streaming.errors import ConfigError

Place = tuple[int | str, ...]
"""The keys and numbers that lead to a value, as in pydantic's errors."""


class YamlDocument(NamedTuple):
    """The content of a file and the YAML nodes it was read from; `name` is the name of the file."""

    name: str
    data: dict[str, Any]
    root: yaml.Node

    def line(self, place: Sequence[int | str]) -> int:
        """The line of the key or element at `place`, or of its nearest existing parent."""
        node, mark = self.root, self.root.start_mark
        for step in place:
            found = _below(node, step)
            if found is None:
                break
            mark, node = found
        return int(mark.line) + 1

    def where(self, place: Sequence[int | str]) -> tuple[int, str]:
        """The line of a place, and its name in an error."""
        line = self.line(place)
        return line, f"{self.name}:{line}"


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, which also reports the line of an invalid date such as 2026-13-01."""

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> Any:
        try:
            return super().construct_yaml_timestamp(node)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_timestamp)
_NOWHERE = yaml.Mark("", 0, 0, 0, None, 0)
NO_DOCUMENT = YamlDocument("configuration", {}, yaml.MappingNode("tag:yaml.org,2002:map", [], _NOWHERE))
"""Every setting at its default."""


def read_document(path: Path, sections: Sequence[str]) -> YamlDocument:
    """The document of a file, which must be a mapping of `sections`. Raises ConfigError."""
    return parse_document(str(path), read_content(path), sections)


def read_content(path: Path) -> bytes:
    """The content of a file. Raises ConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def parse_document(name: str, content: bytes, sections: Sequence[str]) -> YamlDocument:
    """The document of a file that holds `content`. Raises ConfigError."""
    try:
        loader = _Loader(content.decode("utf-8"))
        root = loader.get_single_node()
        # Checked before construction, which writes merged keys (<<) into the nodes.
        twice = list(_twice(root, ()))
        data = None if root is None else loader.construct_document(root)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8: {error.reason} at byte {error.start}") from None
    except yaml.MarkedYAMLError as error:
        where = f"{name}:{error.problem_mark.line + 1}" if error.problem_mark else name
        context = f" {error.context}" if error.context else ""
        raise ConfigError(f"{where}: not YAML: {error.problem}{context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{name}: not YAML: {error}") from None
    allowed = ", ".join(sections)
    if root is None or data is None:
        raise ConfigError(f"{name}: is empty; write at least one of the sections {allowed}")
    if not isinstance(data, dict):
        raise ConfigError(f"{name}:{root.start_mark.line + 1}: must be a mapping of sections: {allowed}")
    if twice:
        raise ConfigError("\n".join(f"{name}:{line}: {problem}" for line, problem in twice))
    return YamlDocument(name, data, root)


def dotted(place: Sequence[int | str]) -> str:
    """The place as a person writes it: `overrides[1].detectors.restart_loop`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def _below(node: yaml.Node, step: int | str) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key.start_mark, value) for key, value in node.value if key.value == str(step)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _twice(node: yaml.Node | None, place: Place) -> Iterator[tuple[int, str]]:
    if isinstance(node, yaml.SequenceNode):
        for number, element in enumerate(node.value):
            yield from _twice(element, (*place, number))
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            line, name = key.start_mark.line + 1, str(key.value)
            if name in first:
                yield line, f"{dotted((*place, name))}: duplicate key, first defined in line {first[name]}"
            first.setdefault(name, line)
            yield from _twice(value, (*place, name))
