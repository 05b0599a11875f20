"""What the readers of an incident's message have been told: kept in the ledger, so that a restart repeats nothing."""

from typing import Annotated

import msgspec

from detectors.incident import Change, Severity, Transition

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A number of the ledger. JSON may hold one of a thousand digits, with which no clock can be compared."""


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was said last, apart from numbers; `findings` counts those that have joined,
    `issue` is the known issue it looks like, `silence` the id of the silence it was under.

    `said_at` is when a line was last put into the thread, `drawn_at` when a chart was last ordered (epoch ms, wall
    clock; 0: never).
    """

    change: Change
    cause: str
    severity: Severity
    findings: Whole
    issue: str = ""
    silence: str = ""
    said_at: Whole = 0
    drawn_at: Whole = 0

    def same_but_for_numbers(self, other: "Told") -> bool:
        """Whether a person who heard the one learns nothing from the other but newer numbers."""
        # The first update of an incident is no news by itself.
        same_state = self.change == other.change or {self.change, other.change} <= {"opened", "updated"}
        return same_state and _facts(self) == _facts(other)


def _facts(told: Told) -> tuple[object, ...]:
    return told.cause, told.severity, told.findings, told.issue, told.silence


def told(transition: Transition) -> Told:
    """What a message of this transition tells."""
    return Told(
        change=transition.transition,
        cause=transition.cause,
        severity=transition.severity,
        findings=len(transition.findings) + max(transition.more, 0) + len(transition.merged),
        issue=transition.known_issue.id if transition.known_issue is not None else "",
        silence=transition.silence.id if transition.silence is not None else "",
    )
