"""One noun for each idea: the glossary in docs/architecture.md, the names of classes, and the kinds of incident."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from detectors import DETECTORS

PROJECT = Path(__file__).parents[2]
PRODUCT = ("detectors", "sinks", "streaming", "dashboards")
NESTED_IN_DETECTORS = {"Config", "State"}
KINDS = [detector.kind for detector in DETECTORS]
_ROW = re.compile(r"^\| \*\*([^|*]+)\*\* \|", re.MULTILINE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def glossary() -> list[str]:
    """The nouns of the glossary; a row may have several, separated by commas."""
    page = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page[page.index("\n## Glossary\n") :].split("\n## ")[1]
    return [noun for row in _ROW.findall(section) for noun in row.split(", ")]


@cache
def sources() -> dict[Path, str]:
    """The product's modules."""
    found = [path for folder in PRODUCT for path in sorted((PROJECT / folder).rglob("*.py"))]
    return {path.relative_to(PROJECT): path.read_text(encoding="utf-8") for path in found}


@cache
def words_of_the_code() -> str:
    """All names and texts of the product in lower case, the words of a name separated by spaces."""
    return re.sub(r"[_\W]+", " ", _CAMEL.sub(" ", "\n".join(sources().values())).lower())


@cache
def classes() -> list[tuple[str, Path]]:
    """Name and module of each class, but for a detector's nested `Config` and `State`."""
    return [(name, path) for path, text in sources().items() for name in _classes(ast.parse(text))]


def _classes(tree: ast.Module) -> list[str]:
    top = {id(node) for node in tree.body}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [node.name for node in found if id(node) in top or node.name not in NESTED_IN_DETECTORS]


def spoken(name: str) -> str:
    """`TaskManagerLost` and `taskmanager_lost` are one name."""
    return name.replace("_", "").replace(" ", "").lower()


@pytest.mark.parametrize("noun", glossary())
def test_every_noun_of_the_glossary_is_used_in_the_code(noun: str) -> None:
    assert re.search(rf"\b{re.escape(noun.lower())}s?\b", words_of_the_code())


def test_the_glossary_lists_no_noun_twice() -> None:
    nouns = glossary()
    assert len(nouns) == len(set(nouns)) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_the_name_of_nothing_else(kind: str) -> None:
    assert spoken(kind) not in {spoken(noun) for noun in glossary()}
    assert [path for name, path in classes() if spoken(name) == spoken(kind) and path.name != f"{kind}.py"] == []


def test_no_two_classes_have_the_same_name() -> None:
    where = defaultdict(list)
    for name, path in classes():
        where[name].append(str(path))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}
