"""The block of an incident in a terminal has what Slack's message has."""

from typing import Any

import msgspec
import pytest

from detectors.incident import KnownIssue
from streaming.cli.replay_report import rows
from tests.unit.sinks.samples import make_transition


def block(**fields: Any) -> dict[str, str]:
    return dict(rows(make_transition(**fields)))


def test_it_names_where_the_incident_is() -> None:
    assert block()["where"] == "Checkpoint 4711"


def test_what_has_ended_keeps_its_advice_and_shows_how_long_it_took() -> None:
    """People replay the logs of last night to prevent the next time."""
    open_one, ended = block(), block(transition="resolved", reason="a checkpoint completed")
    assert ended["advice"] == open_one["to do"]
    assert ", after " in ended["now"]
    assert ended["now"].endswith(": a checkpoint completed")


@pytest.mark.parametrize(("live", "state"), [(False, "still open at the end of the logs"), (True, "open")])
def test_an_open_incident_is_open_now_only_while_it_is_followed(live: bool, state: str) -> None:
    assert dict(rows(make_transition(), live=live))["now"] == state


def test_a_known_issue_has_its_workaround() -> None:
    issue = KnownIssue(
        id="FLINK-1",
        title="it leaks",
        fixed_in="1.17.2",
        workaround="Restart it weekly.",
        link="https://a.example/1",
        applies="1.17.1 is affected",
    )
    text = dict(rows(msgspec.structs.replace(make_transition(), known_issue=issue)))["known issue"]
    assert text.startswith("FLINK-1: it leaks (1.17.1 is affected). Fixed in 1.17.2. Until then: Restart it weekly.")
    assert text.endswith(" https://a.example/1")
