"""Decides which sources' clocks to trust when recorded records are replayed.

In the running job, the machine's clock bounds the stream's clock. A recording has no such bound, so a source is trusted
unless most others contradict it: one producer that is an hour ahead must not drive the clock, and one record that its
shipper held back for minutes must not discredit all other sources.
"""

from collections.abc import Sequence

SLACK_MS = 60_000

Arrivals = Sequence[tuple[str, int]]


def trusted_clock(arrivals: Arrivals) -> list[int]:
    """The stream's clock at each record of (source, Kafka timestamp in ms), in order of arrival. It never goes back.

    A source is not trusted if more than half of the other sources lag behind it by more than SLACK_MS with most of
    their records.

    >>> trusted_clock([("a", 1_000), ("ahead", 3_601_000), ("a", 2_000), ("ahead", 3_602_000)])
    [1000, 1000, 2000, 2000]
    """
    wrong = {source for source in _contradicted(arrivals) if _ahead(source, arrivals)}
    clocks: list[int] = []
    clock = min((t for s, t in arrivals if s not in wrong), default=0)
    for source, timestamp in arrivals:
        if source not in wrong:
            clock = max(clock, timestamp)
        clocks.append(clock)
    return clocks


def _contradicted(arrivals: Arrivals) -> set[str]:
    """Sources with a record that is followed by one more than SLACK_MS older; usually there are none."""
    found: set[str] = set()
    oldest_after = arrivals[-1][1] if arrivals else 0
    for source, timestamp in reversed(arrivals):
        if timestamp > oldest_after + SLACK_MS:
            found.add(source)
        oldest_after = min(oldest_after, timestamp)
    return found


def _ahead(suspect: str, arrivals: Arrivals) -> bool:
    """Whether more than half of the sources with records after this one's first record lag behind it."""
    peak: int | None = None
    balance: dict[str, int] = {}
    for source, timestamp in arrivals:
        if source == suspect:
            peak = timestamp if peak is None else max(peak, timestamp)
        elif peak is not None:
            balance[source] = balance.get(source, 0) + (1 if timestamp < peak - SLACK_MS else -1)
    lagging = sum(1 for b in balance.values() if b > 0)
    return 2 * lagging > len(balance)
