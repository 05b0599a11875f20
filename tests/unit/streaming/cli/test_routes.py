"""`flinkwatch routes`: the same decision as delivery's, in words."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from streaming.cli.main import cli

CONFIGURATION = """
sinks:
  slack: {enabled: true, channel: "#flink"}
  pagerduty: {enabled: true, routing_key_env: KEY}
  routing:
    routes:
      - {cluster: "prod-*", severity: critical, to: [pagerduty], continue: true}
      - {cluster: "prod-*", to: ["slack:#oncall"]}
      - {cluster: "test-*", to: []}
    quiet_hours: [{begin: "22:00", end: "07:00", below: critical}]
"""
NIGHT, DAY = "2026-11-21T23:00:00Z", "2026-11-21T12:00:00Z"


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "flinkwatch.yaml"
    path.write_text(CONFIGURATION)
    return str(path)


def routes(file: str, *options: str) -> str:
    result = CliRunner().invoke(cli, ["routes", "--config", file, *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_route_that_applies_is_named(file: str) -> None:
    assert routes(file, "--for", "prod-eu/orders", "--at", DAY).splitlines() == [
        "critical job_failed in prod-eu/orders at 2026-11-21 12:00:00 UTC:",
        "  pagerduty: now (route 1: cluster prod-*, severity critical or higher)",
        "  slack:#oncall: now (route 2: cluster prod-*)",
    ]


def test_quiet_hours_say_when_the_notification_is_sent(file: str) -> None:
    found = routes(file, "--for", "prod-eu", "--severity", "warning", "--at", NIGHT)
    assert "  slack:#oncall: after quiet hours, at 2026-11-22 07:00:00 UTC (route 2: cluster prod-*)" in found


def test_a_route_without_receivers_leaves_it_to_no_one(file: str) -> None:
    assert "no one is notified" in routes(file, "--for", "test-1")


def test_an_incident_that_matches_no_route_goes_to_the_default(file: str) -> None:
    found = json.loads(routes(file, "--for", "dev", "--at", DAY, "--json"))
    assert [(one["receiver"], one["because"], one["until"]) for one in found] == [
        ("slack", "the default, because no route matches", None),
        ("pagerduty", "the default, because no route matches", None),
    ]


def test_an_unknown_kind_is_an_error(file: str) -> None:
    result = CliRunner().invoke(cli, ["routes", "--config", file, "--for", "a", "--kind", "nosuch"])
    assert result.exit_code == 2
    assert "nosuch" in result.output
