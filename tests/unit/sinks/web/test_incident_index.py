"""The list of incidents: each once, with a link to its page; those that were merged apart; no text is markup."""

import re

from sinks.web.incident_index import render_index
from sinks.web.page_context import PageContext
from tests.unit.sinks.samples import make_transition
from tests.unit.sinks.web.page_samples import HOSTILE, chain, many

CONTEXT = PageContext(incident_address="{incident}.html")


def test_each_incident_has_a_link_and_its_state() -> None:
    html = render_index({"a": chain(incident="a"), "b": [make_transition(incident="b")]}, CONTEXT, ["one.log: 3 lines"])
    assert re.findall(r'<a href="([ab]\.html)">', html) == ["a.html", "b.html"]
    assert re.findall(r'class="state">(.*?)<', html) == ["Resolved after 3 min 16 s", "Warning"]
    assert "one.log: 3 lines" in html


def test_merged_incidents_are_apart() -> None:
    html = render_index({"a": chain(incident="a"), "b": [make_transition(incident="b", part_of="a")]}, CONTEXT)
    assert html.index('"a.html"') < html.index("Merged into others") < html.index('"b.html"')


def test_without_incidents_the_page_says_so() -> None:
    assert "No incidents found." in render_index({}, CONTEXT)


def test_hostile_text_is_neither_markup_nor_an_address() -> None:
    html = render_index({HOSTILE: many(1, 1, text=HOSTILE)}, CONTEXT, [HOSTILE])
    assert html.count("<script") == 1
    assert "<img" not in html
    assert re.findall(r'href="([^"]*)"', html) == ["data:,", "#content"]
