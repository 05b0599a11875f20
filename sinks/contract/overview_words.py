"""Sentences of an overview that every receiver shows. They hold no text from logs."""

from collections.abc import Iterator

from detectors.values.durations import humanize
from sinks.contract.overview import Overview, ScheduledOverview
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
    if found.upgrade is not None:
        yield (
            f"{found.upgrade.avoided:,} of {found.opened:,} would not have happened on Flink {found.upgrade.version}, "
            "by the catalogue of known issues."
        )


def acknowledged(found: Overview) -> str:
    """How many people have acknowledged, and how fast; empty if no one has."""
    median, count = found.feedback.median_ms, found.feedback.acknowledged
    if median is None:
        return ""
    return f"{count:,} of {found.opened:,} acknowledged, the median after {humanize(median)}."


def what_to_run(found: Overview) -> str:
    """What to do about incidents that people marked as not an incident; empty if there are none."""
    return _TUNE if found.feedback.not_an_incident else ""
