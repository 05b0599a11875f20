"""Decides what is posted in an incident's thread in addition to the edit of its message, and when. Time is an argument.

A thread notifies everyone who follows it, so lines with only new numbers are posted rarely (`is_line_due`). An edit
notifies no one, so an incident that becomes critical is also posted in the channel. Nothing is posted while the
incident is silenced; the changes since then are posted when the silence ends.
"""

from typing import NamedTuple

import msgspec

from detectors.incident import Transition
from sinks.contract.notified import NotifiedState, is_line_due, notified_state
from sinks.integrations.slack.settings import SlackConfig

_DRAW_AGAIN_MS = 3_600_000
_POINTS_NEEDED = 3


class ThreadPlan(NamedTuple):
    """`reply`: post the change in the thread; `broadcast`: show that line in the channel too; `chart`: post a chart;
    `unsilenced`: the change is the end of a silence.

    `notified` is what the notification log keeps once the message is delivered.
    """

    reply: bool
    broadcast: bool
    chart: bool
    notified: NotifiedState
    unsilenced: bool = False


def plan(
    before: NotifiedState | None,
    transition: Transition,
    now: int,
    config: SlackConfig,
    *,
    edited: bool,
    seen: bool = False,
) -> ThreadPlan:
    """What to do once the message shows `transition`, at `now` (epoch ms, wall clock).

    `before` is what was reported of the incident, None if nothing is known. `edited`: the message is not new.
    `seen`: it has shown this transition before.
    """
    current = notified_state(transition)
    still_open = current.change in {"opened", "updated"}
    unsilenced = before is not None and bool(before.silence) and not current.silence and still_open
    was_critical = before is None or (before.severity == "critical" and not unsilenced)
    became_critical = current.severity == "critical" and not was_critical
    replied_at, charted_at = (before.replied_at, before.charted_at) if before is not None else (0, 0)
    in_thread = edited and not seen and config.thread_updates and not current.silence
    broadcast = in_thread and config.broadcast_critical and still_open and became_critical
    reply = broadcast or (in_thread and is_line_due(before, transition, now, config.thread_every))
    chart = config.charts and config.thread_updates and not current.silence
    ended_before = before is not None and before.change == "resolved"
    chart = chart and _worth_drawing(transition, now - charted_at >= _DRAW_AGAIN_MS, ended_before)
    # A new message contains everything, so it counts as a line in the thread.
    replied_at = now if reply or not edited else replied_at
    kept = msgspec.structs.replace(
        current,
        replied_at=replied_at,
        charted_at=now if chart else charted_at,
        critical_at=_critical_at(before, current, now) if config.actions.remind_after else 0,
    )
    return ThreadPlan(reply, broadcast, chart, kept, unsilenced)


def _critical_at(before: NotifiedState | None, current: NotifiedState, now: int) -> int:
    """Since when readers have known that it is critical; a silence ends that."""
    if current.severity != "critical" or current.silence:
        return 0
    return (before.critical_at if before is not None else 0) or now


def _worth_drawing(transition: Transition, long_ago: bool, ended_before: bool) -> bool:
    series = transition.series
    if series is None or len(series.points) < _POINTS_NEEDED or transition.part_of:
        return False
    if transition.transition == "resolved":
        return not ended_before
    return long_ago
