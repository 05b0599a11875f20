"""`flinkwatch overview`."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sinks.contract.feedback import Feedback
from sinks.contract.overview import Period
from streaming.cli.main import cli
from tests.unit.sinks.samples import OPENED_AT, make_transition

FEEDBACK = Feedback(
    incident="prod", answer="acknowledged", person="ann", user="U1", at=OPENED_AT + 60_000, cluster="prod"
)


@pytest.fixture(autouse=True)
def _topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(_kafka: Any, _within_ms: int, period: Period) -> Period:
        for name in ("prod", "test"):
            period.add(make_transition(incident=name, cluster=name))
        period.add_feedback(FEEDBACK)
        return period

    monkeypatch.setattr("streaming.cli.incidents.overview.stored_period", stored)
    monkeypatch.setattr("streaming.cli.options.now", lambda: OPENED_AT + 3_600_000)


def overview(*options: str) -> Result:
    return CliRunner().invoke(cli, ["overview", *options])


def test_it_prints_markdown() -> None:
    assert overview().output.startswith("# Flink incidents, 2026-03-01 03:03:00 UTC to 2026-03-01 15:03:00 UTC\n")


def test_it_prints_json() -> None:
    found = json.loads(overview("--json").output)
    assert (found["opened"], found["feedback"]["acknowledged"]) == (2, 1)


def test_one_cluster_is_shown_alone() -> None:
    assert [row["cluster"] for row in json.loads(overview("--json", "--cluster", "prod").output)["open"]] == ["prod"]


@pytest.mark.parametrize("options", [("--since", "yesterday"), ("--since", "1h", "--until", "2h")])
def test_a_wrong_period_is_an_error(options: tuple[str, ...]) -> None:
    assert overview(*options).exit_code != 0
