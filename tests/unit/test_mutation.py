"""The mutation runner finds the changes that matter, applies them, and its list of equivalents is not out of date."""

import ast
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.run import ROOT, equivalents

SOURCE = '''
LIMIT = 3

def judge(value: int, strict: bool) -> bool:
    """A text is left alone."""
    log.info("so is the log", value=value + 1)
    if strict and value > LIMIT:
        note(value)
        return not strict
    return min(value, 0) == 0
'''

EXPECTED = {
    ("3", "6"),
    ("3", "1"),
    ("strict", "True"),
    ("value > LIMIT", "True"),
    (" > ", " >= "),
    ("note(value)", "pass"),
    ("not strict", "None"),
    ("not strict", "(strict)"),
    ("min", "max"),
    (" == ", " != "),
    ("strict and value > LIMIT", "(not (strict and value > LIMIT))"),
    ("min(value, 0) == 0", "None"),
    ("0", "1"),
}


@pytest.fixture
def found(tmp_path: Path) -> list[Mutant]:
    file = tmp_path / "judge.py"
    file.write_text(SOURCE)
    return mutants_of(file, "judge.py")


def test_conditions_numbers_calls_and_results_are_changed_and_texts_are_not(found: list[Mutant]) -> None:
    assert {(one.was, one.now) for one in found} == EXPECTED


def test_each_mutant_is_another_program(found: list[Mutant]) -> None:
    sources = {one.source(SOURCE.encode()) for one in found}
    assert len(sources) == len(found)
    for source in sources:
        assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(SOURCE))


def test_each_entry_of_the_list_of_equivalents_is_about_a_mutant_that_exists_and_gives_a_reason() -> None:
    listed = equivalents()
    mutants = [one for file in sorted({e.file for e in listed}) for one in mutants_of(ROOT / file, file)]
    assert [e for e in listed if not any(e.is_about(one) for one in mutants)] == []
    assert [e for e in listed if len(e.why) < 20] == []
