"""`flinkwatch overview`."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detectors.incident import Transition
from streaming.cli.main import cli
from tests.unit.sinks.samples import OPENED_AT, make_transition

HISTORIES = {name: [make_transition(incident=name, cluster=name)] for name in ("prod", "test")}


@pytest.fixture(autouse=True)
def _topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(*_: Any) -> dict[str, list[Transition]]:
        return HISTORIES

    monkeypatch.setattr("streaming.cli.incidents.overview.stored_transitions", stored)
    monkeypatch.setattr("streaming.cli.options.now", lambda: OPENED_AT + 3_600_000)


def overview(*options: str) -> Result:
    return CliRunner().invoke(cli, ["overview", *options])


def test_it_prints_markdown() -> None:
    assert overview().output.startswith("# Flink incidents, 2026-03-01 03:03:00 UTC to 2026-03-01 15:03:00 UTC\n")


def test_it_prints_json() -> None:
    assert json.loads(overview("--json").output)["opened"] == 2


def test_one_cluster_is_shown_alone() -> None:
    assert [row["cluster"] for row in json.loads(overview("--json", "--cluster", "prod").output)["open"]] == ["prod"]


@pytest.mark.parametrize("options", [("--since", "yesterday"), ("--since", "1h", "--until", "2h")])
def test_a_wrong_period_is_an_error(options: tuple[str, ...]) -> None:
    assert overview(*options).exit_code != 0
