"""An overview as Markdown."""

from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.feedback import Answer, Feedback
from sinks.contract.overview import Overview, Period, ScheduledOverview, overview
from sinks.contract.overview_markdown import markdown, scheduled_markdown
from tests.unit.sinks.samples import OPENED_AT, make_transition

HOUR = 3_600_000


def found(*answers: Answer, **fields: str) -> Overview:
    period = Period(OPENED_AT - HOUR, OPENED_AT + HOUR)
    period.add(make_transition(incident="9f2c", **fields))
    for one in answers:
        at = OPENED_AT + 240_000
        period.add_feedback(Feedback(incident="9f2c", answer=one, person="ann", user="U1", at=at, kind="restart_loop"))
    return overview(period, IssueCatalogue())


def text(site: str = "", **fields: str) -> str:
    return markdown(found(**fields), site)


def test_the_first_lines_are_the_period_and_the_counts() -> None:
    lines = text().splitlines()
    assert lines[0] == "# Flink incidents, 2026-03-01 13:03:00 UTC to 2026-03-01 15:03:00 UTC"
    assert lines[2] == "1 opened (1 warning), 0 resolved, 1 open at the end."


def test_an_open_incident_has_its_age_and_its_id() -> None:
    assert "(9f2c), open for 1 h" in text()


def test_an_incident_links_to_its_page_if_the_site_has_an_address() -> None:
    assert "](https://flinkwatch.example/incidents/9f2c), open for" in text("https://flinkwatch.example")


def test_text_from_logs_is_one_line_without_markup() -> None:
    line = next(line for line in text(summary="a\n# b <script> [x](y) | `c`").splitlines() if "open for" in line)
    assert line.endswith(r"a \# b \<script\> \[x\](y) \| \`c\`")


def test_a_list_that_is_too_long_counts_what_it_leaves_out() -> None:
    period = Period(OPENED_AT - HOUR, OPENED_AT + HOUR)
    for number in range(30):
        period.add(make_transition(incident=str(number), cause="job_failed"))
    assert "- and 10 more" in markdown(overview(period, IssueCatalogue())).splitlines()


def test_an_empty_period_is_one_line() -> None:
    empty = overview(Period(OPENED_AT, OPENED_AT + HOUR), IssueCatalogue())
    assert markdown(empty).splitlines()[2:] == ["Nothing happened: 0 opened, 0 open."]


def test_acknowledgements_and_labels_are_shown_with_the_command_that_uses_them() -> None:
    shown = markdown(found("acknowledged", "not_an_incident"))
    assert "1 of 1 acknowledged, the median after 4 min." in shown
    assert "## Marked as not an incident\n\n- Restart loop: 1\n" in shown
    assert "--feedback LABELS.jsonl" in shown
    assert "feedback" not in markdown(found())


def test_a_scheduled_overview_names_its_schedule_and_says_if_it_covers_more_than_usual() -> None:
    usual, longer = (scheduled_markdown(ScheduledOverview("shift", found(), is_longer)) for is_longer in (False, True))
    assert usual.startswith("# Flink incidents (shift), 2026-03-01 13:03:00 UTC to")
    assert "more time than usual" in longer
    assert "more time than usual" not in usual
