"""The clock of the stream, from the timestamps of the records in a batch."""

from detectors.engine import bucket, host_clock
from detectors.events.event import Event
from streaming.job.rows import Packed

_BATCH_MS = 10_000


def read_up_to(index: bucket.BucketIndex, packed: list[Packed[Event]]) -> tuple[int, int]:
    """The stream's clock: on the least and on the most advanced partition of this batch, neither ahead of now.

    During catch-up, every partition with a backlog is in the batch, so none is overtaken. Without input, the heartbeat
    alone advances the clock. The limit prevents that a producer whose clock is ahead advances it.
    """
    clocks: dict[str, int] = {}
    for part in packed:
        for name, timestamp in part.clocks.items():
            clocks[name] = max(clocks.get(name, 0), timestamp)
    if not clocks:
        return index.clock, index.front
    # If the clock of the host was set, this time is wrong by the same amount.
    now = max(p.wall for p in packed) - (
        index.heartbeat_clock.wrong if abs(index.heartbeat_clock.wrong) > host_clock.FAR_MS else 0
    )
    heartbeat, partition = max(
        ((p.heartbeat, p.heartbeat_partition) for p in packed if p.heartbeat),
        key=lambda found: found[0].counted,
        default=(None, ""),
    )
    if heartbeat is not None:
        others = max((timestamp for other, timestamp in clocks.items() if other != partition), default=0)
        now = clocks[partition] = host_clock.current_time(index.heartbeat_clock, heartbeat, others, index.clock)
        if index.clock - now > host_clock.FAR_MS:
            index.go_back(now)
        # Records may be as new as the end of the batch.
        now += _BATCH_MS
    return min([*clocks.values(), now]), min(max(clocks.values()), now)
