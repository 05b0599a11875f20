"""The message of a storm: complete counts, the worst by name, within Slack's limits."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.contract.digest import Folded, summarise
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT
from sinks.integrations.slack.message.digest import render_digest
from tests.fake_slack.limits import blocks_problem
from tests.unit.sinks.samples import OPENED_AT


def one(number: int, **changes: Any) -> tuple[str, Folded]:
    """An incident of a storm."""
    folded = Folded(
        storm=OPENED_AT,
        kind=("restart_loop", "taskmanager_lost", "checkpoint_overdue")[number % 3],
        cluster=f"prod-{number % 5}",
        job=f"orders-{number}",
        severity=("critical", "warning", "info")[number % 3],
        since=OPENED_AT + number * 1000,
    )
    return f"incident{number:04}", msgspec.structs.replace(folded, **changes)


def test_a_storm_reads_as_reviewed(golden: Callable[[str, str], None]) -> None:
    folded = [one(number, resolved=number % 4 == 0, has_own_message=number % 7 == 1) for number in range(2000)]
    message = render_digest(summarise(OPENED_AT, folded))
    golden("storm.json", msgspec.json.format(msgspec.json.encode(message), indent=1).decode() + "\n")


def test_a_storm_that_is_over_says_so() -> None:
    message = render_digest(summarise(OPENED_AT, [one(1, resolved=True)]))
    assert "✅" in message.text
    assert "0 open" in message.text


TEXT = st.sampled_from(["<!channel>" * 50, "🔥" * 300, '"' * 900, "&" * 900, "`*_~" * 100, ""]) | st.text(max_size=100)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=40))
@pytest.mark.parametrize("plain", [False, True])
def test_any_storm_fits_and_mentions_nobody(plain: bool, names: list[tuple[str, str]]) -> None:
    folded = [(kind + job, one(at, kind=kind, cluster=job, job=job)[1]) for at, (kind, job) in enumerate(names)]
    message = render_digest(summarise(OPENED_AT, folded), plain_text=plain)
    assert message.size() <= MESSAGE_LIMIT
    assert not message.blocks or blocks_problem(message.blocks) == ""
    assert not re.search("[<>]", str(msgspec.to_builtins(message)))
