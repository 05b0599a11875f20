"""The sections of an incident's message as blocks."""

from detectors.incident import Evidence, Finding, Transition
from sinks.contract.phrases import (
    CONFIDENCE_WORDS,
    NO_DATA,
    adjustment_lines,
    ended_at,
    forecast_words,
    issue_address,
    issue_sentences,
    known_at,
    place,
    places,
    reason,
    restore_words,
    since,
    times,
    title,
)
from sinks.contract.wording import clock_time, late_words, silence_words
from sinks.integrations.slack.message.blocks import Block, mrkdwn, plain_object, section
from sinks.integrations.slack.message.escape import code, plain, prose
from sinks.integrations.slack.message.links import Links
from sinks.integrations.slack.message.phrases import codes, identity, kind

_HEADER_LIMIT = 150
_EVIDENCE_LINES = 5
_TIMELINE_LINES = 8
# Slack's limit for one section. The last one is the cause, which the header has too.
_MOST_FIELDS = 10


def sections(transition: Transition, links: Links, note: str, scale: float) -> list[Block]:
    """All sections of a message. `scale` is the share of its character limit that each may use."""
    parts = (
        _silence,
        _summary,
        _late,
        _fields,
        _adjustments,
        _forecast,
        _advice,
        _restore,
        _known_issue,
        _evidence,
        _timeline,
    )
    header: Block = {"type": "header", "text": plain_object(plain(title(transition), _HEADER_LIMIT))}
    noted = [section(f"\N{BLACK RIGHTWARDS ARROWHEAD} {prose(note, 300)}")] if note else []
    shown = [block for part in parts for block in part(transition, scale)]
    return [header, *noted, *shown, _context(transition, links, scale)]


def _silence(transition: Transition, scale: float) -> list[Block]:
    words = silence_words(transition)
    mark = "🔕" if transition.silence is not None else "🔔"
    return [section(f"{mark} {prose(words, int(600 * scale))}")] if words else []


def _summary(transition: Transition, scale: float) -> list[Block]:
    """What is broken, and what changed or why it is resolved."""
    summary = prose(transition.summary, int(1200 * scale))
    change = prose(reason(transition), int(400 * scale))
    lines = [summary]
    if transition.part_of:
        other = f"`{code(transition.part_of, int(100 * scale))}`"
        lines = [f"*Not resolved:* this incident was merged into incident {other} and continues there.", summary]
    elif transition.transition == "resolved":
        lines = [f"~{summary}~" if summary else "", f"*Resolved because:* {change}" if change else ""]
    elif transition.transition == "stale":
        lines = [f"*No data from this cluster:* {NO_DATA}", change, summary]
    elif transition.transition == "updated" and change and not transition.reason.endswith(transition.summary):
        lines = [summary, f"*What changed:* {change}"]
    text = "\n".join(line for line in lines if line)
    return [section(text)] if text else []


def _late(transition: Transition, scale: float) -> list[Block]:
    """That it is older than the message."""
    words = late_words(transition)
    return [section(prose(words, int(300 * scale)))] if words else []


def _fields(transition: Transition, scale: float) -> list[Block]:
    """Where it is, since when, and for how long."""
    limit = int(200 * scale)
    fields = [(label, codes(names, limit)) for label, names in places(transition)]
    fields += [(label, prose(words, 200)) for label, words in times(transition)]
    shown = [mrkdwn(f"*{label}*\n{value}") for label, value in fields if value]
    return [{"type": "section", "fields": shown[:_MOST_FIELDS]}]


def _adjustments(transition: Transition, scale: float) -> list[Block]:
    """What was changed in Flink, and what became of the incident since."""
    lines = adjustment_lines(transition)
    if not lines:
        return []
    shown = [f"• {prose(line, int(1600 * scale) // len(lines))}" for line in lines]
    return [section(f"*Changed in Flink* (UTC)\n{_lines(shown, len(shown))}")]


def _forecast(transition: Transition, scale: float) -> list[Block]:
    words = forecast_words(transition)
    return [section(f"*What happens next*\n{prose(words, int(400 * scale))}")] if words else []


def _advice(transition: Transition, scale: float) -> list[Block]:
    if not transition.advice or transition.transition == "resolved":
        return []
    return [section(f"*What to do*\n{prose(transition.advice, int(1200 * scale))}")]


def _restore(transition: Transition, scale: float) -> list[Block]:
    """From what the job can be restored, if it comes to that."""
    words, path = restore_words(transition)
    shown = f"\n`{code(path, int(320 * scale))}`" if path else ""
    return [section(f"*Restore from*\n{prose(words, 400)}{shown}")] if words else []


def _known_issue(transition: Transition, scale: float) -> list[Block]:
    issue = transition.known_issue
    if issue is None or transition.transition == "resolved":
        return []
    name, address = prose(issue.id, 60), issue_address(issue)
    name = f"<{address}|{name}>" if address else name
    return [section(f"*Looks like a known issue:* {name}\n{prose(issue_sentences(issue), int(1200 * scale))}")]


def _evidence(transition: Transition, scale: float) -> list[Block]:
    """The records that prove the incident, each with its address."""
    shown = sorted(transition.evidence[:_EVIDENCE_LINES], key=lambda evidence: evidence.time)
    if not shown:
        return []
    limit = int(2400 * scale) // len(shown)
    lines = [code(_evidence_line(evidence, transition.at), limit) for evidence in shown]
    text = _lines(lines, len(transition.evidence))
    return [section(f"*Evidence* (time UTC, topic/partition@offset, text)\n```\n{text}\n```")]


def _evidence_line(evidence: Evidence, now: int) -> str:
    # The address comes before the text, because the end of the line may be cut.
    return f"{clock_time(evidence.time, now)} {evidence.topic}/{evidence.partition}@{evidence.offset} {evidence.text}"


def _timeline(transition: Transition, scale: float) -> list[Block]:
    """The findings, ordered by the time of the latest report about each."""
    findings = sorted(transition.findings, key=known_at)
    if not findings or (transition.transition == "opened" and len(findings) == 1):
        return []
    shown = findings[:_TIMELINE_LINES]
    limit = int(1600 * scale) // len(shown)
    lines = [_timeline_line(finding, transition.at, limit) for finding in shown]
    return [section(f"*Timeline* (UTC)\n{_lines(lines, len(findings) + max(transition.more, 0))}")]


def _timeline_line(finding: Finding, now: int, limit: int) -> str:
    where = place(finding)
    shown = f" on `{code(where, limit // 4)}`" if where else ""
    ended = ", resolved" if finding.closed_at is not None else ""
    known = known_at(finding)
    began = f" (began {clock_time(finding.since, now)})" if finding.since < known else ""
    what = f"{kind(finding.kind)}{shown}{ended}{began}"
    return f"• {clock_time(known, now)} {what}: {prose(finding.summary, limit // 2)}"


def _lines(lines: list[str], total: int) -> str:
    more = [f"and {total - len(lines)} more"] if total > len(lines) else []
    return "\n".join(lines + more)


def _context(transition: Transition, links: Links, scale: float) -> Block:
    words = [identity(transition, scale)]
    if transition.confidence in CONFIDENCE_WORDS:
        words.append(CONFIDENCE_WORDS[transition.confidence])
    if transition.merged:
        words.append(f"merged with incident {codes(transition.merged, int(200 * scale))}")
    words += links.of(transition, since(transition), ended_at(transition))
    return {"type": "context", "elements": [mrkdwn(" · ".join(words))]}
