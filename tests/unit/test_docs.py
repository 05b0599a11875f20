"""The documents say what is there."""

from pathlib import Path

import pytest

from detectors import DETECTORS
from detectors.events.envelope import REASONS

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", [d.kind for d in DETECTORS])
def test_every_kind_has_its_runbook_and_its_line_in_their_list(kind: str) -> None:
    page = (PROJECT / "docs" / "runbooks" / f"{kind}.md").read_text()
    assert page.startswith(f"# {kind}\n")
    for part in ("What it means.", "Confirm", "Do now.", "Do for good.", "When it is a false alarm."):
        assert f"**{part}" in page
    assert f"]({kind}.md) |" in (PROJECT / "docs" / "runbooks" / "index.md").read_text()
    assert f"runbooks/{kind}.md" in (PROJECT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("reason", [*REASONS, "bad_config", "too_many_silences", "defect", "unreadable_state"])
def test_every_reason_of_a_rejection_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in (PROJECT / "docs" / "inputs.md").read_text()


def test_every_kind_is_a_module_of_its_name() -> None:
    for detector in DETECTORS:
        assert detector.__module__ == f"detectors.{detector.kind}"
