"""What a replay found, for a person: a block for each incident as it stands at the end of the logs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone

import msgspec
from rich.table import Table
from rich.text import Text

from detectors.incident import Evidence, Finding, Transition
from detectors.incidents.recurrence import humanize_recurrence
from detectors.values.durations import humanize
from sinks.contract.wording import kind_words, with_words
from streaming.terminal import Console

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim", "resolved": "green"}
# What is broken for good comes first, whatever led to it.
_MAIN = ("job_failed",)
_SHOWN = 8

Row = tuple[str, str]


class TimelineEntry(msgspec.Struct, frozen=True):
    """A line of the timeline."""

    at: int
    incident: str
    seq: int
    transition: str
    severity: str
    text: str


class IncidentLog:
    """Takes in transitions: of each incident the last is kept, and a line of every one for the timeline."""

    def __init__(self) -> None:
        self._last: dict[str, Transition] = {}
        self.timeline: list[TimelineEntry] = []

    def take(self, t: Transition) -> None:
        before = self._last.get(t.incident)
        self._last[t.incident] = t
        said = t.summary if before is None else with_words(t.reason) or t.summary
        if before is not None and t.transition == "updated" and t.summary not in (before.summary, said):
            said = f"{said}; now: {t.summary}"
        self.timeline.append(TimelineEntry(t.at, t.incident, t.seq, t.transition, t.severity, said))

    def incidents(self) -> list[Transition]:
        """Each incident as it ended, in order of opening; those that became part of others are in these."""
        return [t for t in self._last.values() if not t.part_of]


class ReportClock:
    """Writes times in one zone, which stands beside each; `zone` is in ms east of UTC."""

    def __init__(self, zone: int = 0) -> None:
        self._zone = UTC if not zone else timezone(timedelta(milliseconds=zone))
        self.name = "UTC" if not zone else datetime.fromtimestamp(0, self._zone).isoformat()[-6:]
        self._mark = "Z" if not zone else f" {self.name}"

    def time(self, ms: int) -> str:
        try:
            return datetime.fromtimestamp(ms / 1000, self._zone).strftime("%Y-%m-%d %H:%M:%S") + self._mark
        except (OverflowError, ValueError, OSError):
            return f"{ms} ms"


UTC_CLOCK = ReportClock()


def rows(
    t: Transition, clock: ReportClock = UTC_CLOCK, files: Collection[str] = (), runbook: str = ""
) -> Iterator[Row]:
    """What there is to say of an incident: what is broken, cause, effect, what comes next, what to do, the proof."""
    main = next((f for f in t.findings if f.kind in _MAIN and f.kind != t.cause and f.closed_at is None), None)
    if main is not None:
        yield "what", main.summary
        yield "cause", f"{kind_words(t.cause)}: {t.summary}"
    else:
        yield "what", t.summary
    yield "now", _state(t, clock)
    yield from _when(t, clock)
    leading = {(t.cause, t.summary), (main.kind, main.summary) if main else ("", "")}
    others = [f for f in t.findings if (f.kind, f.summary) not in leading]
    for finding in sorted(others, key=lambda f: f.since)[:_SHOWN]:
        yield "also", _also(finding, clock)
    if (more := max(len(others) - _SHOWN, 0) + t.more) > 0:
        yield "also", f"{more} more"
    yield from _ahead(t, clock)
    advice = (main.advice if main is not None else "") or t.advice
    if advice and t.transition != "resolved":
        yield "to do", advice
    if runbook:
        yield "runbook", runbook
    if t.known_issue is not None:
        issue = t.known_issue
        yield "known issue", f"{issue.id} ({issue.applies}): {issue.title}; fixed in {issue.fixed_in}. {issue.link}"
    for evidence in sorted(t.evidence[:_SHOWN], key=lambda e: e.time):
        yield "evidence", f"{_where(evidence, files)}  {clock.time(evidence.time)}  {evidence.text}"
    config = f"{t.incident}, {t.seq} change{'s' * (t.seq > 1)}"
    yield "incident", f"{config}, little history yet" if t.confidence == "learning" else config


def print_incidents(
    incidents: Iterable[Transition], clock: ReportClock, files: Collection[str], runbooks: Mapping[str, str]
) -> None:
    console = Console(highlight=False)
    for t in incidents:
        style = _STYLES["resolved"] if t.transition == "resolved" else _STYLES[t.severity]
        title = Text(f"{t.severity.upper()}: {kind_words(t.cause)}", style)
        about = f" · job {t.job_name or t.job_id}" if t.job_name or t.job_id else ""
        console.print(title.append(f"{about} · cluster {t.cluster}", "default"), soft_wrap=True)
        _print(console, list(rows(t, clock, files, runbooks.get(t.cause, ""))))
        console.print()


def print_timeline(changes: Iterable[TimelineEntry], clock: ReportClock) -> None:
    console = Console(highlight=False)
    for c in changes:
        line = Text(f"{clock.time(c.at)}  ").append(
            f"{c.transition:8} {c.severity:8}", _STYLES.get(c.transition, _STYLES[c.severity])
        )
        console.print(line.append(f"  {c.incident}#{c.seq}  ", "dim").append(c.text, "default"), soft_wrap=True)


def conclusion(incidents: list[Transition]) -> str:
    """How many incidents there are, and how many of them are open at the end."""
    if not incidents:
        return "no incidents found"
    is_open = sum(t.transition not in ("resolved", "stale") for t in incidents)
    # Behind a blank no kind begins with a capital letter that is not its own.
    kinds = ", ".join(dict.fromkeys(with_words(f" {t.cause}").strip() for t in incidents))
    count = f"{len(incidents)} incident{'s' * (len(incidents) > 1)} ({kinds})"
    if len(incidents) == 1:
        return f"{count}, {'still open at the end' if is_open else 'not open at the end'}"
    return f"{count}, {is_open} still open at the end"


def _state(t: Transition, clock: ReportClock) -> str:
    reason = with_words(t.reason)
    if t.transition == "resolved":
        return f"resolved at {clock.time(t.ended_at or t.at)}" + (f": {reason}" if reason else "")
    if t.transition == "stale":
        return f"unknown: no data from this cluster since {clock.time(t.at)}; the incident was not seen to recover"
    silenced = f", silenced until {clock.time(t.silence.until)}" if t.silence is not None else ""
    return f"still open at the end of the logs{silenced}"


def _when(t: Transition, clock: ReportClock) -> Iterator[Row]:
    since = min((f.since for f in t.findings), default=t.opened_at or t.at)
    reported = f", reported {humanize(t.opened_at - since)} later" if t.opened_at > since else ""
    yield "started", f"{clock.time(since)}{reported}"
    if t.recurrence is not None:
        yield "recurring", humanize_recurrence(t.recurrence)
    if t.merged:
        yield "with", f"incident {', '.join(t.merged)}"


def _ahead(t: Transition, clock: ReportClock) -> Iterator[Row]:
    if t.forecast is None or t.transition == "resolved":
        return
    ahead = t.forecast
    between = f" (between {clock.time(ahead.earliest)} and {clock.time(ahead.latest)})"
    yield "next", f"{ahead.what} at {clock.time(ahead.at)}{between if ahead.earliest < ahead.latest else ''}"


def _also(finding: Finding, clock: ReportClock) -> str:
    ended = f" (ended {clock.time(finding.closed_at)})" if finding.closed_at is not None else ""
    return f"{kind_words(finding.kind)}: {finding.summary}{ended}"


def _where(evidence: Evidence, files: Collection[str]) -> str:
    """File and line, or where it stands in Kafka."""
    if evidence.topic in files:
        return f"{evidence.topic}:{evidence.offset}"
    return f"{evidence.topic}/{evidence.partition}@{evidence.offset}"


def _print(console: Console, found: list[Row]) -> None:
    shown = [(label if i == 0 or found[i - 1][0] != label else "", text) for i, (label, text) in enumerate(found)]
    if not console.is_terminal:
        for label, text in shown:
            console.print(Text(f"  {label:12}{text}".replace("\n", " ")), soft_wrap=True)
        return
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=13)
    table.add_column(overflow="fold")
    for label, text in shown:
        table.add_row(Text(f"  {label}"), Text(text))
    console.print(table)
