"""The page of an incident: what it shows in which order, and that nothing from a log becomes markup."""

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.incident import KnownIssue, LateArrival, RestorePoint, Silenced
from sinks.contract import phrases
from sinks.contract.wording import moment
from sinks.web.incident_page import render_incident
from sinks.web.page_context import EarlierIncident, PageContext, SentNotification, ThresholdInForce
from tests import recorded
from tests.unit.sinks.samples import OPENED_AT, adjustment, make_transition
from tests.unit.sinks.web.page_samples import HOSTILE, HUGE, chain, hostile_context, many

UNSEEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.headings: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] not in ("style", "script"):
            self.words.append(data)
        if self.tags and self.tags[-1] in ("h1", "h2") and data.strip():
            self.headings.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def everything() -> Page:
    silence = Silenced("5d41402a", OPENED_AT + 7_200_000, "ann", "yearly backfill")
    context = PageContext(
        earlier=[EarlierIncident("0a1b2c3d4e5f", "Checkpoint 3999 hung.", OPENED_AT - 86_400_000)],
        notifications=[SentNotification("slack", OPENED_AT + 2_000, 1, "sent")],
        thresholds=[ThresholdInForce("late_barrier_acks.share", "0.8", "0.6", "Share of acknowledgements.")],
        files=frozenset({"jobmanager.log"}),
        incident_address="/incidents/{incident}",
        runbook_base_url="https://example.org/runbooks",
    )
    return Page(render_incident(chain(silence=silence, merged=["123456abcdef"]), context))


def test_sections_come_in_the_order_in_which_a_person_on_call_needs_them() -> None:
    assert everything().headings == [
        "Late barrier acks · orders-enrichment",
        "What to do now",
        "From the cause to its symptoms",
        "Timeline",
        "Findings and their evidence",
        "Recurrence",
        "Configuration in force",
        "Notifications",
        "Silences, late arrival, merged incidents",
    ]


def test_the_page_uses_the_words_of_the_message() -> None:
    page = Page(render_incident(chain()[:2])).text
    transition = chain()[1]
    words = [phrases.subject_line(transition), phrases.state(transition), phrases.forecast_words(transition)]
    words += [word for label, names in phrases.places(transition) for word in (label, *names)]
    words += [word for row in phrases.times(transition) for word in row]
    assert [word for word in words if word not in page] == []


def test_what_was_changed_in_flink_follows_what_to_do_with_what_became_of_it() -> None:
    page = Page(render_incident([make_transition(adjustments=[adjustment(effect="9 of 9 checkpoints completed")])]))
    assert page.headings[1:3] == ["What to do now", "What was changed in Flink, and what became of it"]
    assert "execution.checkpointing.timeout 10 min → 20 min 9 of 9 checkpoints completed" in page.text
    assert "changed in Flink" not in Page(render_incident([make_transition()])).text


def test_evidence_is_an_address_in_kafka_or_a_line_of_a_file() -> None:
    page = everything().text
    assert "jobmanager.log:17" in page
    assert "flink.logs/3@120455" in Page(render_incident(chain()[:2])).text


def test_other_incidents_are_links_where_there_are_pages() -> None:
    links = [value for name, value in everything().attributes if name == "href"]
    assert "/incidents/0a1b2c3d4e5f" in links
    assert "/incidents/123456abcdef" in links
    assert "https://example.org/runbooks/late_barrier_acks" in links


def test_each_change_opens_to_what_was_known_then() -> None:
    html = render_incident(chain())
    steps = re.findall(r'<details class="step".*?</details>', html, re.DOTALL)
    assert [re.search(r'id="change-(\d+)"', step)[1] for step in steps] == ["1", "2", "3"]  # type: ignore[index]
    assert "Late barrier acks" not in Page(steps[0]).text
    assert "The cause is now known to be late barrier acks" in Page(steps[1]).text


def test_a_step_shows_advice_only_when_it_is_new() -> None:
    assert Page(render_incident(chain())).text.count("What to do:") == 1


def test_what_to_do_ends_with_the_checkpoint_to_restore_from_and_flink_s_ui() -> None:
    point = RestorePoint(OPENED_AT, "s3://state/a1b2c3/chk-7", 7)
    context = PageContext(flink_ui_url={"prod-*": "https://flink.example.org/#/job/{job_id}"})
    html = render_incident([make_transition(restore_from=point)], context)
    assert "Restore from Checkpoint 7, completed at 14:03:00 UTC." in Page(html).text
    assert "<code>s3://state/a1b2c3/chk-7</code>" in html
    assert '<a href="https://flink.example.org/#/job/a1b2c3">Flink UI</a>' in html
    without = render_incident([make_transition()])
    assert ("Restore from" in without, "Flink UI" in without) == (False, False)


