"""docs/configuration.md: current, complete, and every example in it loads."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from detectors.settings.overrides import resolve
from streaming.configuration.settings import Settings, load
from streaming.reference.configuration_page import configuration_page
from tests.unit.streaming.reference.test_json_schema import editor_says

DOCS = Path(__file__).parents[4] / "docs"
EXAMPLES = [
    (page, text)
    for page in ("configuration.md", "delivery.md")
    for text in re.findall(r"```yaml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
]


def test_the_page_is_current() -> None:
    """Write it again with `flinkwatch config docs > docs/configuration.md`."""
    assert (DOCS / "configuration.md").read_text() == configuration_page()


@pytest.mark.parametrize(("page", "text"), EXAMPLES)
def test_every_example_loads_and_an_editor_finds_no_fault(page: str, text: str, tmp_path: Path) -> None:
    assert text.strip(), page
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert load(file, {}) != Settings()
    assert editor_says(text) == []


def test_the_example_of_overrides_works_as_described(tmp_path: Path) -> None:
    (text,) = (text for _, text in EXAMPLES if text.startswith("overrides:"))
    file = tmp_path / "c.yaml"
    file.write_text(text)
    live = load(file, {}).live
    fitting = [i for i, o in enumerate(live.overrides) if o.fits_cluster("prod-eu") and o.fits_job("orders-v2")]
    found = resolve(live.detectors.model_dump(mode="json"), live.overrides, fitting)["restart_loop"]
    assert (found["count"], found["window"]) == ((2, 0), ("20m", 2))
    assert {value.override for key, value in found.items() if key not in {"count", "window"}} == {None}


def settings_in(model: BaseModel, prefix: str = "") -> list[str]:
    """The names of all settings of a section, as they are written."""
    found = []
    for name, field in type(model).model_fields.items():
        value, written = getattr(model, name), field.alias or name
        found += settings_in(value, f"{prefix}{written}.") if isinstance(value, BaseModel) else [f"{prefix}{written}"]
    return found


def test_every_setting_has_a_row_with_its_default_its_reason_and_when_a_change_counts() -> None:
    page = configuration_page()
    rows = {}
    for part in re.split(r"\n##+ ", page):
        heading = part.split("\n", 1)[0].strip("`").removeprefix("detectors.")
        found = re.findall(
            r"^\| `([^`]+)` \| ([^|]+) \| (`.*?`|required) \| (.*?) \| (live|restart) \| (.+) \|$", part, re.MULTILINE
        )
        rows |= {(heading, row[0]): row for row in found}
    sections = Settings()
    blocks = {name: getattr(sections, name) for name in ("kafka", "streaming", "identity", "sinks")}
    blocks |= {kind: getattr(sections.detectors, kind) for kind in type(sections.detectors).model_fields}
    expected = {(heading, name) for heading, block in blocks.items() for name in settings_in(block)}
    assert expected <= rows.keys()
    assert len([row for row in page.splitlines() if row.startswith("| `")]) == len(rows)
    assert rows["restart_loop", "window"][2] == "`10m`"
    assert rows["streaming", "trigger"][1:5] == ("duration", "`1s`", "≥ 100ms", "restart")
    live = {name for (heading, name), row in rows.items() if heading in {"kafka", "sinks"} and row[4] == "live"}
    assert live == {"slack.actions.mention", "routing.routes", "routing.default", "routing.quiet_hours"}
    assert {row[4] for (heading, _), row in rows.items() if heading == "restart_loop"} == {"live"}
