"""Renders an overview that is sent on schedule; see `sinks.contract.overview`."""

from collections.abc import Iterator, Sequence

from detectors.incident import Silenced
from detectors.values.durations import humanize
from sinks.contract import overview_words as words
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
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
    lists = (
        ("Open", found.still_open, [_incident(row, found.until, external_url) for row in found.open[:rows]]),
        ("Recurring", len(found.recurring), [_recurring(row, external_url) for row in found.recurring[:rows]]),
        ("Most frequent kinds", len(found.kinds), _counts(found.kinds[:rows])),
        ("Jobs with most incidents", len(found.jobs), _counts(found.jobs[:rows])),
        ("Silences that end soon", len(found.silences_ending), [_ending(one) for one in found.silences_ending[:rows]]),
        ("Marked as not an incident", len(labels := found.feedback.not_an_incident), _counts(labels[:rows])),
    )
    yield from (_list(title, total, lines) for title, total, lines in lists if lines)
    yield from filter(None, (words.what_to_run(found), words.acknowledged(found), *words.closing(found)))


def _list(title: str, total: int, lines: Sequence[str]) -> str:
    shown = [f"• {line}" for line in lines]
    while len(shown) > 1 and sum(map(len, shown)) + len(shown) > _SECTION:
        del shown[-1]
    more = [f"and {total - len(shown):,} more"] if total > len(shown) else []
    return "\n".join((f"*{title}*", *shown, *more))


def _recurring(row: OverviewRow, external_url: str) -> str:
    return f"{_name(row, external_url)}: {prose(row.recurs, _TEXT)}"


def _ending(one: Silenced) -> str:
    return f"{moment(one.until)}: {prose(one.comment, _TEXT)} ({prose(one.author, _NAME)})"


def _counts(counts: Sequence[tuple[str, int]]) -> list[str]:
    return [f"{prose(name, _NAME)}: {count:,}" for name, count in counts]


def _incident(row: OverviewRow, until: int, external_url: str) -> str:
    silenced = f", silenced until {moment(row.silence.until)}" if row.silence is not None else ""
    opened = humanize(max(until - row.opened, 0))
    return f"{_name(row, external_url)}, open for {opened}{silenced}: {prose(row.summary, _TEXT)}"


def _name(row: OverviewRow, external_url: str) -> str:
    where = f"`{code(row.cluster, _NAME)}`" + (f" · {prose(row.job, _NAME)}" if row.job else "")
    url = incident_url(external_url, row.incident)
    if 0 < len(url) <= _LONGEST_URL:
        return f"{SEVERITY_MARKS[row.severity]} <{url.replace('&', '&amp;')}|{kind(row.cause)}> on {where}"
    return f"{SEVERITY_MARKS[row.severity]} {kind(row.cause)} on {where} (`{code(row.incident, _NAME)}`)"
