"""Examples in docstrings give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
MODULES = sorted(
    ".".join(file.relative_to(PROJECT).with_suffix("").parts)
    for part in ("detectors", "sinks", "streaming")
    for file in (PROJECT / part).rglob("*.py")
    if "    >>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_an_example_gives_what_it_says(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
