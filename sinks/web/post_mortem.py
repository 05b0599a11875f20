"""A post-mortem of one incident as Markdown: what is known is filled in, what people decide is left blank."""

from collections.abc import Iterator, Sequence

from detectors.incident import Finding, Transition
from detectors.values.durations import humanize
from sinks.contract import phrases
from sinks.contract.markdown import escaped
from sinks.contract.one_line import shortened
from sinks.contract.wording import SEVERITY_WORDS, kind_words, late_words, moment
from sinks.web.cause_tree import in_order
from sinks.web.page_context import NO_CONTEXT, PageContext
from sinks.web.timeline import timeline

_EVIDENCE_LINES = 5
_BLANK = "_To be filled in._"


def post_mortem(transitions: Sequence[Transition], context: PageContext = NO_CONTEXT) -> str:
    """The document, from all transitions of an incident, oldest first. Raises ValueError if there is none."""
    if not transitions:
        raise ValueError("an incident has at least one transition")
    last = transitions[-1]
    findings = in_order(last)
    parts = (
        _facts(transitions),
        ["## Impact", "", _BLANK, "", "What was seen:", "", *_symptoms(findings)],
        ["## Cause", "", *_cause(last, findings, context)],
        ["## Timeline", "", "Times are UTC.", "", *_timeline(transitions, context)],
        ["## Detection and delivery", "", *_delays(transitions, context)],
        ["## What was advised", "", escaped(last.advice, 2_000) or "Nothing.", ""],
        *_adjustments(last),
        ["## Actions", "", "| action | owner | due |", "| --- | --- | --- |", "|  |  |  |", "|  |  |  |"],
    )
    title = f"# Post-mortem: {escaped(phrases.subject_line(last), 200)}"
    return "\n".join([title, "", *(line for part in parts for line in [*part, ""])]).rstrip() + "\n"


def _facts(transitions: Sequence[Transition]) -> list[str]:
    last = transitions[-1]
    rows = [
        ("Incident", last.incident),
        ("State", phrases.state(last)),
        ("Severity", SEVERITY_WORDS[last.severity]),
        *((label, ", ".join(names[:5])) for label, names in phrases.places(last)),
        *phrases.times(last),
        ("Configuration", last.config),
    ]
    table = [f"| {label} | {escaped(value, 300)} |" for label, value in rows if value]
    return [escaped(last.summary, 1_200), "", "| | |", "| --- | --- |", *table]


def _symptoms(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        end = f" to {moment(finding.closed_at)}" if finding.closed_at is not None else ", still open"
        name, where = kind_words(finding.kind), phrases.place(finding)
        on = f" on {_code(where, 100)}" if where else ""
        yield f"- **{escaped(name, 80)}**{on}, {moment(finding.since)}{end}: {escaped(finding.summary, 600)}"


def _cause(last: Transition, findings: Sequence[Finding], context: PageContext) -> Iterator[str]:
    yield f"**{escaped(kind_words(last.cause), 80)}**: {escaped(last.summary, 1_200)}"
    evidence = (findings[0].evidence if findings else []) or last.evidence
    if evidence:
        yield ""
        yield "Evidence:"
        yield ""
    for one in sorted(evidence[:_EVIDENCE_LINES], key=lambda e: e.time):
        yield f"- {moment(one.time)} {_code(context.place_of(one), 200)} {_code(one.text, 500)}"
    if last.known_issue is not None:
        yield ""
        yield f"{escaped(phrases.issue_words(last), 1_200)} {phrases.issue_address(last.known_issue)}".rstrip()


def _timeline(transitions: Sequence[Transition], context: PageContext) -> Iterator[str]:
    yield "| time | |"
    yield "| --- | --- |"
    for row in timeline(transitions, context.notifications):
        detail = f" ({escaped(row.detail, 200)})" if row.detail else ""
        yield f"| {row.clock} | {escaped(row.words, 240)}{detail} |"


def _adjustments(last: Transition) -> list[list[str]]:
    lines = [f"- {escaped(line, 600)}" for line in phrases.adjustment_lines(last)]
    return [["## What was changed in Flink", "", *lines, ""]] if lines else []


def _delays(transitions: Sequence[Transition], context: PageContext) -> Iterator[str]:
    first, last = transitions[0], transitions[-1]
    began = phrases.since(last)
    opened = last.opened_at or first.at
    named = next(t.at for t in transitions if t.cause == last.cause)
    yield f"- First symptom: {moment(began)}"
    yield f"- Opened: {moment(opened)}, {humanize(opened - began)} after the first symptom"
    yield f"- Cause named: {moment(named)}, {humanize(named - opened)} after the incident was opened"
    for one in context.notifications:
        delay = f", {humanize(one.at - opened)} after the incident was opened" if one.at >= opened else ""
        yield f"- {escaped(one.receiver, 80)}: change {one.seq} {escaped(one.state, 40)} {moment(one.at)}{delay}"
    if not context.notifications:
        yield "- Notifications: not known here"
    if words := late_words(last):
        yield f"- {escaped(words, 200)}"
    if last.transition == "resolved":
        yield f"- Resolved: {moment(phrases.ended_at(last))}"


def _code(text: str, limit: int) -> str:
    line = shortened(text, limit).replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}")
    return f"`{line}`" if line else ""
