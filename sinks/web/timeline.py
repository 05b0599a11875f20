"""The course of an incident in order of time: when each symptom began, and what was known when."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from detectors.incident import Finding, Transition
from detectors.incidents.transitions import identity
from detectors.values.durations import humanize
from sinks.contract import phrases
from sinks.contract.feedback import NO_MARKS, Marks
from sinks.contract.one_line import shortened
from sinks.contract.wording import clock_time, kind_words, with_words
from sinks.web.cause_tree import in_order
from sinks.web.page_context import SentNotification

FIRST_SHOWN, LAST_SHOWN = 20, 60
"""Of an incident with more transitions, the first and the last ones are shown."""

_NUMBERS = "new numbers of "
_FINDINGS_SHOWN = 8
_LONGEST_REASON = 400
_WORDS = {
    "sent": "notified",
    "folded": "notified in a digest",
    "undelivered": "could not be notified",
    "unknown": "notified without a clear answer",
    "intent": "is being notified",
}


class Step(msgspec.Struct, frozen=True):
    """A transition, what it changed, and what was known after it. `advice` is empty if it did not change."""

    transition: Transition
    words: str
    findings: list[Finding]
    more: int
    advice: str
    only_numbers: bool


class TimelineRow(msgspec.Struct, frozen=True):
    """One line: a symptom that began or ended, a change of Flink's settings, a report (with its step), a notification
    or a person's answer. `at` is epoch ms.
    """

    at: int
    what: Literal["symptom", "adjustment", "report", "notification", "answer"]
    clock: str
    words: str
    detail: str = ""
    step: Step | None = None


def shown_transitions(transitions: Sequence[Transition]) -> list[Transition]:
    """The transitions that a page shows one by one."""
    if len(transitions) <= FIRST_SHOWN + LAST_SHOWN:
        return list(transitions)
    return [*transitions[:FIRST_SHOWN], *transitions[-LAST_SHOWN:]]


def timeline(
    transitions: Sequence[Transition], notifications: Sequence[SentNotification] = (), marks: Marks = NO_MARKS
) -> list[TimelineRow]:
    """The rows of an incident's transitions, which are oldest first."""
    day = transitions[-1].at
    rows = [
        *_symptoms(transitions, day),
        *_adjusted(transitions[-1], day),
        *(_reported(step, day) for step in steps(shown_transitions(transitions))),
        *(_sent(one, day) for one in notifications),
        *(TimelineRow(m.at, "answer", clock_time(m.at, day), f"{words} {m.by}") for words, m in phrases.answers(marks)),
    ]
    order = {"symptom": 0, "adjustment": 1, "report": 2, "notification": 3, "answer": 4}
    return sorted(rows, key=lambda row: (row.at, order[row.what]))


def steps(transitions: Sequence[Transition]) -> list[Step]:
    """What each transition shows."""
    found = []
    advice = ""
    for transition in transitions:
        ordered = in_order(transition)
        new = "" if transition.advice == advice else transition.advice
        advice = transition.advice
        hidden = max(len(ordered) - _FINDINGS_SHOWN, 0) + max(transition.more, 0)
        only_numbers = transition.transition == "updated" and transition.reason.startswith(_NUMBERS)
        found.append(Step(transition, _change(transition), ordered[:_FINDINGS_SHOWN], hidden, new, only_numbers))
    return found


def _change(transition: Transition) -> str:
    """What a transition reports, in one sentence."""
    if transition.seq == 1 or transition.transition == "opened":
        words = f"Opened as {kind_words(transition.cause)}"
        return f"{words}, {with_words(transition.reason)}" if transition.reason.startswith("recurring") else words
    words = with_words(shortened(transition.reason, _LONGEST_REASON))
    if transition.part_of:
        return f"Merged into incident {transition.part_of}"
    if transition.transition == "resolved":
        return f"Resolved: {words}" if words else "Resolved"
    if transition.transition == "stale":
        return f"No data, state unknown: {words}" if words else "No data, state unknown"
    return words[:1].upper() + words[1:] or "Updated"


def _reported(step: Step, day: int) -> TimelineRow:
    transition = step.transition
    return TimelineRow(transition.at, "report", clock_time(transition.at, day), step.words, "", step)


def _symptoms(transitions: Sequence[Transition], day: int) -> list[TimelineRow]:
    """When each finding began, with the time at which that was reported, and when it ended."""
    first: dict[tuple[str, str], Finding] = {}
    last: dict[tuple[str, str], Finding] = {}
    for transition in transitions:
        for finding in transition.findings:
            first.setdefault(identity(finding), finding)
            last[identity(finding)] = finding
    reported = {transition.at for transition in transitions}
    rows = []
    for key, finding in first.items():
        end = last[key]
        name = kind_words(finding.kind) + (f" on {where}" if (where := phrases.place(end)) else "")
        lag = finding.at - finding.since
        known = f"known {humanize(lag)} later, at {clock_time(finding.at, day)}" if lag > 0 else "known at once"
        rows.append(TimelineRow(finding.since, "symptom", clock_time(finding.since, day), f"{name} began", known))
        if end.closed_at is not None and end.closed_at not in reported:
            words = with_words(end.closed_because)
            rows.append(TimelineRow(end.closed_at, "symptom", clock_time(end.closed_at, day), f"{name} ended", words))
    return rows


def _adjusted(last: Transition, day: int) -> list[TimelineRow]:
    """When something was changed in Flink, and what became of the incident since."""
    return [
        TimelineRow(at, "adjustment", clock_time(at, day), f"Changed in Flink: {what}", effect)
        for at, what, effect in phrases.adjustments(last)
    ]


def _sent(one: SentNotification, day: int) -> TimelineRow:
    words = f"{one.receiver} {_WORDS.get(one.state, one.state)} of change {one.seq}"
    return TimelineRow(one.at, "notification", clock_time(one.at, day), words, one.reason)
