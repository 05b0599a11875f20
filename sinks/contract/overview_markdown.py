"""An overview as Markdown, for a chat, a ticket or a terminal."""

from collections.abc import Iterable, Iterator

from sinks.contract import overview_words as words
from sinks.contract.markdown import escaped
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
from sinks.contract.overview_lists import RenderRow, overview_lists
from sinks.contract.site_links import incident_url
from sinks.contract.wording import SEVERITY_MARKS, kind_words, moment

_SHOWN = 20
_LONGEST = 300


def markdown(found: Overview, external_url: str = "") -> str:
    """The overview. If the address of the status site is given, incidents link to their pages there."""
    return _document(words.title(found), (), found, external_url)


def scheduled_markdown(scheduled: ScheduledOverview, external_url: str = "") -> str:
    """The same for an overview that is sent on schedule."""
    head = words.title(scheduled.found, scheduled.schedule)
    return _document(head, words.remarks(scheduled), scheduled.found, external_url)


def _document(title: str, remarks: Iterable[str], found: Overview, external_url: str) -> str:
    head = (f"# {title}", "", words.totals(found))
    paragraphs = (line for sentence in remarks for line in ("", sentence))
    return "\n".join((*head, *paragraphs, *_sections(found, external_url))) + "\n"


def _sections(found: Overview, external_url: str) -> Iterator[str]:
    render = RenderRow(
        lambda row: f"{_name(row, external_url)}, {words.open_for(row, found.until)}: {_text(row.summary)}",
        lambda row: f"{_name(row, external_url)}: {row.recurs}",
        lambda name, count: f"{_text(name)}: {count:,}",
        lambda silence: f"{moment(silence.until)}: {_text(silence.comment)} ({_text(silence.author)})",
    )
    for one in overview_lists(found, _SHOWN, render):
        yield from ("", f"## {one.title}", "", *(f"- {row}" for row in one.rows))
        if one.more:
            yield f"- and {one.more:,} more"
    for sentence in words.closing(found):
        yield from ("", sentence)


def _name(row: OverviewRow, external_url: str) -> str:
    about = f"{kind_words(row.cause)} on {_text(f'{row.cluster}/{row.job}' if row.job else row.cluster)}"
    url = incident_url(external_url, row.incident)
    return f"{SEVERITY_MARKS[row.severity]} {f'[{about}]({url})' if url else f'{about} ({_text(row.incident)})'}"


def _text(text: str) -> str:
    return escaped(text, _LONGEST)
