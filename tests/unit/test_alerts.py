"""Laws of the alerts for Prometheus: each is tested both ways, and each says where it is explained."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from detectors import DETECTORS
from sinks.prometheus.catalogue import NAMESPACE, TABLE

PROJECT = Path(__file__).parents[2]
RULES = sorted((PROJECT / "conf" / "prometheus").glob("*.rules.yaml"))
TESTS = sorted((PROJECT / "tests" / "prometheus").glob("*.test.yaml"))
METRICS = {NAMESPACE + one.name for group in TABLE.values() for one in group}

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed: apt-get install prometheus"
)


def rules() -> list[dict[str, Any]]:
    return [rule for file in RULES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]]


def run(*command: str, folder: Path = PROJECT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and mkdocs make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@promtool
def test_promtool_reads_rules_and_configuration() -> None:
    assert len(RULES) == 2
    found = run("promtool", "check", "rules", "--lint-fatal", *map(str, RULES))
    assert sum(map(int, re.findall(r"(\d+) rules found", found))) == len(rules())
    run("promtool", "check", "config", str(PROJECT / "conf" / "prometheus" / "prometheus.yml"))


@promtool
@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.name)
def test_alerts_fire_when_they_should_and_only_then(file: Path) -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", file.name, folder=file.parent)


def test_every_alert_is_tested_both_ways() -> None:
    asked = [
        (one["alertname"], bool(one["exp_alerts"]))
        for file in TESTS
        for case in yaml.safe_load(file.read_text())["tests"]
        for one in case["alert_rule_test"]
    ]
    assert set(asked) == {(rule["alert"], fires) for rule in rules() for fires in (True, False)}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_it_is_about_and_where_it_is_explained(rule: dict[str, Any]) -> None:
    assert set(re.findall(r"flinkwatch_\w+", rule["expr"])) <= METRICS | {
        f"flinkwatch_batch_duration_seconds_{part}" for part in ("sum", "count")
    }
    annotations = rule["annotations"]
    assert annotations["summary"]
    assert annotations["description"].endswith(".")
    pages = {annotations["runbook_url"]}
    if ".Labels.kind" in annotations["runbook_url"]:
        pages = {f"docs/runbooks/{kind}.md" for kind in ("index", *(one.kind for one in DETECTORS))}
    for page in pages:
        file, _, anchor = page.partition("#")
        text = (PROJECT / file).read_text()
        headings = {slug(heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        assert not anchor or anchor in headings, page


def test_every_alert_about_flinkwatch_has_a_severity() -> None:
    """Those of Flink have that of the incident."""
    own = [rule for rule in rules() if rule["alert"].startswith("Flinkwatch")]
    assert {rule["labels"]["severity"] for rule in own} == {"critical", "warning"}
    assert len(own) == len(rules()) - 1


def test_the_documented_command_puts_an_address_before_every_link(tmp_path: Path) -> None:
    for file in RULES:
        (tmp_path / file.name).write_text(file.read_text())
    page = (PROJECT / "docs" / "operations.md").read_text()
    (command,) = re.findall(r"^sed -i '[^']*runbook_url.*?rules\.yaml$", page, re.MULTILINE | re.DOTALL)
    run("sh", "-c", command, folder=tmp_path)
    for file in tmp_path.iterdir():
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                links = [text for name, text in rule["annotations"].items() if name.endswith("_url")]
                assert links
                assert all(link.startswith("https://") for link in links), links
