"""What is said of an incident, in words; what is not marked as escaped must still pass through `escape`."""

from detectors.events.identity import EXERCISE
from detectors.incident import KnownIssue, Transition
from detectors.incidents.recurrence import humanize_recurrence
from detectors.values.durations import humanize
from sinks.contract.wording import SEVERITY_MARKS, SEVERITY_WORDS, clock_time, kind_words, with_words
from sinks.integrations.slack.message.escape import code, prose

_NAMES_SHOWN = 3


def title(transition: Transition) -> str:
    """What the header says: how bad, what, where."""
    where = transition.job_name or transition.cluster
    exercise = "EXERCISE, " if transition.cluster.startswith(EXERCISE) else ""
    return f"{mark(transition)} {exercise}{state(transition)}: {kind_words(transition.cause)} · {where}"


def mark(transition: Transition) -> str:
    """One sign that is seen from afar."""
    if transition.part_of:
        return "🔗"
    if transition.silence is not None and transition.transition != "resolved":
        return "🔕"
    marks = {"resolved": "✅", "stale": "⚪"}
    return marks.get(transition.transition) or SEVERITY_MARKS[transition.severity]


def state(transition: Transition) -> str:
    """How bad it is, or how it ended."""
    if transition.part_of:
        return "Part of another incident"
    if transition.transition == "resolved":
        return f"Resolved after {humanize(ended_at(transition) - since(transition))}"
    if transition.transition == "stale":
        return "No more data, not recovered" if transition.silence is not None else "Silent, not recovered"
    return SEVERITY_WORDS[transition.severity] + (", silenced" if transition.silence is not None else "")


def since(transition: Transition) -> int:
    """When the first symptom showed (epoch ms)."""
    return min((finding.since for finding in transition.findings), default=transition.opened_at or transition.at)


def ended_at(transition: Transition) -> int:
    """When it ended (epoch ms, clock)."""
    return transition.at if transition.ended_at is None else transition.ended_at


def kind(name: str) -> str:
    """A kind in words, escaped."""
    return prose(kind_words(name), 60)


def reason(transition: Transition) -> str:
    """What changed, kinds in words."""
    return "" if transition.transition == "opened" else with_words(transition.reason)


def codes(names: list[str], limit: int) -> str:
    """Names as code, the first few of them."""
    shown = ", ".join(f"`{code(name, limit // _NAMES_SHOWN)}`" for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def forecast_words(transition: Transition) -> str:
    """What happens next, with its range; empty when nothing is known."""
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
    """Which time it comes, and how often; empty for the first times."""
    return "" if transition.recurrence is None else humanize_recurrence(transition.recurrence)


def issue_words(transition: Transition) -> str:
    """The known issue it looks like, in one sentence; empty for none."""
    issue = transition.known_issue
    return "" if issue is None else f"Looks like {issue.id}: {issue_sentences(issue)}"


def issue_sentences(issue: KnownIssue) -> str:
    """What is known of an issue: what it is, its fix, a way around."""
    return f"{issue.title} ({issue.applies}). Fixed in {issue.fixed_in}. Until then: {issue.workaround}"


def identity(transition: Transition, scale: float) -> str:
    """What finds it again: incident, number of the change, hash of the configuration."""
    limit = int(100 * scale)
    config = f" · config `{code(transition.config, limit)}`" if transition.config else ""
    return f"incident `{code(transition.incident, limit)}` · change {transition.seq}{config}"


def chart_title(transition: Transition) -> str:
    """What stands above a chart; not escaped, a picture needs none."""
    return f"{kind_words(transition.cause)} · {transition.job_name or transition.cluster}"
