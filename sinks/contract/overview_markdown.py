"""An overview as Markdown, for a chat, a ticket or a terminal."""

from collections.abc import Iterable, Iterator

from detectors.values.durations import humanize
from sinks.contract import overview_words as words
from sinks.contract.markdown import escaped
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
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
    shown = [_incident(row, found.until, external_url) for row in found.open[:_SHOWN]]
    yield from _list("Open", shown, found.still_open)
    yield from _list("Recurring", [f"{_name(row, external_url)}: {row.recurs}" for row in found.recurring])
    yield from _list("Most frequent kinds", [f"{_text(name)}: {count:,}" for name, count in found.kinds])
    yield from _list("Jobs with most incidents", [f"{_text(name)}: {count:,}" for name, count in found.jobs])
    ending = [f"{moment(s.until)}: {_text(s.comment)} ({_text(s.author)})" for s in found.silences_ending]
    yield from _list("Silences that end soon", ending)
    labels = [f"{_text(name)}: {count:,}" for name, count in found.feedback.not_an_incident]
    yield from _list("Marked as not an incident", labels)
    for sentence in (words.what_to_run(found), words.acknowledged(found), *words.closing(found)):
        if sentence:
            yield ""
            yield sentence


def _list(title: str, rows: list[str], total: int | None = None) -> Iterator[str]:
    if rows:
        yield ""
        yield f"## {title}"
        yield ""
        yield from (f"- {row}" for row in rows[:_SHOWN])
        more = (len(rows) if total is None else total) - _SHOWN
        if more > 0:
            yield f"- and {more:,} more"


def _incident(row: OverviewRow, until: int, external_url: str) -> str:
    silenced = f", silenced until {moment(row.silence.until)}" if row.silence is not None else ""
    opened = humanize(max(until - row.opened, 0))
    return f"{_name(row, external_url)}, open for {opened}{silenced}: {_text(row.summary)}"


def _name(row: OverviewRow, external_url: str) -> str:
    about = f"{kind_words(row.cause)} on {_text(f'{row.cluster}/{row.job}' if row.job else row.cluster)}"
    url = incident_url(external_url, row.incident)
    return f"{SEVERITY_MARKS[row.severity]} {f'[{about}]({url})' if url else f'{about} ({_text(row.incident)})'}"


def _text(text: str) -> str:
    return escaped(text, _LONGEST)
