"""The order in which a cluster's events are taken when a partition lags.

Events carry the time at which they were given to Kafka's client; one that waited there (a slow broker, a starved host)
arrives behind younger ones. Taken as they come, what is said would depend on where the stream is cut into batches. So a
cluster that has had late events waits as long as they were late: its clock stands that far back, what is younger is
kept, and all are taken in order of their time. Where nothing is late nothing waits.

A lag is learned, by partition, from an event that is older than the stream had come before its batch: it was late by at
least that, and by no more than how far the stream has come with it. In a backlog that takes several batches nothing is
learned: the heartbeat is read ahead of it, so all of it looks late. A lag is forgotten once the partition has been
prompt for a while; while nothing comes from it nobody can know. What is later than BOUND_MS is not waited for.

>>> orders = {}
>>> prompt = take(orders, "c", [], Clocks(100_000, 90_000, 100_000)); prompt.until
100000
>>> from detectors.events.event import MetricEvent
>>> late = MetricEvent("c", "s", "h", 80_000, 80_000, "metrics", 0, 1, [])
>>> take(orders, "c", [late], Clocks(101_000, 100_000, 101_000)).until, orders["c"].wait()
(80000, 21000)
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from detectors.events.event import Event, LogEvent, MetricEvent
from detectors.values.bounded import put_bounded

BOUND_MS = 120_000
"""The longest lag within which the order of arrival does not matter."""
# Between one batch and the next partitions are a little apart: what is late by less is as good as prompt.
_TOLERATED_MS = 1_000
_WINDOW_MS = 900_000
_FORGET_MS = 6 * 3_600_000
_MAX_PARTITIONS = 64
# Lines and samples that wait in all clusters of a bucket together, some 10 MB.
_MOST_WAITING = 50_000


class StreamClocks(NamedTuple):
    """How far the stream has come: on its least advanced partition, on its furthest one before this batch (0 while that
    tells nothing), and now.
    """

    until: int
    before: int
    front: int


class PartitionLag(msgspec.Struct, array_like=True):
    """How late the events of a partition were, in this window of time and in the one before; when it was heard last."""

    now: int = 0
    before: int = 0
    window: int = 0
    heard: int = 0


class PartitionOrder(msgspec.Struct, array_like=True):
    """What a cluster waits for, by partition, and what waits."""

    lags: dict[str, PartitionLag] = {}
    waiting: list[LogEvent | MetricEvent] = []

    def wait(self) -> int:
        """How long events wait for older ones."""
        return max((max(lag.now, lag.before) for lag in self.lags.values()), default=0)


class ReadyEvents(NamedTuple):
    """The events whose turn has come, and the clock of their cluster."""

    events: list[Event]
    until: int


Orders = dict[str, PartitionOrder]
"""By cluster; those that have nothing late have none."""


def due(orders: Orders, cluster: str, clocks: StreamClocks) -> int:
    """The clock of a cluster."""
    order = orders.get(cluster)
    return clocks.until if order is None else min(clocks.until, clocks.front - order.wait())


def next_waiting(orders: Orders, cluster: str) -> int | None:
    """The clock time at which the turn of something that waits comes."""
    order = orders.get(cluster)
    return min((e.timestamp for e in order.waiting), default=None) if order is not None else None


def take(orders: Orders, cluster: str, events: list[Event], clocks: StreamClocks) -> ReadyEvents:
    """Learn what is late, and tell what may be taken now; the rest waits in `orders`."""
    order = orders.get(cluster)
    if order is None:
        if not any(_lag(e, clocks) for e in events):
            return ReadyEvents(events, clocks.until)
        order = orders[cluster] = PartitionOrder()
    _learn(order, events, clocks)
    until = due(orders, cluster, clocks)
    if not order.wait() and not order.waiting:
        del orders[cluster]
        return ReadyEvents(events, until)
    ready: list[Event] = []
    waiting: list[Event] = []
    for event in (*order.waiting, *events):
        # What is far ahead belongs to a partition that is read ahead in a catch-up, or to a producer that lies.
        (waiting if until < event.timestamp <= until + BOUND_MS else ready).append(event)
    order.waiting = _bounded(orders, order, waiting, ready)
    return ReadyEvents(ready, until)


def _lag(event: Event, clocks: StreamClocks) -> int:
    late = clocks.before - event.timestamp
    if not _TOLERATED_MS < late <= BOUND_MS:
        return 0
    return min(clocks.front - event.timestamp, 2 * late, BOUND_MS)


def _learn(order: PartitionOrder, events: list[Event], clocks: StreamClocks) -> None:
    for event in events:
        late = _lag(event, clocks)
        partition = f"{event.topic}/{event.partition}"
        known = order.lags.get(partition)
        if known is None:
            if not late:
                continue
            known = PartitionLag(window=clocks.front)
            put_bounded(order.lags, partition, known, _MAX_PARTITIONS)
        elif clocks.front - known.window >= _WINDOW_MS:
            known.now, known.before, known.window = 0, known.now, clocks.front
        known.now, known.heard = max(known.now, late), clocks.front
    for partition, known in [*order.lags.items()]:
        if not (known.now or known.before) or clocks.front - known.heard >= _FORGET_MS:
            del order.lags[partition]


def _bounded(orders: Orders, order: PartitionOrder, waiting: list[Event], ready: list[Event]) -> list[Event]:
    """What may go on waiting; the oldest of what is too much do not."""
    room = _MOST_WAITING - sum(_weight(o.waiting) for o in orders.values() if o is not order)
    if _weight(waiting) <= room:
        return waiting
    waiting.sort(key=lambda e: e.timestamp)
    kept: list[Event] = []
    for event in reversed(waiting):
        room -= _weight((event,))
        (kept if room >= 0 else ready).append(event)
    return kept


def _weight(events: Iterable[Event]) -> int:
    return sum(1 + (len(e.samples) if isinstance(e, MetricEvent) else 0) for e in events)