def test_a_resolved_incident_asks_for_nothing_now() -> None:
    page = Page(render_incident(chain())).text
    assert "Nothing now: it is resolved." in page
    assert "Resolved because: checkpoint 4713 completed in 9.8 s" in page
    assert "What happens next" not in page.split("Timeline")[0]


def test_without_data_the_page_shows_what_to_check() -> None:
    page = Page(render_incident([*chain()[:2], make_transition(seq=3, transition="stale", reason="no data")])).text
    assert phrases.NO_DATA in page


@pytest.mark.parametrize(
    ("address", "linked"), [("https://issues.example.org/FLINK-1", True), ("javascript:alert(1)", False)]
)
def test_a_known_issue_is_a_link_only_if_its_address_is_one(address: str, linked: bool) -> None:
    issue = KnownIssue("FLINK-1", "It hangs", "1.20", "Restart it", address, "affected")
    page = Page(render_incident(chain(known_issue=issue)))
    assert "It hangs (affected). Fixed in 1.20. Until then: Restart it" in page.text
    assert (address in links(page)) == linked


def test_an_exercise_and_a_late_arrival_are_named_in_the_headline() -> None:
    late = LateArrival(OPENED_AT - 600_000, OPENED_AT - 300_000, OPENED_AT)
    headline = Page(render_incident(chain(cluster="exercise-prod", late=late)[:1])).text.split("What to do now")[0]
    assert "EXERCISE, Checkpoint overdue" in headline
    assert "Arrived 5 min late: written 13:53:00 to 13:58:00, read 14:03:00 UTC" in headline


def test_changes_that_kafka_has_removed_are_counted() -> None:
    assert "Kafka has removed 2 earlier changes" in Page(render_incident(chain()[2:])).text


def test_of_very_many_changes_the_first_and_the_last_are_shown() -> None:
    page = Page(render_incident(many(200, 1)))
    assert "120 changes in between are not shown" in page.text
    shown = [value for name, value in page.attributes if name == "id" and value.startswith("change-")]
    assert (len(shown), shown[0], shown[-1]) == (80, "change-1", "change-200")


def test_an_incident_without_a_transition_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        render_incident([])


@pytest.mark.parametrize("text", ["", (HOSTILE + " ") * 600 + HUGE], ids=["usual", "hostile"])
def test_a_page_of_sixty_changes_is_small(text: str) -> None:
    html = render_incident(many(60, text=text), hostile_context(text) if text else PageContext())
    assert len(html.encode()) < 1_500_000


def test_a_page_of_sixty_changes_is_made_within_a_second() -> None:
    """The best of three: the machine may be busy."""
    incident = many(60)
    render_incident(incident[:1])
    taken = []
    for _ in range(3):
        begun = time.process_time()
        render_incident(incident)
        taken.append(time.process_time() - begun)
    assert min(taken) < 1.0


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["", HOSTILE, "\u202e", "<", "{%", "javascript:"]), st.text(max_size=60))
def test_no_text_becomes_markup_or_is_invisible(hostile: str, any_text: str) -> None:
    text = f"{hostile}{any_text}" or HOSTILE
    html = render_incident(many(3, 3, text=text), hostile_context(text))
    page = Page(html)
    assert set(page.tags) <= set(Page(render_incident(many(3, 3, text="plain"), hostile_context("plain"))).tags)
    assert page.tags.count("script") == page.tags.count("style") == 1
    assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == []
    assert not UNSEEN.search(html)
    assert all(value.startswith(("#", "data:,", "https://")) or value.endswith(".html") for value in links(page))


def links(page: Page) -> list[str]:
    return [value for name, value in page.attributes if name in ("href", "src")]


def test_the_page_of_a_recording_names_taskmanager_cause_and_next_step_before_everything_else() -> None:
    transitions = recorded.said(recorded.records("post-mortem-002"))
    first = [t for t in transitions if t.incident == transitions[0].incident]
    opening = Page(render_incident(first)).text.split("From the cause to its symptoms")[0]
    manager = next(f.entity["tm_id"] for f in first[-1].findings if f.kind == "late_barrier_acks")
    assert manager in opening
    assert first[-1].advice.split(".")[0] in opening
    assert moment(phrases.since(first[-1])) in opening
