"""An overview as Markdown, for a chat, a ticket or a terminal."""

from collections.abc import Iterator

from detectors.values.durations import humanize
from sinks.contract.markdown import escaped
from sinks.contract.overview import Overview, OverviewRow
from sinks.contract.wording import SEVERITY_MARKS, SEVERITY_WORDS, kind_words, moment

_SHOWN = 20
_LONGEST = 300


def markdown(found: Overview, site: str = "") -> str:
    """The overview. If the address of the status site is given, incidents link to their pages there."""
    return "\n".join((*_head(found), *_sections(found, site))) + "\n"


def _head(found: Overview) -> Iterator[str]:
    yield f"# Flink incidents, {moment(found.since)} to {moment(found.until)}"
    yield ""
    counts = ", ".join(f"{n:,} {SEVERITY_WORDS[name].lower()}" for name, n in found.severities.items())
    yield (
        f"{found.opened:,} opened{f' ({counts})' if counts else ''}, {found.resolved:,} resolved, "
        f"{len(found.open):,} open at the end."
    )


def _sections(found: Overview, site: str) -> Iterator[str]:
    yield from _list("Open", [_incident(row, found.until, site) for row in found.open])
    yield from _list("Recurring", [f"{_name(row, site)}: {row.recurs}" for row in found.recurring])
    yield from _list("Most frequent kinds", [f"{_text(name)}: {count:,}" for name, count in found.kinds])
    yield from _list("Jobs with most incidents", [f"{_text(name)}: {count:,}" for name, count in found.jobs])
    ending = [f"{moment(s.until)}: {_text(s.comment)} ({_text(s.author)})" for s in found.silences_ending]
    yield from _list("Silences that end soon", ending)
    if found.upgrade is not None:
        yield ""
        yield (
            f"{found.upgrade.avoided:,} of {found.opened:,} would not have happened on Flink {found.upgrade.version}, "
            "by the catalogue of known issues."
        )


def _list(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        yield ""
        yield f"## {title}"
        yield ""
        yield from (f"- {row}" for row in rows[:_SHOWN])
        if len(rows) > _SHOWN:
            yield f"- and {len(rows) - _SHOWN:,} more"


def _incident(row: OverviewRow, until: int, site: str) -> str:
    silenced = f", silenced until {moment(row.silence.until)}" if row.silence is not None else ""
    return f"{_name(row, site)}, open for {humanize(max(until - row.opened, 0))}{silenced}: {_text(row.summary)}"


def _name(row: OverviewRow, site: str) -> str:
    words = f"{kind_words(row.cause)} on {_text(f'{row.cluster}/{row.job}' if row.job else row.cluster)}"
    named = f"[{words}]({site}/incidents/{row.incident})" if site else f"{words} ({row.incident})"
    return f"{SEVERITY_MARKS[row.severity]} {named}"


def _text(text: str) -> str:
    return escaped(text, _LONGEST)
