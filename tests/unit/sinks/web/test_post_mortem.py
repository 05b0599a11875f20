"""A post-mortem: what is known is filled in, what people decide is blank, and no text from a log is markup."""

import re

import pytest

from detectors.incident import KnownIssue
from sinks.web.page_context import PageContext, SentNotification
from sinks.web.post_mortem import post_mortem
from tests.unit.sinks.samples import OPENED_AT, adjustment, make_transition
from tests.unit.sinks.web.page_samples import HOSTILE, chain, hostile_context, many

SENT = [SentNotification("slack", OPENED_AT + 2_000, 1, "sent")]


def test_it_has_the_sections_of_a_post_mortem_and_leaves_actions_blank() -> None:
    text = post_mortem(chain())
    assert re.findall(r"^#+ (.*)$", text, re.MULTILINE) == [
        "Post-mortem: Late barrier acks · orders-enrichment",
        "Impact",
        "Cause",
        "Timeline",
        "Detection and delivery",
        "What was advised",
        "Actions",
    ]
    assert text.endswith("| action | owner | due |\n| --- | --- | --- |\n|  |  |  |\n|  |  |  |\n")


def test_what_was_changed_in_flink_has_a_section_with_what_became_of_it() -> None:
    text = post_mortem([make_transition(adjustments=[adjustment(effect="9 of 9 checkpoints completed since")])])
    assert "## What was changed in Flink\n\n- 14:13:00 execution.checkpointing.timeout 10 min" in text
    assert "9 of 9 checkpoints completed since" in text
    assert "changed in Flink" not in post_mortem([make_transition()])


def test_detection_and_delivery_are_given_with_their_delays() -> None:
    text = post_mortem(chain()).split("## Detection and delivery")[1]
    assert "- Opened: 2026-03-01 14:03:00 UTC, 96 s after the first symptom" in text
    assert "- Cause named: 2026-03-01 14:04:00 UTC, 60 s after the incident was opened" in text
    sent = post_mortem(chain(), PageContext(notifications=SENT))
    assert "- slack: change 1 sent 2026-03-01 14:03:02 UTC, 2 s after the incident was opened" in sent


def test_the_cause_has_its_evidence_and_its_known_issue() -> None:
    issue = KnownIssue("FLINK-1", "It hangs", "1.20", "Restart it", "https://issues.example.org/FLINK-1", "affected")
    text = post_mortem(chain(known_issue=issue))
    assert "`jobmanager.log/0@17` `Received late message`" in text
    assert "Looks like FLINK-1: It hangs (affected)" in text
    assert "https://issues.example.org/FLINK-1" in text


def test_hostile_text_is_neither_markup_nor_a_mention() -> None:
    text = post_mortem(many(3, 3, text=f"{HOSTILE} @everyone [a](http://b) `c` | d\n# e"), hostile_context(HOSTILE))
    outside_code = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"(?<!\\)<script", outside_code)
    assert "@everyone" not in outside_code
    assert not re.search(r"(?<!\\)\[a\]", outside_code)
    assert not re.search(r"^# e", text, re.MULTILINE)
    assert not re.search("[\x00\x1b\u202e\u2066]", text)


def test_an_incident_without_a_transition_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        post_mortem([])
