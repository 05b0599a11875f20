"""The documents say what is there."""

import json
import re
from pathlib import Path

import pytest

from detectors import DETECTORS
from detectors.detector import Detector
from detectors.events.envelopes.logs import REASONS
from sinks.prometheus.catalogue import NAMESPACE, TABLE
from tests import recorded

PROJECT = Path(__file__).parents[2]


HEADINGS = (
    "What it means.",
    "How bad is it.",
    "Confirm.",
    "Decide.",
    "Do now.",
    "Resolved when.",
    "Do to prevent it.",
    "When it is a false alarm.",
    "Metrics.",
    "Mute it.",
)
RUNBOOKS = PROJECT / "docs" / "runbooks"


@pytest.mark.parametrize("kind", [d.kind for d in DETECTORS])
def test_every_kind_has_its_runbook_and_its_line_in_their_list(kind: str) -> None:
    page = (RUNBOOKS / f"{kind}.md").read_text()
    assert page.startswith(f"# {kind}\n")
    places = [page.index(f"\n**{heading}**") for heading in HEADINGS]
    assert places == sorted(places)
    assert f"]({kind}.md) |" in (RUNBOOKS / "index.md").read_text()
    assert f"runbooks/{kind}.md" in (PROJECT / "mkdocs.yml").read_text()


@pytest.mark.parametrize("kind", [d.kind for d in DETECTORS])
def test_a_runbook_can_be_followed_by_someone_who_has_only_a_shell(kind: str) -> None:
    page = (RUNBOOKS / f"{kind}.md").read_text()
    decide = page[page.index("**Decide.**") : page.index("**Do now.**")]
    assert page.count("```sh\n") >= 2
    assert len(re.findall(r"^(?: *- .*?→|\| )", decide, re.MULTILINE | re.DOTALL)) >= 3
    mute = re.search(r"flinkwatch silence add --(?:job JOB|cluster \w+) --kind (\w+) --for 1h --comment", page)
    assert mute is not None
    assert mute[1] == kind


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.md")), ids=lambda p: p.stem)
def test_a_runbook_names_only_thresholds_metrics_and_panels_that_exist(path: Path) -> None:
    page = path.read_text()
    config = {d.kind: set(d.Config.model_fields) for d in DETECTORS}
    named = re.findall(r"`detectors\.(\w+)(?:\.(\w+))?`", page)
    assert all(kind in config and (not key or key in config[kind]) for kind, key in named)
    metrics = {NAMESPACE + one.name for group in TABLE.values() for one in group}
    assert {m.removesuffix("_") for m in re.findall(r"\bflinkwatch_[a-z_]+", page)} <= metrics
    titles = panels()
    for dashboard in re.findall(r"on the dashboard (Flink cluster|Flink fleet|flinkwatch)\b", page):
        assert dashboard in titles
    for sentence in re.findall(
        r"((?:\*[^*\n]+\*(?:, | and )?)+) on the dashboard (Flink cluster|Flink fleet|flinkwatch)\b", page
    ):
        assert set(re.findall(r"\*([^*]+)\*", sentence[0])) <= titles[sentence[1]]


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: d.kind)
def test_a_runbook_recommends_only_thresholds_of_its_detector(detector: type[Detector]) -> None:
    page = (RUNBOOKS / f"{detector.kind}.md").read_text()
    advice = page[page.index("**When it is a false alarm.**") :].split("\n\n")[0]
    names = {name.removeprefix(f"detectors.{detector.kind}.") for name in re.findall(r"`([a-z][a-z_.]+)`", advice)}
    assert names <= {*detector.Config.model_fields, f"detectors.{detector.kind}"}


def panels() -> dict[str, set[str]]:
    """The titles of the panels of each dashboard."""
    boards = [json.loads(f.read_text()) for f in (PROJECT / "conf" / "grafana" / "dashboards").glob("*.json")]
    return {board["title"]: {panel["title"] for panel in board["panels"]} for board in boards}


@pytest.mark.parametrize("reason", [*REASONS, "bad_config", "too_many_silences", "defect", "unreadable_state"])
def test_every_reason_of_a_rejection_is_explained(reason: str) -> None:
    assert f"| `{reason}` |" in (PROJECT / "docs" / "inputs.md").read_text()


def test_every_kind_is_a_module_of_its_name() -> None:
    for detector in DETECTORS:
        assert detector.__module__.endswith(f".{detector.kind}")


@pytest.mark.parametrize("name", recorded.NAMES)
def test_every_scenario_is_in_the_table_of_results(name: str) -> None:
    page = (PROJECT / "docs" / "detection.md").read_text()
    rows = page.count(f"\n| {name} | ")
    assert rows == max(1, len(recorded.truth(name))), "python tests/bench/detection.py --markdown"
