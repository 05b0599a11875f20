"""Fragments of the changelog can be moved into it as they are."""

import pytest

from tests.changelog import fragments, printed, problem


def test_every_fragment_is_one_entry_of_a_section() -> None:
    assert [found for path in fragments() if (found := problem(path.name, path.read_text()))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.md", "Text."), ("x.new.md", "Text."), ("x.added.txt", "Text."), ("x.added.md", " \n"), ("x.added.md", "- A")],
)
def test_what_is_no_entry_is_refused(name: str, text: str) -> None:
    assert problem(name, text).startswith(name)


def test_entries_stand_under_their_sections() -> None:
    given = [("b.fixed.md", "One thing\nis fixed."), ("a.added.md", "Another is new."), ("c.fixed.md", "Two.")]
    assert all(not problem(name, text) for name, text in given)
    assert printed(given) == "### Added\n\n- Another is new.\n\n### Fixed\n\n- One thing is fixed.\n- Two.\n"
