"""The page of one incident: a pure function of its transitions, the same for a running job and a replay."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from detectors.incident import SEVERITIES, Evidence, Finding, Series, Silenced, Transition
from sinks.contract import phrases
from sinks.contract.link_templates import flink_ui_url
from sinks.contract.wording import SEVERITY_WORDS, clock_time, late_words, runbook_url, silence_words, with_words
from sinks.web.cause_tree import cause_of, cause_tree, in_order
from sinks.web.chart import draw_chart
from sinks.web.page_context import NO_CONTEXT, PageContext
from sinks.web.templating import render
from sinks.web.timeline import shown_transitions, timeline

_PREVENT = "To prevent it: "
_SENTENCE_END = re.compile(r"(?<=[.?])\s+(?=[A-Z])")
_MOST_SENTENCES = 12


class ShownEvidence(NamedTuple):
    """A record, its address for a reader, and its time without the day."""

    address: str
    clock: str
    text: str


class ShownFinding(NamedTuple):
    """A finding with its chart and its evidence."""

    number: int
    finding: Finding
    chart: Markup
    evidence: list[ShownEvidence]


def render_incident(transitions: Sequence[Transition], context: PageContext = NO_CONTEXT) -> str:
    """The page of an incident from all its transitions, oldest first. Raises ValueError if there is none.

    If earlier transitions were removed by Kafka's compaction, the page shows what the remaining ones know.
    """
    if not transitions:
        raise ValueError("an incident has at least one transition")
    last = transitions[-1]
    findings = in_order(last)
    now, _, prevent = last.advice.partition(_PREVENT)
    return render(
        "incident.html.j2",
        t=last,
        context=context,
        subject=phrases.exercise(last) + phrases.subject_line(last),
        state=phrases.state(last),
        tone=phrases.tone(last),
        severity=_severity(transitions),
        notices=[words for words in (silence_words(last), late_words(last), *_answers(last, context)) if words],
        places=phrases.places(last),
        times=[row for row in phrases.times(last) if row[0] != "Cause"],
        status=_status(last),
        forecast=phrases.forecast_words(last),
        is_open=last.transition in ("opened", "updated"),
        to_do=_sentences(now),
        to_prevent=_sentences(prevent[:1].upper() + prevent[1:]),
        runbooks=_runbooks(last, context),
        restore=phrases.restore_words(last),
        flink_ui=flink_ui_url(context.flink_ui_url, last),
        trees=cause_tree(findings),
        rows=timeline(transitions, context.notifications, context.marks),
        hidden=len(transitions) - len(shown_transitions(transitions)),
        missing=last.seq - len(transitions),
        findings=_findings(findings, transitions, context),
        issue=last.known_issue,
        issue_words=last.known_issue and phrases.issue_sentences(last.known_issue),
        issue_address=last.known_issue and phrases.issue_address(last.known_issue),
        adjustments=phrases.adjustments(last),
        recurrence=phrases.recurrence(last),
        confidence=phrases.CONFIDENCE_WORDS.get(last.confidence, ""),
        silences=_silences(transitions),
        decided=[one for one in context.thresholds if one.key.startswith(f"{last.cause}.")],
        others=[one for one in context.thresholds if not one.key.startswith(f"{last.cause}.")],
        place=phrases.place,
        reason=phrases.reason,
        forecast_of=phrases.forecast_words,
        state_of=phrases.state,
        tone_of=phrases.tone,
    )


def _answers(last: Transition, context: PageContext) -> list[str]:
    return [f"{words} {m.by} at {clock_time(m.at, last.at)} UTC." for words, m in phrases.answers(context.marks)]


def _severity(transitions: Sequence[Transition]) -> str:
    last = transitions[-1].severity
    worst = max((t.severity for t in transitions), key=SEVERITIES.index)
    return SEVERITY_WORDS[last] + (f", at worst {SEVERITY_WORDS[worst].lower()}" if worst != last else "")


def _status(transition: Transition) -> tuple[str, str]:
    """A heading and a sentence on what became of an incident; empty while it is simply open."""
    words = with_words(transition.reason)
    if transition.part_of:
        return "Not resolved:", "this incident was merged into another one and continues there."
    if transition.transition == "resolved":
        return ("Resolved because:", words) if words else ("", "")
    if transition.transition == "stale":
        return "No data from this cluster:", phrases.NO_DATA
    return "", ""


def _sentences(text: str) -> list[str]:
    """Advice as steps, one sentence each."""
    found = [sentence for sentence in _SENTENCE_END.split(text.strip()) if sentence]
    return [*found[:_MOST_SENTENCES], *([" ".join(found[_MOST_SENTENCES:])] if found[_MOST_SENTENCES:] else [])]


def _runbooks(transition: Transition, context: PageContext) -> list[tuple[str, str]]:
    """Kinds of the findings and the addresses of their runbooks, the cause's first."""
    kinds = dict.fromkeys([transition.cause, *(f.kind for f in in_order(transition))])
    found = [(kind, runbook_url(context.runbook_base_url, kind)) for kind in kinds]
    return [(kind, address) for kind, address in found if address]


def _findings(
    findings: Sequence[Finding], transitions: Sequence[Transition], context: PageContext
) -> list[ShownFinding]:
    last = transitions[-1]
    changes = [t.at for t in transitions]
    cause = cause_of(last)
    drawn: list[Series] = []
    found = []
    for number, finding in enumerate(findings, 1):
        series = finding.series
        if series is None and finding is cause and not any(f.series for f in findings):
            series = last.series
        chart = Markup()
        # Two findings may be about the same numbers.
        if series is not None and series not in drawn:
            drawn.append(series)
            chart = draw_chart(series, finding.forecast, changes, name=f"chart-{number}")
        found.append(ShownFinding(number, finding, chart, _evidence(finding.evidence, last.at, context)))
    if not any(f.evidence for f in findings) and last.evidence and found:
        found[0] = found[0]._replace(evidence=_evidence(last.evidence, last.at, context))
    return found


def _evidence(found: Sequence[Evidence], day: int, context: PageContext) -> list[ShownEvidence]:
    in_order_of_time = sorted(found, key=lambda e: e.time)
    return [ShownEvidence(context.place_of(e), clock_time(e.time, day), e.text) for e in in_order_of_time]


def _silences(transitions: Sequence[Transition]) -> list[tuple[int, Silenced]]:
    """Each silence that applied, with the time of the first transition that has it."""
    found: dict[str, tuple[int, Silenced]] = {}
    for transition in transitions:
        silence = transition.silence or transition.silenced_before
        if silence is not None:
            found[silence.id] = found.get(silence.id, (transition.at, silence))[0], silence
    return list(found.values())
