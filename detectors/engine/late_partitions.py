"""The order in which a cluster's events are taken when a partition lags.

An event carries the time at which the producer handed it to Kafka's client. If it waited there (slow broker, starved
host), it arrives after younger events. If events were taken as they arrive, the output would depend on where the stream
is cut into batches. A cluster with late events therefore waits for as long as they were late: its clock stays behind by
that time, younger events are kept, and all are taken in order of their time. Clusters without late events do not wait.

A lag is learned per partition, from an event older than the time that the stream had reached before the batch. The
event is late by at least the difference, and by no more than the difference to the time reached with this batch.
Nothing is learned from a backlog of several batches, because the heartbeat is read ahead of it and all of it looks
late. What a partition had before events that were read far ahead does not wait either, so that each partition is taken
in its order. A lag is forgotten once the partition has been on time for a while, or after hours without events. Events
later than BOUND_MS are not waited for.

Without a late partition, an event that is ahead of the clock only waits if a deadline comes before it (`fold.py`).

>>> orders = {}
>>> take(orders, "c", [], StreamClocks(100_000, 90_000, 100_000)).until
100000
>>> from detectors.events.event import MetricEvent
>>> late = MetricEvent("c", "s", "h", 80_000, 80_000, "metrics", 0, 1, [])
>>> take(orders, "c", [late], StreamClocks(101_000, 100_000, 101_000)).until, orders["c"].wait()
(80000, 21000)
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from detectors.events.event import Event, LogEvent, MetricEvent
from detectors.values.bounded import put_bounded

BOUND_MS = 120_000
"""The longest lag up to which the order of arrival does not matter."""
# Partitions are never read at exactly the same time. A smaller delay counts as on time.
_TOLERATED_MS = 1_000
_WINDOW_MS = 900_000
_FORGET_MS = 6 * 3_600_000
_MAX_PARTITIONS = 64
# Limit for waiting lines and samples of all clusters of a bucket together, about 10 MB.
_MOST_WAITING = 50_000


class StreamClocks(NamedTuple):
    """The times that the stream has reached: `until` on the least advanced partition, `front` on the most advanced one,
    `before` on the most advanced one before this batch (0 if that means nothing).
    """

    until: int
    before: int
    front: int


class PartitionLag(msgspec.Struct, array_like=True):
    """How late the events of a partition were in the current and in the previous time window; `heard` is the time of
    the last event.
    """

    now: int = 0
    before: int = 0
    window: int = 0
    heard: int = 0


class PartitionOrder(msgspec.Struct, array_like=True):
    """The lags that a cluster waits for, by partition, and the events that wait for these or for a deadline."""

    lags: dict[str, PartitionLag] = {}
    waiting: list[LogEvent | MetricEvent] = []

    def wait(self) -> int:
        """How long events wait for older ones."""
        return max((max(lag.now, lag.before) for lag in self.lags.values()), default=0)


class ReadyEvents(NamedTuple):
    """The events to take now, in the order of their time, and the clock of their cluster."""

    events: list[Event]
    until: int


Orders = dict[str, PartitionOrder]
"""By cluster. A cluster without late and without waiting events has no entry."""


def cluster_clock(orders: Orders, cluster: str, clocks: StreamClocks) -> int:
    """The clock of a cluster."""
    order = orders.get(cluster)
    return clocks.until if order is None else min(clocks.until, clocks.front - order.wait())


def next_waiting(orders: Orders, cluster: str) -> int | None:
    """The clock time at which the oldest waiting event is taken at the latest; None if none waits."""
    order = orders.get(cluster)
    return min((e.timestamp for e in order.waiting), default=None) if order is not None else None


def take(orders: Orders, cluster: str, events: list[Event], clocks: StreamClocks) -> ReadyEvents:
    """Learn which partitions are late, and return the events to take now; the others wait in `orders`."""
    order = orders.get(cluster)
    if order is None:
        if not any(_lag(e, clocks) for e in events):
            return ReadyEvents(events, clocks.until)
        order = orders[cluster] = PartitionOrder()
    _learn(order, events, clocks)
    until = cluster_clock(orders, cluster, clocks)
    if not order.wait():
        del orders[cluster]
        return ReadyEvents([*order.waiting, *events], until)
    passed = _read_ahead(events, until + BOUND_MS, clocks.front)
    ready: list[Event] = []
    waiting: list[Event] = []
    for event in (*order.waiting, *events):
        waits = until < event.timestamp <= until + BOUND_MS and event.offset > passed.get(_partition(event), -1)
        (waiting if waits else ready).append(event)
    order.waiting = _bounded(orders, order, waiting, ready)
    return ReadyEvents(ready, until)


def may_wait(orders: Orders, clocks: StreamClocks, ahead: list[Event], until: int) -> bool:
    """Whether the events of a cluster that are ahead of its clock `until` may wait for a deadline before them.

    They may not if they are far ahead, as in a catch-up, nor if there is no room. `ahead` is in order of time.
    """
    if not clocks.before or ahead[-1].timestamp > until + BOUND_MS:
        return False
    return _weight(ahead) + sum(_weight(o.waiting) for o in orders.values()) <= _MOST_WAITING


def keep_waiting(orders: Orders, cluster: str, events: Iterable[Event]) -> None:
    """Keep events that wait for a deadline, up to the next step of the cluster."""
    if events:
        orders.setdefault(cluster, PartitionOrder()).waiting.extend(events)


def _read_ahead(events: list[Event], until: int, front: int) -> dict[str, int]:
    """The last offset of each partition that was read ahead, as in a catch-up.

    Its events do not wait, so none before them may wait either: a cluster must see each partition in order. An event
    ahead of all partitions comes from a producer with a wrong clock and says nothing of its partition.
    """
    passed: dict[str, int] = {}
    for event in events:
        if until < event.timestamp <= front:
            passed[_partition(event)] = max(event.offset, passed.get(_partition(event), -1))
    return passed


def _partition(event: Event) -> str:
    return f"{event.topic}/{event.partition}"


def _lag(event: Event, clocks: StreamClocks) -> int:
    late = clocks.before - event.timestamp
    if not _TOLERATED_MS < late <= BOUND_MS:
        return 0
    return min(clocks.front - event.timestamp, 2 * late, BOUND_MS)


def _learn(order: PartitionOrder, events: list[Event], clocks: StreamClocks) -> None:
    for event in events:
        late = _lag(event, clocks)
        partition = _partition(event)
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
    """The events that continue to wait. Beyond the limit, the oldest ones are taken at once."""
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
