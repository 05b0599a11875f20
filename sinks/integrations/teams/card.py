"""Renders a transition as an Adaptive Card. Pure functions.

As in Slack, the card shows the person on call what is broken, where, how severe it is, what happens next and what to
do.
"""

import json
from collections.abc import Iterator

from detectors.incident import Evidence, Finding, Transition
from sinks.contract.digest import Folded, Summary
from sinks.contract.incident_links import IncidentLinks
from sinks.contract.phrases import (
    CONFIDENCE_WORDS,
    NO_DATA,
    STORM,
    adjustment_lines,
    change_line,
    ended_at,
    forecast_words,
    issue_address,
    issue_sentences,
    known_at,
    place,
    places,
    plain_lines,
    reason,
    restore_words,
    severity_counts,
    since,
    storm_title,
    times,
    title,
    tone,
)
from sinks.contract.wording import SEVERITY_MARKS, clock_time, kind_words, late_words, moment, silence_words
from sinks.integrations.teams.elements import Element, bold, card, code, harmless, line, link, run, words

CARD_LIMIT = 26_000
"""Bytes of a card's JSON as UTF-16, which is how Teams counts; the rest of a message is less than 2 KB.

Webhooks take messages of 28 KB. A bot may send more: documented are 40 KB, in newer pages 100 KB.
"""

NO_LINKS = IncidentLinks()

_COLOURS = {"critical": "attention", "warning": "warning", "info": "accent", "good": "good", "quiet": "emphasis"}
_NAMES_SHOWN, _EVIDENCE_LINES, _TIMELINE_LINES = 3, 5, 8
_TITLE_LIMIT, _LINE_LIMIT, _PLAIN_LIMIT, _NAME_LIMIT, _ADDRESS_LIMIT = 150, 400, 3000, 50, 700
# Shares of each part's limit, tried in turn, as for Slack.
_SCALES = (1.0, 0.6, 0.35, 0.15)


def render(transition: Transition, links: IncidentLinks = NO_LINKS, note: str = "") -> Element:
    """The card of an incident after a transition, at most CARD_LIMIT. `note` is a sentence put in front."""
    for scale in _SCALES:
        body = [element for part in _PARTS for element in part(transition, scale)]
        noted = [line(run(f"\N{BLACK RIGHTWARDS ARROWHEAD} {note}"))] if note else []
        made = card([_heading(title(transition))], _COLOURS[tone(transition)], noted + body, _links(transition, links))
        if card_size(made) <= CARD_LIMIT:
            break
    return made


def render_digest(summary: Summary) -> Element:
    """Counts of all incidents of a storm, and a list of the most severe ones."""
    counts = {
        "Open": severity_counts(summary),
        "Causes": ", ".join(f"{kind_words(name)} {count:,}" for name, count in summary.kinds),
        "Clusters": ", ".join(f"{harmless(name, _NAME_LIMIT)} {count:,}" for name, count in summary.clusters),
    }
    body = [line(words(STORM)), *(line(bold(f"{label}: "), run(text, 800)) for label, text in counts.items() if text)]
    if summary.worst:
        body.append(line(bold("Most severe"), separator=True))
    body += [_worst(name, one) for name, one in summary.worst]
    body.append(line(words(f"storm began {moment(summary.storm)}", isSubtle=True)))
    colour = "good" if summary.open + summary.silenced == 0 else "attention"
    return card([_heading(storm_title(summary))], colour, body, [])


def summary_text(transition: Transition) -> str:
    """What a notification on a phone shows."""
    return harmless(f"{title(transition)} — {transition.summary}", _LINE_LIMIT)


