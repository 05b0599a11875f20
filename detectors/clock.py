"""Whose clock to believe when recorded records are replayed.

Live, the clock of the stream is bounded by the machine's. In a recording there is no such bound, so a source is
believed unless what arrives after its records contradicts it: one producer an hour ahead must not drive the clock.
"""

from collections.abc import Sequence

SLACK_MS = 60_000


def believed(arrivals: Sequence[tuple[str, int]]) -> list[int]:
    """The stream's clock at each record of (source, Kafka timestamp in ms), in order of arrival; never runs back.

    A source is not believed at all when some record after one of its own is older than it by more than SLACK_MS.

    >>> believed([("a", 1_000), ("ahead", 3_601_000), ("a", 2_000), ("ahead", 3_602_000)])
    [1000, 1000, 2000, 2000]
    """
    liars: set[str] = set()
    oldest_after = arrivals[-1][1] if arrivals else 0
    for source, timestamp in reversed(arrivals):
        if timestamp > oldest_after + SLACK_MS:
            liars.add(source)
        else:
            oldest_after = min(oldest_after, timestamp)
    clocks: list[int] = []
    clock = min((t for s, t in arrivals if s not in liars), default=0)
    for source, timestamp in arrivals:
        if source not in liars:
            clock = max(clock, timestamp)
        clocks.append(clock)
    return clocks
