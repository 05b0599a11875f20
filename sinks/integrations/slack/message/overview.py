"""Renders an overview that is sent on schedule; see `sinks.contract.overview`."""

from collections.abc import Iterator

from sinks.contract import overview_words as words
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
from sinks.contract.overview_lists import OverviewList, RenderRow, overview_lists
from sinks.contract.site_links import incident_url
from sinks.contract.wording import SEVERITY_MARKS, moment
from sinks.integrations.slack.message.blocks import MESSAGE_LIMIT, Block, Message, plain_object, section
from sinks.integrations.slack.message.escape import code, prose
from sinks.integrations.slack.message.phrases import kind

_NAME, _TEXT, _LONGEST_URL = 60, 120, 400
# Slack refuses a section of more than 3,000 characters.
_SECTION = 2_900
# Numbers of rows, tried in turn until the message is short enough.
_ROWS = (15, 8, 4, 1)


def render_overview(scheduled: ScheduledOverview, external_url: str = "", *, plain_text: bool = False) -> Message:
    """Totals, and lists of which only the first rows are shown if the message would be too long.

    `plain_text`: without blocks. With the address of the status site, incidents link to their pages.
    """
    found = scheduled.found
    head = f"📋 {words.title(found, scheduled.schedule)}"
    text = f"{head}: {words.totals(found)}"
    if plain_text:
        return Message(text, [])
    for rows in _ROWS:
        parts = (words.totals(found), *words.remarks(scheduled), *_parts(found, external_url, rows))
        blocks: list[Block] = [{"type": "header", "text": plain_object(head)}, *map(section, parts)]
        message = Message(text, blocks)
        if message.size() <= MESSAGE_LIMIT:
            break
    return message


def _parts(found: Overview, external_url: str, rows: int) -> Iterator[str]:
    render = RenderRow(
        lambda row: f"{_name(row, external_url)}, {words.open_for(row, found.until)}: {prose(row.summary, _TEXT)}",
        lambda row: f"{_name(row, external_url)}: {prose(row.recurs, _TEXT)}",
        lambda name, count: f"{prose(name, _NAME)}: {count:,}",
        lambda silence: f"{moment(silence.until)}: {prose(silence.comment, _TEXT)} ({prose(silence.author, _NAME)})",
    )
    yield from map(_list, overview_lists(found, rows, render))
    yield from words.closing(found)


def _list(found: OverviewList[str]) -> str:
    shown = [f"• {row}" for row in found.rows]
    while len(shown) > 1 and sum(map(len, shown)) + len(shown) > _SECTION:
        del shown[-1]
    more = found.more + len(found.rows) - len(shown)
    return "\n".join((f"*{found.title}*", *shown, *([f"and {more:,} more"] if more else [])))


def _name(row: OverviewRow, external_url: str) -> str:
    where = f"`{code(row.cluster, _NAME)}`" + (f" · {prose(row.job, _NAME)}" if row.job else "")
    url = incident_url(external_url, row.incident)
    if 0 < len(url) <= _LONGEST_URL:
        return f"{SEVERITY_MARKS[row.severity]} <{url.replace('&', '&amp;')}|{kind(row.cause)}> on {where}"
    return f"{SEVERITY_MARKS[row.severity]} {kind(row.cause)} on {where} (`{code(row.incident, _NAME)}`)"
