"""What time it is, when the clock of the driver's host may be wrong.

Each beat of the heartbeat has two times: the host's clock, which anybody may set, and a monotonic one, which only
counts. As long as both go on alike the host is believed. Where they part the host's clock was set: time goes on as the
monotonic one counts, unless the partitions show that the new time is the right one. Where all that is read stays far
behind for minutes, the host was wrong from its start: the clock goes back to what the partitions show.

>>> beats = Beats()
>>> heard(beats, Beat("run", 5_000, 1_000_000), 0, 0), heard(beats, Beat("run", 6_000, 4_601_000), 0, 1_000_000)
(1000000, 1001000)
>>> beats.wrong
3600000
"""

from typing import NamedTuple

import msgspec

FAR_MS = 120_000
"""What the clock may be apart from the partitions before it is called wrong."""
_NEAR_MS = 60_000
# Steps below this are what NTP makes; they are followed slowly.
_STEP_MS = 2_000
_FOLLOWED = 100


class Heartbeat(NamedTuple):
    """A beat of the heartbeat: the process that wrote it, its monotonic time, and the time of its host (ms)."""

    run: str
    counted: int
    at: int


class HeartbeatClock(msgspec.Struct, array_like=True):
    """What is known of the driver's clock: by `run`, `began` is the time at which its monotonic clock was 0.

    `wrong` is how far its host's clock is ahead of what is believed, ms; `behind` the count since which everything that
    was read is far behind the clock, -1 while it is not.
    """

    run: str = ""
    counted: int = 0
    began: int = 0
    wrong: int = 0
    behind: int = -1


def heard(beats: HeartbeatClock, beat: Heartbeat, others: int, clock: int) -> int:
    """The time it is; `others` is the greatest Kafka timestamp of other partitions in the same batch (0: none)."""
    told = beat.at - beat.counted
    if beat.run != beats.run:
        beats.run, beats.began, beats.behind = beat.run, told, -1
    elif told != beats.began:
        step = told - beats.began
        most = max(1, abs(beat.counted - beats.counted) // _FOLLOWED)
        if abs(step) <= _STEP_MS:
            beats.began += max(-most, min(step, most))
        elif abs(others - beat.at) <= _NEAR_MS < abs(others - beats.began - beat.counted):
            beats.began = told
    beats.counted = beat.counted
    if others and _all_behind(beats, others, clock):
        beats.began, beats.behind = others - beat.counted, -1
    beats.wrong = told - beats.began
    return beats.began + beat.counted


def _all_behind(beats: HeartbeatClock, others: int, clock: int) -> bool:
    """Whether all that was read for as long as FAR_MS is further than that behind the clock."""
    if others >= clock - FAR_MS:
        beats.behind = -1
    elif beats.behind < 0:
        beats.behind = beats.counted
    return 0 <= beats.behind <= beats.counted - FAR_MS
