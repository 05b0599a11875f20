"""An overview as Markdown."""

from detectors.incidents.known_issues import IssueCatalogue
from sinks.contract.overview import overview
from sinks.contract.overview_markdown import markdown
from tests.unit.sinks.samples import OPENED_AT, make_transition

HOUR = 3_600_000


def text(site: str = "", **fields: str) -> str:
    found = overview(
        {"a": [make_transition(incident="9f2c", **fields)]}, OPENED_AT - HOUR, OPENED_AT + HOUR, IssueCatalogue()
    )
    return markdown(found, site)


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
