"""Every kind has a healthy situation that looks like it and of which nothing is reported."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests import recorded
from tests.unit.detectors.look_alikes import LOOK_ALIKES
from tests.unit.detectors.story import KINDS

TESTS = Path(__file__).with_name("kinds")


@cache
def functions(kind: str) -> dict[str, str]:
    """The tests of a kind's own file by name, each with its source."""
    (file,) = TESTS.glob(f"*/test_{kind}.py")
    text = file.read_text(encoding="utf-8")
    found = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    return {n.name: ast.get_source_segment(text, n) or "" for n in found}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_look_alike_that_stays_silent(kind: str) -> None:
    assert kind in LOOK_ALIKES, "tests/unit/detectors/look_alikes.py: no healthy situation that looks like it"
    for name in LOOK_ALIKES[kind]:
        if name in recorded.NAMES:
            assert recorded.truth(name) == [], f"{name} is no healthy scenario"
        else:
            source = functions(kind).get(name, "")
            assert "== []" in source or "assert not " in source, f"{name} is no test that something stays silent"


def test_the_table_names_no_kind_that_is_gone() -> None:
    assert set(LOOK_ALIKES) == set(KINDS)