def plain_text(transition: Transition) -> str:
    """The message without a card, for use if Teams refuses the card."""
    lines = plain_lines(transition)
    return "\n\n".join(harmless(one, _PLAIN_LIMIT // len(lines)) for one in lines)


def line_text(transition: Transition, *, unsilenced: bool = False) -> str:
    """One line for the incident's thread: what changed, or with `unsilenced` that a silence ended."""
    return harmless(change_line(transition, unsilenced=unsilenced), _LINE_LIMIT)


def card_size(made: Element) -> int:
    """Bytes that count against CARD_LIMIT."""
    return len(json.dumps(made, ensure_ascii=False).encode("utf-16-le"))


def _heading(text: str) -> Element:
    return line(run(text, _TITLE_LIMIT, weight="Bolder", size="Medium"))


def _titled(label: str, text: str, limit: int) -> list[Element]:
    return [line(bold(label), separator=True), line(run(text, limit))]


def _silence(transition: Transition, scale: float) -> Iterator[Element]:
    if text := silence_words(transition):
        mark = "🔕" if transition.silence is not None else "🔔"
        yield line(run(f"{mark} {text}", int(600 * scale)))


def _summary(transition: Transition, scale: float) -> Iterator[Element]:
    """What is broken, and what changed or why it is resolved."""
    summary, change = run(transition.summary, int(1200 * scale)), run(reason(transition), int(400 * scale))
    if transition.part_of:
        other = code(transition.part_of, int(100 * scale))
        merged = words("this incident was merged into another one and continues there: ")
        yield line(bold("Not resolved: "), merged, other)
    elif transition.transition == "resolved":
        summary |= {"strikethrough": True}
    elif transition.transition == "stale":
        yield line(bold("No data from this cluster: "), words(NO_DATA))
    if summary["text"]:
        yield line(summary)
    if not change["text"] or transition.part_of:
        return
    if transition.transition == "resolved":
        yield line(bold("Resolved because: "), change)
    elif not transition.reason.endswith(transition.summary):
        yield line(bold("What changed: "), change)


def _late(transition: Transition, scale: float) -> Iterator[Element]:
    if text := late_words(transition):
        yield line(run(text, int(300 * scale)))


def _facts(transition: Transition, scale: float) -> Iterator[Element]:
    """Where it is, since when, and for how long."""
    limit = int(200 * scale)
    for number, (label, names) in enumerate(places(transition)):
        yield line(bold(f"{label}: "), *_names(names, limit), separator=number == 0)
    for label, text in times(transition):
        yield line(bold(f"{label}: "), run(text, 200))


def _adjustments(transition: Transition, scale: float) -> Iterator[Element]:
    """What was changed in Flink, and what became of the incident since."""
    lines = adjustment_lines(transition)
    if lines:
        yield line(bold("Changed in Flink"), words(" (UTC)"), separator=True)
        yield from (line(run(one, int(1600 * scale) // len(lines))) for one in lines)


def _forecast(transition: Transition, scale: float) -> list[Element]:
    text = forecast_words(transition)
    return _titled("What happens next", text, int(400 * scale)) if text else []


def _advice(transition: Transition, scale: float) -> list[Element]:
    if not transition.advice or transition.transition == "resolved":
        return []
    return _titled("What to do", transition.advice, int(1200 * scale))


def _restore(transition: Transition, scale: float) -> list[Element]:
    """From what the job can be restored, if it comes to that."""
    text, path = restore_words(transition)
    if not text:
        return []
    shown = [line(code(path, int(400 * scale)))] if path else []
    return [*_titled("Restore from", text, int(400 * scale)), *shown]


def _known_issue(transition: Transition, scale: float) -> list[Element]:
    issue = transition.known_issue
    if issue is None or transition.transition == "resolved":
        return []
    return _titled(f"Looks like a known issue: {harmless(issue.id, 60)}", issue_sentences(issue), int(1200 * scale))


def _evidence(transition: Transition, scale: float) -> Iterator[Element]:
    """The records that prove the incident, each with its address."""
    shown = sorted(transition.evidence[:_EVIDENCE_LINES], key=lambda evidence: evidence.time)
    if not shown:
        return
    yield line(bold("Evidence"), words(" (time UTC, topic/partition@offset, text)"), separator=True)
    for one in shown:
        yield line(code(_evidence_line(one, transition.at), int(2400 * scale) // len(shown)))
    yield from _more(len(transition.evidence) - len(shown))


def _evidence_line(evidence: Evidence, now: int) -> str:
    # The address comes before the text, because the end of the line may be cut.
    return f"{clock_time(evidence.time, now)} {evidence.topic}/{evidence.partition}@{evidence.offset} {evidence.text}"


def _timeline(transition: Transition, scale: float) -> Iterator[Element]:
    """The findings, ordered by the time of the latest report about each."""
    findings = sorted(transition.findings, key=known_at)
    if not findings or (transition.transition == "opened" and len(findings) == 1):
        return
    shown = findings[:_TIMELINE_LINES]
    yield line(bold("Timeline"), words(" (UTC)"), separator=True)
    for finding in shown:
        yield _timeline_line(finding, transition.at, int(1600 * scale) // len(shown))
    yield from _more(len(findings) + max(transition.more, 0) - len(shown))


def _timeline_line(finding: Finding, now: int, limit: int) -> Element:
    where, known = place(finding), known_at(finding)
    on = [words(" on "), code(where, limit // 4)] if where else []
    ended = ", resolved" if finding.closed_at is not None else ""
    began = f" (began {clock_time(finding.since, now)})" if finding.since < known else ""
    what = run(f"{clock_time(known, now)} {kind_words(finding.kind)}", 100)
    return line(what, *on, words(f"{ended}{began}: "), run(finding.summary, limit // 2))


def _identity(transition: Transition, scale: float) -> Iterator[Element]:
    """ID of the incident, number of the change, and hash of the configuration."""
    limit = int(100 * scale)
    shown = [words("incident "), code(transition.incident, limit), words(f" · change {transition.seq}")]
    if transition.config:
        shown += [words(" · config "), code(transition.config, limit)]
    if transition.confidence in CONFIDENCE_WORDS:
        shown.append(words(f" · {CONFIDENCE_WORDS[transition.confidence]}"))
    if transition.merged:
        shown += [words(" · merged with incident "), *_names(transition.merged, int(200 * scale))]
    yield line(*(one | {"isSubtle": True} for one in shown), separator=True)


def _names(names: list[str], limit: int) -> list[Element]:
    """The first few names, and the number of others."""
    found: list[Element] = []
    for name in names[:_NAMES_SHOWN]:
        found += [*([words(", ")] if found else []), code(name, limit // _NAMES_SHOWN)]
    more = len(names) - _NAMES_SHOWN
    return [*found, words(f" and {more} more")] if more > 0 else found


def _more(number: int) -> list[Element]:
    return [line(words(f"and {number} more"))] if number > 0 else []


def _links(transition: Transition, links: IncidentLinks) -> list[Element]:
    found = links.addresses(transition, since(transition), ended_at(transition))
    issue = transition.known_issue
    if issue is not None and transition.transition != "resolved":
        found.append((issue.id, issue_address(issue)))
    return [link(label, address) for label, address in found if label and 0 < len(address) <= _ADDRESS_LIMIT]


def _worst(name: str, one: Folded) -> Element:
    job = [words(" · "), run(one.job, _NAME_LIMIT)] if one.job else []
    what = run(f"{SEVERITY_MARKS[one.severity]} {kind_words(one.kind)}", 100)
    ending = [words(f", since {moment(one.since)} ("), code(name, _NAME_LIMIT), words(")")]
    return line(what, words(" on "), code(one.cluster, _NAME_LIMIT), *job, *ending)


_PARTS = (
    _silence,
    _summary,
    _late,
    _facts,
    _adjustments,
    _forecast,
    _advice,
    _restore,
    _known_issue,
    _evidence,
    _timeline,
    _identity,
)
