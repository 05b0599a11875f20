"""What the readers of an incident's message know: kept in the notification log, so that a restart repeats nothing."""

from typing import Annotated

import msgspec
from msgspec.structs import replace

from detectors.incident import Change, Severity, Transition

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A number in the notification log. JSON may hold one of a thousand digits, which no clock can be compared with."""

_LONGEST_PAUSE_MS = 6 * 3_600_000


class NotifiedState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was reported last, apart from numbers. `findings` counts those that have joined, `issue` is the ID of the
    known issue that the incident matches, `silence` the ID of its silence. `adjustments` counts changes of
    Flink's settings, and what became of them.

    `replied_at` is when a line was last added to the thread, `charted_at` when a chart was last ordered (epoch ms,
    wall clock; 0: never). `critical_at` is since when the message has reported it as critical (0: it does not).
    """

    change: Change
    cause: str
    severity: Severity
    findings: Whole
    issue: str = ""
    silence: str = ""
    adjustments: Whole = 0
    replied_at: Whole = 0
    charted_at: Whole = 0
    critical_at: Whole = 0

    def same_but_for_numbers(self, other: "NotifiedState") -> bool:
        """Whether someone who has read the one learns nothing from the other but newer numbers."""
        # The first update of an incident is no news by itself.
        same_state = self.change == other.change or {self.change, other.change} <= {"opened", "updated"}
        times = {"replied_at": self.replied_at, "charted_at": self.charted_at, "critical_at": self.critical_at}
        return same_state and replace(other, change=self.change, **times) == self


def notified_state(transition: Transition) -> NotifiedState:
    return NotifiedState(
        change=transition.transition,
        cause=transition.cause,
        severity=transition.severity,
        findings=len(transition.findings) + max(transition.more, 0) + len(transition.merged),
        issue=transition.known_issue.id if transition.known_issue is not None else "",
        silence=transition.silence.id if transition.silence is not None else "",
        adjustments=sum(1 + one.judged for one in transition.adjustments),
    )


def is_line_due(before: NotifiedState | None, transition: Transition, now: int, every: int) -> bool:
    """Whether a line about `transition` is worth notifying people at `now` (epoch ms, wall clock).

    News is, at once. Lines that only bring newer numbers are at least `every` ms apart, and the rarer the longer the
    incident has been open: each pause is as long as the time before it.
    """
    if before is None or not before.same_but_for_numbers(notified_state(transition)):
        return True
    open_for = before.replied_at - transition.opened_at if transition.opened_at else 0
    return now - before.replied_at >= max(every, min(open_for, _LONGEST_PAUSE_MS))
