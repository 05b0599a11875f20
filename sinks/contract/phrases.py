"""Phrases about an incident that messages and pages share. None is escaped: each place has a markup of its own."""

import re

from detectors.events.identity import EXERCISE
from detectors.events.names import filtered
from detectors.incident import SEVERITIES, Confidence, Finding, KnownIssue, Transition
from detectors.incidents.adjustments import in_words
from detectors.incidents.recurrence import humanize_recurrence
from detectors.incidents.shared_resources import clusters_of
from detectors.values.durations import humanize
from sinks.contract.digest import Summary
from sinks.contract.feedback import Mark, Marks
from sinks.contract.wording import (
    SEVERITY_MARKS,
    SEVERITY_WORDS,
    clock_time,
    kind_words,
    late_words,
    moment,
    silence_words,
    with_words,
)

NO_DATA = (
    "it is not known whether the incident continues or has recovered. "
    "First check that the cluster is running and that its logs and metrics reach Kafka."
)
STORM = "There are more incidents than the channel can take. Each gets its own message when the storm ends."
CONFIDENCE_WORDS: dict[Confidence, str] = {
    "learning": "confidence: learning (little history yet)",
    "sure": "confidence: sure",
}
DELETED_WITH_JOB = (
    "Copy it before you cancel the job, because Flink deletes it then unless its retention is RETAIN_ON_CANCELLATION."
)
PLACES = {"tm_id": "TaskManager", "host": "Host", "task": "Task", "checkpoint": "Checkpoint"}
"""Keys of a finding's entity that messages show, and their labels."""

_ADDRESS = re.compile(r"https://[\w./#-]{1,200}")


def title(transition: Transition) -> str:
    """The header: state, kind, and where."""
    return f"{mark(transition)} {exercise(transition)}{state(transition)}: {subject_line(transition)}"


def subject_line(transition: Transition) -> str:
    """The kind of the cause, and the job or the cluster."""
    clusters = clusters_of(transition)
    where = transition.job_name or (clusters[0] if len(clusters) == 1 else f"{len(clusters)} clusters")
    return f"{kind_words(transition.cause)} · {where}"


def exercise(transition: Transition) -> str:
    """A word in front of an incident that was only played; empty for a real one."""
    return "EXERCISE, " if transition.cluster.startswith(EXERCISE) else ""


def mark(transition: Transition) -> str:
    """The emoji that shows state and severity."""
    if transition.part_of:
        return "🔗"
    if transition.silence is not None and transition.transition != "resolved":
        return "🔕"
    marks = {"resolved": "✅", "stale": "⚪"}
    return marks.get(transition.transition) or SEVERITY_MARKS[transition.severity]


def state(transition: Transition) -> str:
    """The severity of an open incident, or its state."""
    if transition.part_of:
        return "Merged into another incident"
    if transition.transition == "resolved" and transition.late is not None:
        return "Resolved"  # The message came long after the end.
    if transition.transition == "resolved":
        return f"Resolved after {humanize(ended_at(transition) - since(transition))}"
    if transition.transition == "stale":
        return "No data, state unknown" + (", silenced" if transition.silence is not None else "")
    return SEVERITY_WORDS[transition.severity] + (", silenced" if transition.silence is not None else "")


def tone(transition: Transition) -> str:
    """The name of the colour of an incident's state: its severity, `good` or `quiet`."""
    if transition.part_of:
        return "info"
    states = {"resolved": "good", "stale": "quiet"}
    return states.get(transition.transition, transition.severity)


def since(transition: Transition) -> int:
    """Time of the first symptom (epoch ms)."""
    return min((finding.since for finding in transition.findings), default=transition.opened_at or transition.at)


def ended_at(transition: Transition) -> int:
    return transition.at if transition.ended_at is None else transition.ended_at


def known_at(finding: Finding) -> int:
    """Time of the latest report about a finding (epoch ms)."""
    return max(finding.at, finding.closed_at or 0)


def places(transition: Transition) -> list[tuple[str, list[str]]]:
    """Where the incident is: a label and the names, such as ("TaskManager", ["tm-2:46793-5f48b6"])."""
    job = transition.job_name or transition.job_id
    found = [
        ("Cluster", list(clusters_of(transition))),
        ("Job", [job] if job else _names(transition, "job_name")),
        ("Job ID", [transition.job_id] if transition.job_id != job else []),
        *((label, _names(transition, key)) for key, label in PLACES.items()),
    ]
    return [(label, names) for label, names in found if names]


def times(transition: Transition) -> list[tuple[str, str]]:
    """Since when, for how long, how often: a label and the words."""
    first = since(transition)
    found = [("Started", moment(first)), ("Recurring", recurrence(transition))]
    if transition.transition == "resolved":
        found += [("Ended", moment(ended_at(transition))), ("Cause", kind_words(transition.cause))]
    elif transition.transition == "stale":
        found.append(("As of", moment(transition.at)))
    elif transition.at > first:
        found.append(("Duration", f"{humanize(transition.at - first)} as of {moment(transition.at)}"))
    return [(label, words) for label, words in found if words]


def _names(transition: Transition, key: str) -> list[str]:
    """Each name once. A metric has other characters in a name than the log, which is then preferred."""
    found = list(dict.fromkeys(name for finding in transition.findings if (name := finding.entity.get(key))))
    in_metrics = {filtered(name) for name in found if filtered(name) != name}
    return [name for name in found if name not in in_metrics]


