"""A transition as a Slack message: pure, so that golden files can hold it.

A person on call must read from it what is wrong, where, how bad it is, what happens next and what to do.
Everything that came out of a log passes through `escape`.
"""

import json
import re
from typing import Any

import msgspec

from detectors.incidents.incident import Evidence, Finding, KnownIssue, Transition
from detectors.incidents.recurrence import spoken_recurrence
from detectors.units import spoken
from sinks.slack.escape import code, plain, prose
from sinks.slack.words import SEVERITY_MARKS, SEVERITY_WORDS, clock_time, kind_words, moment

MESSAGE_LIMIT = 12_000
"""Characters of a whole message: Slack refuses near 13,200 (`msg_blocks_too_long`), undocumented."""

_KIND = re.compile(r"[a-z0-9_]{1,80}")
_ADDRESS = re.compile(r"https://[\w./#-]{1,200}")
_HEADER_LIMIT = 150
_TEXT_LIMIT = 400
_PLAIN_LIMIT = 3000
_EVIDENCE_LINES = 5
_TIMELINE_LINES = 8
_NAMES_SHOWN = 3
# How much of each part's share is used; the smaller ones are for texts of quotes and backslashes, which JSON doubles.
_SCALES = (1.0, 0.6, 0.35, 0.15)
_SILENCE = (
    "*No more data:* whether this goes on is not known, and it has not been seen to recover. "
    "First check that the cluster runs and that its logs and metrics still reach Kafka."
)
_CONFIDENCE = {"learning": "confidence: learning, little history yet", "sure": "confidence: sure"}

Block = dict[str, Any]


class Message(msgspec.Struct, frozen=True):
    """What Slack shows: `blocks`, and `text` in notifications and where blocks are not shown.

    Without blocks `text` is the whole message.
    """

    text: str
    blocks: list[Block]

    def size(self) -> int:
        """Characters that count against MESSAGE_LIMIT."""
        return len(json.dumps({"text": self.text, "blocks": self.blocks}, ensure_ascii=False))


def render(transition: Transition, runbook_base_url: str = "", note: str = "") -> Message:
    """The message of an incident as it stands, at most MESSAGE_LIMIT characters.

    `note` is a sentence of our own, put in front, such as why this is a new message and not an edit.
    """
    text = prose(f"{_title(transition)} — {transition.summary}", _TEXT_LIMIT)
    for scale in _SCALES:
        message = Message(text, _blocks(transition, runbook_base_url, note, scale))
        if message.size() <= MESSAGE_LIMIT:
            break
    return message


def render_plain(transition: Transition) -> Message:
    """The same without blocks, for when Slack refuses them."""
    ended = transition.transition == "resolved"
    lines = [_title(transition), transition.summary, _reason(transition), _forecast_words(transition)]
    lines += [_recurrence(transition), "" if ended else transition.advice, "" if ended else _issue_words(transition)]
    share = _PLAIN_LIMIT // len(lines)
    text = "\n".join(prose(line, share) for line in lines if line)
    return Message(f"{text}\n{_identity(transition, 1.0)}", [])


def render_reply(transition: Transition) -> Message:
    """One short line for the incident's thread: what changed."""
    what = _reason(transition) or transition.summary
    text = f"{_mark(transition)} {_state(transition)} at {clock_time(transition.at, transition.at)} UTC: {what}"
    return Message(prose(text, _TEXT_LIMIT), [])


def _blocks(transition: Transition, runbook_base_url: str, note: str, scale: float) -> list[Block]:
    parts: tuple[list[Block], ...] = (
        [{"type": "header", "text": _plain_object(plain(_title(transition), _HEADER_LIMIT))}],
        _note(note),
        _summary(transition, scale),
        _fields(transition, scale),
        _forecast(transition, scale),
        _advice(transition, scale),
        _known_issue(transition, scale),
        _evidence(transition, scale),
        _timeline(transition, scale),
        _context(transition, runbook_base_url, scale),
    )
    return [block for part in parts for block in part]


def _title(transition: Transition) -> str:
    where = transition.job_name or transition.cluster
    return f"{_mark(transition)} {_state(transition)}: {kind_words(transition.cause)} · {where}"


