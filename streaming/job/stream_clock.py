"""The clock of the stream: how far a batch has come."""

from detectors.engine import bucket, host_clock
from streaming.job.rows import Packed

_BATCH_MS = 10_000


def read_up_to(index: bucket.BucketIndex, packed: list[Packed]) -> tuple[int, int]:
    """How far the stream has come: on the least advanced partition of this batch and on the furthest one, neither past
    the time it is.

    In a catch-up every partition with a backlog is in the batch, so none is overtaken; live, the heartbeat alone moves
    the clock when nothing else comes. The bound keeps a producer whose clock is ahead from driving it.
    """
    clocks: dict[str, int] = {}
    for part in packed:
        for partition, timestamp in part.clocks.items():
            clocks[partition] = max(clocks.get(partition, 0), timestamp)
    if not clocks:
        return index.clock, index.front
    # A host whose clock was set has this one wrong, too.
    now = max(p.wall for p in packed) - (
        index.heartbeat_clock.wrong if abs(index.heartbeat_clock.wrong) > host_clock.FAR_MS else 0
    )
    beat, heartbeat = max(
        ((p.beat, p.heartbeat) for p in packed if p.beat), key=lambda b: b[0].counted, default=(None, "")
    )
    if beat is not None:
        others = max((t for partition, t in clocks.items() if partition != heartbeat), default=0)
        now = clocks[heartbeat] = host_clock.current_time(index.heartbeat_clock, beat, others, index.clock)
        if index.clock - now > host_clock.FAR_MS:
            index.go_back(now)
        # What was read may be as new as the batch.
        now += _BATCH_MS
    return min([*clocks.values(), now]), min(max(clocks.values()), now)
