"""The card of an overview: totals, lists with links, within Teams' limits."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.contract.overview import ScheduledOverview
from sinks.integrations.teams.card import CARD_LIMIT, card_size
from sinks.integrations.teams.overview import overview_title, render_overview
from tests.unit.sinks.integrations.slack.message.test_overview import SITE, full


def shown(card: dict[str, Any]) -> list[str]:
    """The lines of a card."""
    head, *body = card["body"]
    return ["".join(run["text"] for run in one["inlines"]) for one in (*head["items"], *body)]


def test_an_overview_has_its_schedule_its_totals_and_its_lists() -> None:
    scheduled = ScheduledOverview("shift", full(["orders"]), is_longer=True)
    lines = shown(render_overview(scheduled))
    assert lines[0] == "Flink incidents (shift), 2026-03-01 13:03:00 UTC to 2026-03-01 15:03:00 UTC"
    assert lines[1] == "1 opened (1 warning), 0 resolved, 1 open at the end."
    titles = ("Open", "Recurring", "Most frequent kinds", "Jobs with most incidents", "Silences that end soon")
    assert [line for line in lines if line in titles] == list(titles)
    assert overview_title(scheduled) == f"{lines[0]}: {lines[1]}"


def test_incidents_link_to_the_site_if_there_is_one() -> None:
    scheduled = ScheduledOverview("shift", full(["orders"]))
    assert f"{SITE}/incidents/0orders" in str(render_overview(scheduled, SITE))
    assert "selectAction" not in str(render_overview(scheduled))


@settings(max_examples=30)
@given(st.lists(st.text(max_size=2_000), max_size=40))
def test_no_text_makes_a_card_too_large(names: list[str]) -> None:
    assert card_size(render_overview(ScheduledOverview("shift", full(names)), SITE)) <= CARD_LIMIT
