"""Renders a storm of incidents as one message; see `sinks.contract.digest`."""

from sinks.contract.digest import Folded, Summary
from sinks.contract.phrases import STORM, severity_counts, storm_title
from sinks.contract.wording import SEVERITY_MARKS, moment
from sinks.integrations.slack.message.blocks import Message, mrkdwn, plain_object, section
from sinks.integrations.slack.message.escape import code, prose
from sinks.integrations.slack.message.phrases import kind

_NAME = 50


def render_digest(summary: Summary, *, plain_text: bool = False) -> Message:
    """Counts of all incidents of a storm, and a list of the most severe ones. `plain_text`: without blocks."""
    head = storm_title(summary)
    lines = [_severities(summary), _groups("Causes", [(kind(name), count) for name, count in summary.kinds])]
    lines.append(_groups("Clusters", [(f"`{code(name, _NAME)}`", count) for name, count in summary.clusters]))
    worst = "\n".join(_worst(name, one) for name, one in summary.worst)
    body = "\n".join(line for line in lines if line)
    text = "\n".join(part for part in (head, body, worst) if part)
    if plain_text:
        return Message(text, [])
    blocks = [{"type": "header", "text": plain_object(head)}, section(STORM)]
    blocks += [section(part) for part in (body, f"*Most severe*\n{worst}" if worst else "") if part]
    blocks.append({"type": "context", "elements": [mrkdwn(f"storm began {moment(summary.storm)}")]})
    return Message(head, blocks)


def _severities(summary: Summary) -> str:
    counts = severity_counts(summary)
    return f"*Open:* {counts}" if counts else ""


def _groups(label: str, counts: list[tuple[str, int]]) -> str:
    return f"*{label}:* {', '.join(f'{name} {count:,}' for name, count in counts)}" if counts else ""


def _worst(name: str, one: Folded) -> str:
    job = f" · {prose(one.job, _NAME)}" if one.job else ""
    where = f"`{code(one.cluster, _NAME)}`{job}"
    named = f"{SEVERITY_MARKS[one.severity]} {kind(one.kind)} on {where}"
    return f"{named}, since {moment(one.since)} (`{code(name, _NAME)}`)"