def _mark(transition: Transition) -> str:
    if transition.part_of:
        return "🔗"
    marks = {"resolved": "✅", "stale": "⚪"}
    return marks.get(transition.transition) or SEVERITY_MARKS[transition.severity]


def _state(transition: Transition) -> str:
    if transition.part_of:
        return "Part of another incident"
    if transition.transition == "resolved":
        return f"Resolved after {spoken(_ended_at(transition) - _since(transition))}"
    if transition.transition == "stale":
        return "Silent, not recovered"
    return SEVERITY_WORDS[transition.severity]


def _since(transition: Transition) -> int:
    return min((finding.since for finding in transition.findings), default=transition.opened_at or transition.at)


def _ended_at(transition: Transition) -> int:
    return transition.at if transition.ended_at is None else transition.ended_at


def _kind(kind: str) -> str:
    return prose(kind_words(kind), 60)


def _note(note: str) -> list[Block]:
    return [_section(f"\N{BLACK RIGHTWARDS ARROWHEAD} {prose(note, 300)}")] if note else []


def _summary(transition: Transition, scale: float) -> list[Block]:
    summary = prose(transition.summary, int(1200 * scale))
    reason = prose(_reason(transition), int(400 * scale))
    lines = [summary]
    if transition.part_of:
        other = f"`{code(transition.part_of, int(100 * scale))}`"
        lines = [f"*Not over:* it has turned out to be part of incident {other} and goes on there.", summary]
    elif transition.transition == "resolved":
        lines = [f"~{summary}~" if summary else "", f"*How it ended:* {reason}" if reason else ""]
    elif transition.transition == "stale":
        lines = [_SILENCE, reason, summary]
    elif transition.transition == "updated" and reason and not transition.reason.endswith(transition.summary):
        lines = [summary, f"*What changed:* {reason}"]
    text = "\n".join(line for line in lines if line)
    return [_section(text)] if text else []


def _reason(transition: Transition) -> str:
    """What changed, a kind in front of it in words."""
    if transition.transition == "opened":
        return ""
    kind, colon, rest = transition.reason.partition(":")
    known = any(finding.kind == kind for finding in transition.findings)
    return f"{kind_words(kind)}{colon}{rest}" if known else transition.reason


def _fields(transition: Transition, scale: float) -> list[Block]:
    def names(word: str) -> list[str]:
        found = (finding.entity.get(word, "") for finding in transition.findings)
        return list(dict.fromkeys(name for name in found if name))

    limit = int(200 * scale)
    job = [transition.job_name or transition.job_id] if transition.job_name or transition.job_id else names("job_name")
    fields = [
        ("Cluster", _codes([transition.cluster], limit)),
        ("Job", _codes(job, limit)),
        ("TaskManager", _codes(names("tm_id"), limit)),
        ("Host", _codes(names("host"), limit)),
        ("Task", _codes(names("task"), limit)),
        ("Checkpoint", _codes(names("checkpoint"), limit)),
        ("Since", moment(_since(transition))),
        ("Comes again", prose(_recurrence(transition), 200)),
    ]
    if transition.transition == "resolved":
        fields += [("Ended", moment(_ended_at(transition))), ("Cause", _kind(transition.cause))]
    elif transition.transition == "stale":
        fields.append(("Last look", moment(transition.at)))
    elif transition.at > _since(transition):
        fields += [("Lasts", f"{spoken(transition.at - _since(transition))} at {moment(transition.at)}")]
    shown = [_mrkdwn(f"*{label}*\n{value}") for label, value in fields if value]
    return [{"type": "section", "fields": shown}]


def _codes(names: list[str], limit: int) -> str:
    shown = ", ".join(f"`{code(name, limit // _NAMES_SHOWN)}`" for name in names[:_NAMES_SHOWN])
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _forecast(transition: Transition, scale: float) -> list[Block]:
    words = _forecast_words(transition)
    if not words:
        return []
    return [_section(f"*What happens next*\n{prose(words, int(400 * scale))}")]


def _forecast_words(transition: Transition) -> str:
    forecast, now = transition.forecast, transition.at
    if forecast is None or transition.transition == "resolved":
        return ""
    if forecast.at >= now:
        words = f"{forecast.what} at {clock_time(forecast.at, now)} UTC, in {spoken(forecast.at - now)}"
    else:
        words = f"{forecast.what}: expected at {clock_time(forecast.at, now)} UTC, {spoken(now - forecast.at)} ago"
    if forecast.earliest < forecast.latest:
        words += f" (between {clock_time(forecast.earliest, now)} and {clock_time(forecast.latest, now)} UTC)"
    return words


