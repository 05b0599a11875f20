"""The card: what a person on call reads, and that nothing from a log can take it over."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import Evidence, Forecast, KnownIssue, LateArrival, Recurrence, Silenced
from sinks.contract.digest import folded, summarise
from sinks.contract.incident_links import IncidentLinks
from sinks.integrations.teams.card import (
    CARD_LIMIT,
    card_size,
    line_text,
    plain_text,
    render,
    render_digest,
    summary_text,
)
from sinks.integrations.teams.elements import card_activity, harmless
from tests.fake_teams.cards import card_problem, elements, texts, too_big
from tests.unit.sinks.samples import OPENED_AT, late_acks_finding, make_transition, overdue_finding

LINKS = IncidentLinks("https://runbooks.example.org", "https://g.example.org/?job={job}", "", "https://ops.example.org")
SILENCE = Silenced("5d41402a", OPENED_AT + 7_200_000, "ann", "yearly backfill")
ISSUE = KnownIssue("FLINK-1", "It leaks", "1.18.0", "Restart it.", "https://issues.example.org/FLINK-1", "affected")
HOSTILE = [
    "<at>everyone</at>",
    "<AT id='0'>x",
    "**bold** [click](https://evil.example) _i_ ~~s~~ # h",
    "{{DATE(2017-02-14T06:00:00Z, SHORT)}}",
    "\u202egnp.exe\u2066\u200b",
    "- a\r- b\n1. c",
    "\x00\x1b[31m\ud800",
    '"}],"type":"TextBlock","x":"',
    "🔥" * 3_000,
    "\\\"'`${x}@{y}" * 8_000,
]


def read(**changes: Any) -> str:
    return "\n".join(texts(render(make_transition(**changes), LINKS)))


def test_a_card_says_what_where_how_bad_and_what_to_do() -> None:
    card = render(make_transition(), LINKS)
    lines = texts(card)
    assert lines[0] == "🟠 Warning: Checkpoint overdue · orders-enrichment"
    for part in ("Cluster: prod-eu", "Job: orders-enrichment", "What happens next", "What to do"):
        assert part in lines
    assert any("flink.logs/3@120455 Triggering checkpoint 4711" in line for line in lines)
    assert lines[-1] == "incident 9f2c41d07b3e · change 1 · config c0ffee12"
    assert [(one["title"], one["url"]) for one in card["actions"]] == [
        ("Incident", "https://ops.example.org/incidents/9f2c41d07b3e"),
        ("Runbook", "https://runbooks.example.org/checkpoint_overdue"),
        ("Dashboard", "https://g.example.org/?job=orders-enrichment"),
    ]
    assert card_problem(card) == ""


@pytest.mark.parametrize(
    ("changes", "colour"),
    [
        ({"severity": "critical"}, "attention"),
        ({"severity": "warning"}, "warning"),
        ({"severity": "info"}, "accent"),
        ({"transition": "resolved"}, "good"),
        ({"transition": "stale"}, "emphasis"),
    ],
)
def test_the_head_has_the_colour_of_the_state(changes: dict[str, Any], colour: str) -> None:
    assert render(make_transition(**changes))["body"][0]["style"] == colour


def test_a_resolved_incident_shows_why_and_no_advice() -> None:
    lines = read(transition="resolved", reason="checkpoint 4713 completed", ended_at=OPENED_AT + 60_000)
    assert "Resolved because: checkpoint 4713 completed" in lines
    assert "What to do" not in lines
    assert "What happens next" not in lines


def test_each_state_is_named() -> None:
    assert "No data from this cluster: it is not known" in read(transition="stale")
    assert "continues there: 77aa88" in read(transition="resolved", part_of="77aa88")
    assert "Silenced until 2026-03-01 16:03:00 UTC by ann: yearly backfill" in read(silence=SILENCE)
    assert "Arrived 60 s late" in read(late=LateArrival(OPENED_AT - 60_000, OPENED_AT - 60_000, OPENED_AT))
    assert "What changed: it grows" in read(transition="updated", reason="it grows")
    assert "Recurring: " in read(recurrence=Recurrence(3, OPENED_AT - 1000, 1000, steady=True))


def test_findings_of_a_chain_are_in_order_and_those_not_listed_are_counted() -> None:
    lines = read(transition="updated", findings=[late_acks_finding(), overdue_finding()], more=12).splitlines()
    at = lines.index("Timeline (UTC)")
    assert lines[at + 1].startswith("14:03:00 Checkpoint overdue (began 14:01:24): Checkpoint 4711")
    assert lines[at + 2].startswith("14:04:00 Late barrier acks on container_e21_1772_0001_01_000007")
    assert lines[at + 3] == "and 12 more"


def test_a_known_issue_is_linked_only_to_an_address() -> None:
    assert "Looks like a known issue: FLINK-1" in read(known_issue=ISSUE)
    last = render(make_transition(known_issue=ISSUE))["actions"][-1]
    assert (last["title"], last["url"]) == ("FLINK-1", ISSUE.link)
    evil = KnownIssue("x", "x", "x", "x", "javascript:alert(1)", "x")
    assert "actions" not in render(make_transition(known_issue=evil))


def test_a_digest_counts_all_and_names_the_worst() -> None:
    one = folded(make_transition(), OPENED_AT)
    made = render_digest(summarise(OPENED_AT, [(f"i{n}", one) for n in range(12)], silenced=2))
    lines = texts(made)
    assert lines[0] == "🌊 Storm of 14 incidents: 12 open, 0 over, 2 silenced"
    assert "Open: 🟠 12 warning" in lines
    assert sum("Checkpoint overdue on prod-eu · orders-enrichment" in line for line in lines) == 10
    assert card_problem(made) == ""


hostile = st.sampled_from(HOSTILE) | st.text(max_size=60)


@settings(max_examples=25)
@given(hostile, hostile, hostile)
def test_no_text_takes_over_a_card_or_makes_it_too_large(a: str, b: str, c: str) -> None:
    """No element with Markdown, no mention, no function, no invisible character, no action but our addresses."""
    transition = make_transition(
        transition="updated",
        incident=a,
        cause=b,
        cluster=b,
        job_name=c,
        summary=a,
        reason=b,
        advice=c,
        config=a,
        merged=[b] * 5,
        silence=Silenced(a, OPENED_AT, b, c),
        findings=[late_acks_finding(summary=a, entity={"tm_id": b, "host": c, "task": a}, kind=c)] * 20,
        evidence=[Evidence(a, 0, 0, 0, b), *[Evidence("t", 0, 0, 0, c)] * 20],
        known_issue=KnownIssue(a, b, c, a, b, c),
        forecast=Forecast(a, OPENED_AT + 1000, OPENED_AT, OPENED_AT + 2000),
    )
    made = render(transition, LINKS, note=a)
    assert card_problem(made) == ""
    assert card_size(made) <= CARD_LIMIT
    assert not too_big(card_activity(made, summary_text(transition)))
    digest = render_digest(summarise(1, [(f"{a}{n}", folded(transition, 1)) for n in range(12)]))
    assert card_problem(digest) == ""
    assert card_size(digest) <= CARD_LIMIT
    shown = [one["text"] for card in (made, digest) for one in elements(card) if "text" in one]
    for text in (*shown, summary_text(transition), line_text(transition)):
        assert "<at" not in text.lower()
        assert "{{date(" not in text.lower()
        assert not set(text) & set("\u202e\u2066\u200b\x00\x1b\n\r\ud800")
    assert all(one["url"].startswith("https://") for one in made.get("actions", ()))
    assert len(plain_text(transition)) < 4_000


@given(st.text(alphabet="<>/at{}DATE(TIME \u200b"))
def test_neither_a_mention_nor_a_function_survives(text: str) -> None:
    made = harmless(text, 400).lower()
    assert not any(found in made for found in ("<at", "</at", "{{date(", "{{time("))


def test_a_log_line_is_shown_as_it_is() -> None:
    line = "at org.apache.flink.Foo$1.<init>(Foo.java:7) [my_job_name] *x* `y` \\z"
    assert harmless(line, 400) == line
