"""Renders an overview that is sent on schedule as an Adaptive Card; see `sinks.contract.overview`."""

from collections.abc import Iterator

from detectors.incident import Silenced
from sinks.contract import overview_words as sentences
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
from sinks.contract.overview_lists import RenderRow, overview_lists
from sinks.contract.site_links import incident_url
from sinks.contract.wording import SEVERITY_MARKS, kind_words, moment
from sinks.integrations.teams.card import CARD_LIMIT, card_size
from sinks.integrations.teams.elements import Element, bold, card, code, line, run, words

_NAME, _TEXT, _LONGEST_URL = 60, 120, 400
# Numbers of rows, tried in turn until the card is small enough.
_ROWS = (15, 8, 4, 1)


def overview_title(scheduled: ScheduledOverview) -> str:
    """What a notification on a phone shows, and the whole message without a card."""
    return f"{sentences.title(scheduled.found, scheduled.schedule)}: {sentences.totals(scheduled.found)}"


def render_overview(scheduled: ScheduledOverview, external_url: str = "") -> Element:
    """Totals, and lists of which only the first rows are shown if the card would be too large.

    With the address of the status site, incidents link to their pages.
    """
    found = scheduled.found
    head = [line(run(sentences.title(found, scheduled.schedule), 200, weight="Bolder", size="Medium"))]
    colour = "attention" if found.still_open else "good"
    for rows in _ROWS:
        opening = [line(words(text)) for text in (sentences.totals(found), *sentences.remarks(scheduled))]
        made = card(head, colour, [*opening, *_lists(found, external_url, rows), *_closing(found)], [])
        if card_size(made) <= CARD_LIMIT:
            break
    return made


def _lists(found: Overview, external_url: str, rows: int) -> Iterator[Element]:
    render = RenderRow(
        lambda row: line(
            *_name(row, external_url),
            words(f", {sentences.open_for(row, found.until)}: "),
            run(row.summary, _TEXT),
        ),
        lambda row: line(*_name(row, external_url), words(": "), run(row.recurs, _TEXT)),
        lambda name, count: line(run(name, _NAME), words(f": {count:,}")),
        _ending,
    )
    for one in overview_lists(found, rows, render):
        yield from (line(bold(one.title), separator=True), *one.rows)
        if one.more:
            yield line(words(f"and {one.more:,} more", isSubtle=True))


def _closing(found: Overview) -> Iterator[Element]:
    yield from (line(words(text), separator=True) for text in sentences.closing(found))


def _ending(one: Silenced) -> Element:
    author = (words(" ("), run(one.author, _NAME), words(")"))
    return line(words(f"{moment(one.until)}: "), run(one.comment, _TEXT), *author)


def _name(row: OverviewRow, external_url: str) -> list[Element]:
    """The kind, which links to the page of the incident, and where it is."""
    url = incident_url(external_url, row.incident)
    known = 0 < len(url) <= _LONGEST_URL
    link = {"selectAction": {"type": "Action.OpenUrl", "url": url}} if known else {}
    where = [code(row.cluster, _NAME), *([words(" · "), run(row.job, _NAME)] if row.job else [])]
    number = [] if known else [words(" ("), code(row.incident, _NAME), words(")")]
    mark = words(f"{SEVERITY_MARKS[row.severity]} ")
    return [mark, words(kind_words(row.cause), **link), words(" on "), *where, *number]
