"""The report of a replay: a block of text for each incident, in its state at the end of the logs."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec
from rich.text import Text

from detectors.incident import Evidence, Finding, Transition
from detectors.incidents.recurrence import humanize_recurrence
from detectors.values.durations import humanize
from sinks.contract.phrases import adjustments, ended_at, issue_sentences, places, restore_words, since
from sinks.contract.wording import kind_words, with_words
from streaming.recordings import prometheus_samples
from streaming.terminal import UTC_CLOCK, Clock, Console, print_fields

_STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim", "resolved": "green"}
# A job that has failed for good comes first, whatever caused it.
_MAIN = ("job_failed",)
# These have rows of their own, or are in the title.
_ELSEWHERE = ("Cluster", "Job", "Job ID")
_SHOWN = 8

Row = tuple[str, str]


class ReportLinks(NamedTuple):
    """Where a reader looks next: the runbook of the cause, and the job in Flink's web UI. Each may be empty."""

    runbook: str = ""
    flink_ui: str = ""


NO_REPORT_LINKS = ReportLinks()

LinksOf = Callable[[Transition], ReportLinks]


class TimelineEntry(msgspec.Struct, frozen=True):
    at: int
    incident: str
    seq: int
    transition: str
    severity: str
    text: str


class IncidentLog:
    """Keeps the last transition of each incident, and one line for every transition for the timeline."""

    def __init__(self) -> None:
        self._last: dict[str, Transition] = {}
        self.timeline: list[TimelineEntry] = []

    def take(self, t: Transition) -> None:
        before = self._last.get(t.incident)
        self._last[t.incident] = t
        text = t.summary if before is None else with_words(t.reason) or t.summary
        if before is not None and t.transition == "updated" and t.summary not in (before.summary, text):
            text = f"{text}; now: {t.summary}"
        self.timeline.append(TimelineEntry(t.at, t.incident, t.seq, t.transition, t.severity, text))

    def incidents(self) -> list[Transition]:
        """The last state of each incident in order of opening, without incidents that were merged into others."""
        return [t for t in self._last.values() if not t.part_of]


def rows(
    t: Transition,
    clock: Clock = UTC_CLOCK,
    files: Collection[str] = (),
    links: ReportLinks = NO_REPORT_LINKS,
    *,
    live: bool = False,
) -> Iterator[Row]:
    """The lines of an incident: what is broken, cause, effects, changes in Flink, forecast, advice, evidence.

    `live`: the incident is as it is now, not as it was at the end of the logs.
    """
    main = next((f for f in t.findings if f.kind in _MAIN and f.kind != t.cause and f.closed_at is None), None)
    if main is not None:
        yield "what", main.summary
        yield "cause", f"{kind_words(t.cause)}: {t.summary}"
    else:
        yield "what", t.summary
    if where := [f"{label} {', '.join(names)}" for label, names in places(t) if label not in _ELSEWHERE]:
        yield "where", "; ".join(where)
    yield "now", _state(t, clock, live)
    if t.job_id and t.job_name:
        yield "job id", t.job_id
    yield from _when(t, clock)
    leading = {(t.cause, t.summary), (main.kind, main.summary) if main else ("", "")}
    others = [f for f in t.findings if (f.kind, f.summary) not in leading]
    for finding in sorted(others, key=lambda f: f.since)[:_SHOWN]:
        yield "also", _also(finding, clock)
    if (more := max(len(others) - _SHOWN, 0) + t.more) > 0:
        yield "also", f"{more} more"
    for at, what, effect in adjustments(t):
        yield "changed", f"{what} at {clock.time(at)}" + (f": {effect}" if effect else "")
    yield from _ahead(t, clock)
    yield from _to_do(t, (main.advice if main is not None else "") or t.advice, clock, links)
    for evidence in sorted(t.evidence[:_SHOWN], key=lambda e: e.time):
        yield "evidence", f"{_where(evidence, files)}  {clock.time(evidence.time)}  {evidence.text}"
    config = f"{t.incident}, {t.seq} change{'s' * (t.seq > 1)}"
    yield "incident", f"{config}, little history yet" if t.confidence == "learning" else config