def _advice(transition: Transition, scale: float) -> list[Block]:
    if not transition.advice or transition.transition == "resolved":
        return []
    return [_section(f"*What to do*\n{prose(transition.advice, int(1200 * scale))}")]


def _recurrence(transition: Transition) -> str:
    return "" if transition.recurrence is None else spoken_recurrence(transition.recurrence)


def _known_issue(transition: Transition, scale: float) -> list[Block]:
    issue = transition.known_issue
    if issue is None or transition.transition == "resolved":
        return []
    name = f"<{issue.link}|{prose(issue.id, 60)}>" if _ADDRESS.fullmatch(issue.link) else prose(issue.id, 60)
    return [_section(f"*Looks like a known issue:* {name}\n{prose(_issue_sentences(issue), int(1200 * scale))}")]


def _issue_words(transition: Transition) -> str:
    issue = transition.known_issue
    return "" if issue is None else f"Looks like {issue.id}: {_issue_sentences(issue)}"


def _issue_sentences(issue: KnownIssue) -> str:
    return f"{issue.title} ({issue.applies}). Fixed in {issue.fixed_in}. Until then: {issue.workaround}"


def _evidence(transition: Transition, scale: float) -> list[Block]:
    shown = transition.evidence[:_EVIDENCE_LINES]
    if not shown:
        return []
    limit = int(2400 * scale) // len(shown)
    lines = [code(_evidence_line(evidence, transition.at), limit) for evidence in shown]
    text = _lines(lines, len(transition.evidence))
    return [_section(f"*Evidence* (time UTC, topic/partition@offset, text)\n```\n{text}\n```")]


def _evidence_line(evidence: Evidence, now: int) -> str:
    # The address stands before the text: it must survive the cut.
    return f"{clock_time(evidence.time, now)} {evidence.topic}/{evidence.partition}@{evidence.offset} {evidence.text}"


def _timeline(transition: Transition, scale: float) -> list[Block]:
    findings = sorted(transition.findings, key=lambda finding: finding.since)
    if not findings or (transition.transition == "opened" and len(findings) == 1):
        return []
    shown = findings[:_TIMELINE_LINES]
    limit = int(1600 * scale) // len(shown)
    lines = [_timeline_line(finding, transition.at, limit) for finding in shown]
    return [_section(f"*Timeline* (UTC)\n{_lines(lines, len(findings) + max(transition.more, 0))}")]


def _timeline_line(finding: Finding, now: int, limit: int) -> str:
    where = finding.entity.get("tm_id") or finding.entity.get("host") or finding.entity.get("task") or ""
    place = f" on `{code(where, limit // 4)}`" if where else ""
    ended = f", over at {clock_time(finding.closed_at, now)}" if finding.closed_at is not None else ""
    what = f"{_kind(finding.kind)}{place}{ended}"
    return f"• {clock_time(finding.since, now)} {what}: {prose(finding.summary, limit // 2)}"


def _lines(lines: list[str], total: int) -> str:
    more = [f"and {total - len(lines)} more"] if total > len(lines) else []
    return "\n".join(lines + more)


def _context(transition: Transition, runbook_base_url: str, scale: float) -> list[Block]:
    words = [_identity(transition, scale)]
    if transition.confidence in _CONFIDENCE:
        words.append(_CONFIDENCE[transition.confidence])
    if transition.merged:
        words.append(f"with incident {_codes(transition.merged, int(200 * scale))}")
    if runbook_base_url and _KIND.fullmatch(transition.cause):
        words.append(f"<{runbook_base_url.rstrip('/')}/{transition.cause}|Runbook>")
    return [{"type": "context", "elements": [_mrkdwn(" · ".join(words))]}]


def _identity(transition: Transition, scale: float) -> str:
    limit = int(100 * scale)
    config = f" · config `{code(transition.config, limit)}`" if transition.config else ""
    return f"incident `{code(transition.incident, limit)}` · change {transition.seq}{config}"


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> Block:
    # verbatim: Slack makes no links and mentions of its own out of what a log line says.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _plain_object(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": True}
