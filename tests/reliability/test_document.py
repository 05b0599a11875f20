"""docs/reliability.md names tests that exist."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (PROJECT / "docs" / "reliability.md").read_text())


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_fault_of_the_table_has_its_test(file: str, name: str) -> None:
    assert f"def {name}(" in (PROJECT / file).read_text()


def test_the_faults_of_delivery_are_all_in_the_table() -> None:
    text = (PROJECT / "docs" / "reliability.md").read_text()
    faults = ("F1", "F2", "F3", "F9", "F10", "F13", "F14", "F15")
    assert [fault for fault in faults if f"| {fault} " not in text] == []
