"""Sentences of an overview that every receiver shows. They hold no text from logs."""

from collections.abc import Iterator

from detectors.values.durations import humanize
from sinks.contract.overview import Overview, OverviewRow, ScheduledOverview
from sinks.contract.wording import SEVERITY_WORDS, moment

_TUNE = (
    "`flinkwatch feedback --json` prints these labels. `flinkwatch capture` their time, then `flinkwatch tune FILES "
    "--with NEW.yaml --feedback LABELS.jsonl` shows which thresholds would not report them."
)


def title(found: Overview, schedule: str = "") -> str:
    """What the overview is about; `schedule` is the name of the schedule that it is sent by."""
    named = f" ({schedule})" if schedule else ""
    return f"Flink incidents{named}, {moment(found.since)} to {moment(found.until)}"


def totals(found: Overview) -> str:
    """How many incidents opened, resolved and are open."""
    if found.is_empty:
        return "Nothing happened: 0 opened, 0 open."
    counts = ", ".join(f"{n:,} {SEVERITY_WORDS[name].lower()}" for name, n in found.severities.items())
    return (
        f"{found.opened:,} opened{f' ({counts})' if counts else ''}, {found.resolved:,} resolved, "
        f"{found.still_open:,} open at the end."
    )


def remarks(scheduled: ScheduledOverview) -> Iterator[str]:
    """What is unusual about a scheduled overview."""
    if scheduled.is_longer:
        yield (
            f"The last overview before this one was sent for the time until {moment(scheduled.found.since)}, so this "
            "one covers more time than usual."
        )


def closing(found: Overview) -> Iterator[str]:
    """The sentences after the lists."""
    if found.feedback.not_an_incident:
        yield _TUNE
    median, count = found.feedback.median_ms, found.feedback.acknowledged
    if median is not None:
        yield f"{count:,} of {found.opened:,} acknowledged, the median after {humanize(median)}."
    if found.upgrade is not None:
        yield (
            f"{found.upgrade.avoided:,} of {found.opened:,} would not have happened on Flink {found.upgrade.version}, "
            "by the catalogue of known issues."
        )


def open_for(row: OverviewRow, until: int) -> str:
    """For how long an incident has been open at `until` (epoch ms), and until when it is silenced."""
    silenced = f", silenced until {moment(row.silence.until)}" if row.silence is not None else ""
    return f"open for {humanize(max(until - row.opened, 0))}{silenced}"
