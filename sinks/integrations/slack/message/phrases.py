"""Phrases about an incident. Unless marked as escaped, they must still pass through `escape`."""

from detectors.events.identity import EXERCISE
from detectors.incident import KnownIssue, Transition
from detectors.incidents.recurrence import humanize_recurrence
from detectors.incidents.shared_resources import clusters_of
from detectors.values.durations import humanize
from sinks.contract.wording import SEVERITY_MARKS, SEVERITY_WORDS, clock_time, kind_words, with_words
from sinks.integrations.slack.message.escape import code, prose

_NAMES_SHOWN = 3


def title(transition: Transition) -> str:
    """The header: state, kind, and where."""
    clusters = clusters_of(transition)
    where = transition.job_name or (clusters[0] if len(clusters) == 1 else f"{len(clusters)} clusters")
    exercise = "EXERCISE, " if transition.cluster.startswith(EXERCISE) else ""
    return f"{mark(transition)} {exercise}{state(transition)}: {kind_words(transition.cause)} · {where}"


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


def since(transition: Transition) -> int:
    """Time of the first symptom (epoch ms)."""
    return min((finding.since for finding in transition.findings), default=transition.opened_at or transition.at)


def ended_at(transition: Transition) -> int:
    return transition.at if transition.ended_at is None else transition.ended_at


def kind(name: str) -> str:
    """A kind as words, escaped."""
    return prose(kind_words(name), 60)


def reason(transition: Transition) -> str:
    """What changed, with kinds as words; empty for the first message."""
    return "" if transition.transition == "opened" else with_words(transition.reason)


def codes(names: list[str], limit: int) -> str:
    """The first few names as code, and the number of others."""
    shown = ", ".join(f"`{code(name, limit // _NAMES_SHOWN)}`" for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


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


def recurrence(transition: Transition) -> str:
    """Number of the occurrence and period; empty if the incident does not recur."""
    return "" if transition.recurrence is None else humanize_recurrence(transition.recurrence)


def issue_words(transition: Transition) -> str:
    issue = transition.known_issue
    return "" if issue is None else f"Looks like {issue.id}: {issue_sentences(issue)}"


def issue_sentences(issue: KnownIssue) -> str:
    return f"{issue.title} ({issue.applies}). Fixed in {issue.fixed_in}. Until then: {issue.workaround}"


def identity(transition: Transition, scale: float) -> str:
    """ID of the incident, number of the change, and hash of the configuration."""
    limit = int(100 * scale)
    config = f" · config `{code(transition.config, limit)}`" if transition.config else ""
    return f"incident `{code(transition.incident, limit)}` · change {transition.seq}{config}"


def chart_title(transition: Transition) -> str:
    return f"{kind_words(transition.cause)} · {transition.job_name or transition.cluster}"
