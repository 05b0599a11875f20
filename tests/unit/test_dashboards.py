"""Laws of the dashboards: they are what their code makes, Grafana can read them, and every metric stands on one."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.__main__ import dashboards
from sinks.prometheus.catalogue import NAMESPACE, TABLE
from tests.dashboard_queries import FOLDER, NAMES, questions, read

CONF = FOLDER.parents[1]
METRICS = {NAMESPACE + one.name: one for group in TABLE.values() for one in group}
# What Grafana's Prometheus data source reads of an annotation, beside the fields that all have.
PROMETHEUS_ANNOTATION = {"step", "titleFormat", "textFormat", "tagKeys"}


@pytest.fixture(params=NAMES)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read(request.param)


def everything(found: Any) -> Iterator[dict[str, Any]]:
    """Every object in a dashboard."""
    if isinstance(found, dict):
        yield found
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from everything(inner)


def metrics_of(expr: str) -> set[str]:
    """The metrics an expression names, as the table has them; of a pattern, all that fit."""
    named = set(re.findall(r"flinkwatch_\w+(?!\w*[(.*])", re.sub(r'__name__=~"[^"]*"', "", expr)))
    patterns = re.findall(r'__name__=~"([^"]*)"', expr)
    named |= {name for name in METRICS for pattern in patterns if re.fullmatch(pattern, name)}
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in named}


def test_the_files_are_what_the_code_makes() -> None:
    """Write them anew with `python -m dashboards`."""
    assert {file.name: file.read_text() for file in FOLDER.iterdir()} == dashboards()


def test_grafana_knows_every_field(dashboard: dict[str, Any]) -> None:
    """Its own model reads each dashboard and gives it back whole."""
    back = json.loads(json.dumps(Dashboard.from_json(dashboard), cls=JSONEncoder))
    for annotation in dashboard["annotations"].get("list", []):
        for field in PROMETHEUS_ANNOTATION:
            assert annotation.pop(field)
    assert back == dashboard


def test_ids_are_unique_and_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")
    assert len({panel["title"] for panel in panels}) == len(panels)


def test_dashboards_have_names_of_their_own_and_lead_to_each_other() -> None:
    all_of_them = [read(name) for name in NAMES]
    assert len({one["uid"] for one in all_of_them}) == len({one["title"] for one in all_of_them}) == len(NAMES)
    for one in all_of_them:
        assert one["schemaVersion"] >= 36
        assert "flinkwatch" in one["tags"]
        assert one["links"][0]["tags"] == ["flinkwatch"]


def test_the_data_source_is_chosen_in_the_dashboard(dashboard: dict[str, Any]) -> None:
    menus = {menu["name"]: menu for menu in dashboard["templating"]["list"]}
    assert (menus["datasource"]["type"], menus["datasource"]["query"]) == ("datasource", "prometheus")
    sources = [one["datasource"] for one in everything(dashboard) if "datasource" in one]
    assert sources
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)


def test_every_metric_stands_on_a_dashboard_and_every_one_asked_for_exists() -> None:
    asked = {metric for name in NAMES for one in questions(read(name)) for metric in metrics_of(one.expr)}
    assert asked == set(METRICS)


def test_grafana_finds_dashboards_and_prometheus() -> None:
    provider = yaml.safe_load((CONF / "grafana/provisioning/dashboards/flinkwatch.yaml").read_text())["providers"][0]
    assert provider["options"]["path"].endswith("/dashboards/flinkwatch")
    source = yaml.safe_load((CONF / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    scraped = yaml.safe_load((CONF / "prometheus/prometheus.yml").read_text())
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus")
def test_promtool_reads_every_expression(dashboard: dict[str, Any], tmp_path: Path) -> None:
    rules = [{"record": f"asked:{number}", "expr": one.expr} for number, one in enumerate(questions(dashboard), 1)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(rules)} rules found" in done.stdout