def _to_do(t: Transition, advice: str, clock: Clock, links: ReportLinks) -> Iterator[Row]:
    """What a person does next, and where to look."""
    if advice:
        # A replay shows what has ended too, and people read it to prevent the next time.
        yield "to do" if t.transition != "resolved" else "advice", advice
    words, path = restore_words(t, clock.time(t.restore_from.at)) if t.restore_from is not None else ("", "")
    if words:
        yield "restore", f"{words} {path}".rstrip()
    if links.flink_ui:
        yield "flink ui", links.flink_ui
    if links.runbook:
        yield "runbook", links.runbook
    if t.known_issue is not None:
        yield "known issue", f"{t.known_issue.id}: {issue_sentences(t.known_issue)} {t.known_issue.link}".rstrip()


def print_incidents(
    incidents: Iterable[Transition],
    clock: Clock,
    files: Collection[str],
    links: LinksOf,
    *,
    live: bool = False,
) -> None:
    for t in incidents:
        state = "resolved" if t.transition == "resolved" else t.severity
        title = Text(f"{state.upper()}: {kind_words(t.cause)}", _STYLES[state])
        about = f" · job {t.job_name or t.job_id}" if t.job_name or t.job_id else ""
        title = title.append(f"{about} · cluster {t.cluster}", "default")
        print_fields(title, list(rows(t, clock, files, links(t), live=live)))


def print_timeline(changes: Iterable[TimelineEntry], clock: Clock) -> None:
    console = Console(highlight=False)
    for c in changes:
        line = Text(f"{clock.time(c.at)}  ").append(
            f"{c.transition:8} {c.severity:8}", _STYLES.get(c.transition, _STYLES[c.severity])
        )
        console.print(line.append(f"  {c.incident}#{c.seq}  ", "dim").append(c.text, "default"), soft_wrap=True)


def conclusion(incidents: list[Transition]) -> str:
    if not incidents:
        return "no incidents found"
    is_open = sum(t.transition not in ("resolved", "stale") for t in incidents)
    # The blank keeps the first kind from being capitalized as the start of a sentence.
    kinds = ", ".join(dict.fromkeys(with_words(f" {t.cause}").strip() for t in incidents))
    count = f"{len(incidents)} incident{'s' * (len(incidents) > 1)} ({kinds})"
    if len(incidents) == 1:
        return f"{count}, {'still open at the end' if is_open else 'no longer open at the end'}"
    return f"{count}, {is_open} still open at the end"


def _state(t: Transition, clock: Clock, live: bool) -> str:
    reason = with_words(t.reason)
    if t.transition == "resolved":
        lasted = humanize(ended_at(t) - since(t))
        return f"resolved at {clock.time(ended_at(t))}, after {lasted}" + (f": {reason}" if reason else "")
    if t.transition == "stale":
        return f"unknown whether it recovered: no data from this cluster since {clock.time(t.at)}"
    silenced = f", silenced until {clock.time(t.silence.until)}" if t.silence is not None else ""
    return f"{'open' if live else 'still open at the end of the logs'}{silenced}"


def _when(t: Transition, clock: Clock) -> Iterator[Row]:
    begin = since(t)
    reported = f", reported {humanize(t.opened_at - begin)} later" if t.opened_at > begin else ""
    yield "started", f"{clock.time(begin)}{reported}"
    if t.recurrence is not None:
        yield "recurring", humanize_recurrence(t.recurrence)
    if t.merged:
        yield "with", f"incident {', '.join(t.merged)}"


def _ahead(t: Transition, clock: Clock) -> Iterator[Row]:
    if t.forecast is None or t.transition == "resolved":
        return
    ahead = t.forecast
    between = f" (between {clock.time(ahead.earliest)} and {clock.time(ahead.latest)})"
    yield "next", f"{ahead.what} at {clock.time(ahead.at)}{between if ahead.earliest < ahead.latest else ''}"


def _also(finding: Finding, clock: Clock) -> str:
    ended = f" (ended {clock.time(finding.closed_at)})" if finding.closed_at is not None else ""
    return f"{kind_words(finding.kind)}: {finding.summary}{ended}"


def _where(evidence: Evidence, files: Collection[str]) -> str:
    if evidence.topic in files:
        return f"{evidence.topic}:{evidence.offset}"
    if evidence.topic == prometheus_samples.TOPIC:
        return evidence.topic
    return f"{evidence.topic}/{evidence.partition}@{evidence.offset}"
