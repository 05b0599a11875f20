"""Finds the right time although the clock of the driver's host may be wrong.

Each heartbeat has two times: the host's clock, which can be set, and a monotonic clock, which only counts. As long as
both advance equally, the host's clock is used. If they diverge, the host's clock was set: time then follows the
monotonic clock, unless the other partitions show that the new time is right. If everything that is read stays far
behind for minutes, the host's clock was wrong from the start: the time goes back to what the partitions show.

>>> clock = HeartbeatClock()
>>> current_time(clock, Heartbeat("run", 5_000, 1_000_000), 0, 0)
1000000
>>> current_time(clock, Heartbeat("run", 6_000, 4_601_000), 0, 1_000_000), clock.wrong
(1001000, 3600000)
"""

from typing import NamedTuple

import msgspec

FAR_MS = 120_000
"""Difference in ms between the clock and the partitions from which the clock counts as wrong."""
_NEAR_MS = 60_000
# NTP makes steps below this. They are followed slowly.
_STEP_MS = 2_000
_FOLLOWED = 100


class Heartbeat(NamedTuple):
    """A heartbeat: ID of the process that wrote it (`run`), its monotonic time, and its host's time (both ms)."""

    run: str
    counted: int
    at: int


class HeartbeatClock(msgspec.Struct, array_like=True):
    """State of the driver's clock. `began` is the time at which the monotonic clock of process `run` was 0.

    `wrong` is how far the host's clock is ahead of the time in use, in ms. `behind` is the monotonic time since which
    everything that was read has been far behind the clock, or -1.
    """

    run: str = ""
    counted: int = 0
    began: int = 0
    wrong: int = 0
    behind: int = -1


def current_time(clock: HeartbeatClock, heartbeat: Heartbeat, others: int, stream: int) -> int:
    """The time to use after `heartbeat`; changes `clock`.

    `others` is the greatest Kafka timestamp of other partitions in the same batch (0: none), `stream` the stream's
    clock before the batch.
    """
    began = heartbeat.at - heartbeat.counted
    if heartbeat.run != clock.run:
        clock.run, clock.began, clock.behind = heartbeat.run, began, -1
    elif began != clock.began:
        step = began - clock.began
        most = max(1, abs(heartbeat.counted - clock.counted) // _FOLLOWED)
        if abs(step) <= _STEP_MS:
            clock.began += max(-most, min(step, most))
        elif abs(others - heartbeat.at) <= _NEAR_MS < abs(others - clock.began - heartbeat.counted):
            clock.began = began
    clock.counted = heartbeat.counted
    if others and _all_behind(clock, others, stream):
        clock.began, clock.behind = others - heartbeat.counted, -1
    clock.wrong = began - clock.began
    return clock.began + heartbeat.counted


def _all_behind(clock: HeartbeatClock, others: int, stream: int) -> bool:
    """Whether everything read during the last FAR_MS was more than FAR_MS behind the stream's clock."""
    if others >= stream - FAR_MS:
        clock.behind = -1
    elif clock.behind < 0:
        clock.behind = clock.counted
    return 0 <= clock.behind <= clock.counted - FAR_MS
