"""The message of an overview: totals, lists with links, feedback, within Slack's limits."""

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import KnownIssue, Recurrence, Silenced
from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.feedback import Feedback
from sinks.contract.overview import Overview, Period, ScheduledOverview, overview
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT
from sinks.integrations.slack.message.overview import render_overview
from tests.fake_slack.limits import blocks_problem
from tests.unit.sinks.samples import OPENED_AT, make_transition

HOUR = 3_600_000
SITE = "https://flinkwatch.example"


def full(names: list[str]) -> Overview:
    """Every list has a row for each name."""
    period = Period(OPENED_AT - HOUR, OPENED_AT + HOUR)
    for number, name in enumerate(names):
        one = make_transition(
            incident=f"{number}{name}",
            cause=name or "restart_loop",
            cluster=name,
            job_name=f"{name}{number}",
            summary=name,
            recurrence=Recurrence(3 + number, OPENED_AT, HOUR, False),
            silence=Silenced(str(number), OPENED_AT + HOUR + 1, name, name),
            known_issue=KnownIssue("FLINK-1", name, "1.20", "", "", "yes"),
        )
        period.add(one)
        label = Feedback(incident=one.incident, answer="not_an_incident", person="", user="", at=OPENED_AT, kind=name)
        period.add_feedback(label)
        period.add_feedback(msgspec.structs.replace(label, answer="acknowledged"))
    return overview(period, IssueCatalogue())


def shown(found: Overview, site: str = "", is_longer: bool = False) -> str:
    blocks = render_overview(ScheduledOverview("shift", found, is_longer), site).blocks
    return "\n".join(block["text"]["text"] for block in blocks)


def test_an_overview_names_its_schedule_its_period_and_the_totals() -> None:
    lines = shown(full(["orders"])).splitlines()
    assert lines[0] == "📋 Flink incidents (shift), 2026-03-01 13:03:00 UTC to 2026-03-01 15:03:00 UTC"
    assert lines[1] == "1 opened (1 warning), 0 resolved, 1 open at the end."


def test_each_list_and_the_feedback_are_shown() -> None:
    text = shown(full(["orders"]), is_longer=True)
    titles = re.findall(r"^\*(.*)\*$", text, re.MULTILINE)
    assert titles == [
        "Open",
        "Recurring",
        "Most frequent kinds",
        "Jobs with most incidents",
        "Silences that end soon",
        "Marked as not an incident",
    ]
    assert "1 of 1 acknowledged, the median after 0 ms." in text
    assert "flinkwatch tune" in text
    assert "more time than usual" in text


def test_incidents_link_to_the_site_if_it_has_an_address_and_name_their_id_otherwise() -> None:
    assert f"<{SITE}/incidents/0orders|Orders> on `orders`" in shown(full(["orders"]), SITE)
    assert "(`0orders`)" in shown(full(["orders"]))


def test_nothing_happened_is_one_line() -> None:
    empty = overview(Period(OPENED_AT, OPENED_AT + HOUR), IssueCatalogue())
    assert shown(empty).splitlines()[1:] == ["Nothing happened: 0 opened, 0 open."]
    assert render_overview(ScheduledOverview("shift", empty)).text.endswith("Nothing happened: 0 opened, 0 open.")


def test_a_list_that_is_too_long_counts_what_it_leaves_out() -> None:
    assert "and 25 more" in shown(full(["orders"] * 40))


TEXT = st.sampled_from(["<!channel>" * 50, "🔥" * 300, '"' * 900, "&" * 900, "`*_~" * 100, ""]) | st.text(max_size=100)


@settings(max_examples=15, deadline=None)
@given(st.lists(TEXT, max_size=40))
@pytest.mark.parametrize(("plain", "site"), [(False, ""), (False, SITE), (True, "")])
def test_any_overview_fits_and_mentions_no_one(plain: bool, site: str, names: list[str]) -> None:
    message = render_overview(ScheduledOverview("shift", full(names)), site, plain_text=plain)
    assert message.size() <= MESSAGE_LIMIT
    assert not message.blocks or blocks_problem(message.blocks) == ""
    links = re.sub(rf"<{re.escape(SITE)}/incidents/[^<>|]*\|[^<>|]*>", "", str(msgspec.to_builtins(message)))
    assert not re.search("[<>]", links)