def place(finding: Finding) -> str:
    """The TaskManager, host or task that a finding is about; empty if it is about none of them."""
    return finding.entity.get("tm_id") or finding.entity.get("host") or finding.entity.get("task") or ""


def reason(transition: Transition) -> str:
    """What changed, with kinds as words; empty for the first message."""
    return "" if transition.transition == "opened" else with_words(transition.reason)


def forecast_words(transition: Transition) -> str:
    """What is expected to happen next, with earliest and latest time; empty without a forecast."""
    forecast, now = transition.forecast, transition.at
    if forecast is None or transition.transition == "resolved":
        return ""
    if forecast.at >= now:
        words = f"{forecast.what} at {clock_time(forecast.at, now)} UTC, in {humanize(forecast.at - now)}"
    else:
        words = f"{forecast.what}: expected at {clock_time(forecast.at, now)} UTC, {humanize(now - forecast.at)} ago"
    if forecast.earliest < forecast.latest:
        words += f" (between {clock_time(forecast.earliest, now)} and {clock_time(forecast.latest, now)} UTC)"
    return words


def restore_words(transition: Transition, when: str = "") -> tuple[str, str]:
    """From what the job can be restored, and its path, which may be unknown; two empty texts without a checkpoint, and
    if the incident is resolved. `when` is the time of the checkpoint as the reader's clock shows it.
    """
    point = transition.restore_from
    if point is None or transition.transition == "resolved":
        return "", ""
    what = f"checkpoint {point.checkpoint}" if point.checkpoint >= 0 else "the savepoint"
    when = when or f"{clock_time(point.at, transition.at)} UTC"
    words = (
        f"{what}, from which the job started at {when}; none has completed since"
        if point.restored
        else f"{what}, completed at {when}"
    )
    unknown = "" if point.path else " Its path is not in the logs: see the job's page of checkpoints."
    kept = "" if point.retained else f" {DELETED_WITH_JOB}"
    return f"{words[:1].upper()}{words[1:]}.{unknown}{kept}", point.path


def recurrence(transition: Transition) -> str:
    """Number of the occurrence and period; empty if the incident does not recur."""
    return "" if transition.recurrence is None else humanize_recurrence(transition.recurrence)


def adjustments(transition: Transition) -> list[tuple[int, str, str]]:
    """What was changed in Flink since the incident began: event time, words, and what became of the incident."""
    return [(one.at, in_words(one), with_words(one.effect)) for one in transition.adjustments]


def answers(marks: Marks) -> list[tuple[str, Mark]]:
    """What people have answered, in words, and who did."""
    found = (("Acknowledged by", marks.acknowledged), ("Marked as not an incident by", marks.not_an_incident))
    return [(words, mark) for words, mark in found if mark is not None]


def adjustment_lines(transition: Transition) -> list[str]:
    """The same, one line for each change."""
    return [
        f"{clock_time(at, transition.at)} {what}{f': {effect}' if effect else ''}"
        for at, what, effect in adjustments(transition)
    ]


def issue_words(transition: Transition) -> str:
    issue = transition.known_issue
    return "" if issue is None else f"Looks like {issue.id}: {issue_sentences(issue)}"


def issue_sentences(issue: KnownIssue) -> str:
    return f"{issue.title} ({issue.applies}). Fixed in {issue.fixed_in}. Until then: {issue.workaround}"


def issue_address(issue: KnownIssue) -> str:
    """The address of a known issue; empty if it is none that can be a link."""
    return issue.link if _ADDRESS.fullmatch(issue.link) else ""


def chart_title(transition: Transition) -> str:
    return f"{kind_words(transition.cause)} · {transition.job_name or transition.cluster}"


def change_line(transition: Transition, *, titled: bool = False, unsilenced: bool = False) -> str:
    """One line for people who know the incident: what changed, or with `unsilenced` that a silence ended. With `titled`
    it can be understood alone.
    """
    what = (unsilenced and silence_words(transition)) or reason(transition) or transition.summary
    head = title(transition) if titled else f"{mark(transition)} {state(transition)}"
    return f"{head} at {clock_time(transition.at, transition.at)} UTC: {what}"


def plain_lines(transition: Transition) -> list[str]:
    """The message of an incident as lines, for a receiver that has refused its full form."""
    lines = [
        title(transition),
        silence_words(transition),
        transition.summary,
        late_words(transition),
        reason(transition),
        *(f"Changed in Flink: {line}" for line in adjustment_lines(transition)),
        forecast_words(transition),
    ]
    if again := recurrence(transition):
        lines.append(f"Recurring: {again}")
    if transition.transition != "resolved":
        lines += [transition.advice, " ".join(restore_words(transition)).strip(), issue_words(transition)]
    return [line for line in lines if line]


def storm_title(summary: Summary) -> str:
    """The header of a digest: how many incidents, and what became of them."""
    mark = "✅" if summary.open + summary.silenced == 0 else "🌊"
    head = f"{mark} Storm of {summary.total:,} incidents: {summary.open:,} open, {summary.resolved:,} over"
    if summary.silenced:
        head += f", {summary.silenced:,} silenced"
    if summary.with_own_message:
        head += f", {summary.with_own_message:,} with a message of their own"
    return head


def severity_counts(summary: Summary) -> str:
    """The open incidents of a digest by severity, the worst first; empty if none is open."""
    counts = [(name, summary.severities.get(name, 0)) for name in reversed(SEVERITIES)]
    return ", ".join(f"{SEVERITY_MARKS[name]} {n:,} {SEVERITY_WORDS[name].lower()}" for name, n in counts if n)
