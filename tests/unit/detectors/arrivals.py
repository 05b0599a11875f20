"""Recordings as they arrive when partitions lag, and what a bucket reports of them wherever the stream is cut."""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import repeat
from typing import NamedTuple

from detectors.engine import bucket
from detectors.events.event import Event, MetricEvent, Rejected
from detectors.incident import Transition
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, READER, records

HEARTBEAT = "flinkwatch.heartbeat/0"
# Long enough for what is found by a deadline after the last record, and for all that waits.
AFTER_MS = 180_000
_LONGEST_MS = 150_000


class Arrived(NamedTuple):
    """One record: when it arrived, its partition, its Kafka timestamp and what is in it."""

    at: int
    partition: str
    timestamp: int
    events: list[Event]


@cache
def read(name: str) -> tuple[Arrived, ...]:
    """The records of a scenario, each as old as it is when it arrives."""
    found = [(r, READER.read(r)) for r in records(name)]
    return tuple(
        Arrived(r.timestamp, f"{r.topic}/{r.partition}", r.timestamp, [] if isinstance(e, Rejected) else e)
        for r, e in found
    )


def partitions(name: str) -> list[str]:
    """The partitions of a scenario."""
    return sorted({one.partition for one in read(name)})


def arrivals(name: str, lags: dict[str, int], known_for: int = 0) -> list[Arrived]:
    """In order of arrival, with a heartbeat a second; `lags` are ms by partition, and were seen `known_for` ms
    before."""
    first, last = min(a.timestamp for a in read(name)), max(a.timestamp for a in read(name))
    cluster = next(a.events[0].cluster for a in read(name) if a.events)
    found = [a._replace(at=a.at + lags.get(a.partition, 0)) for a in read(name)]
    for partition in partitions(name):
        lag = lags.get(partition, 0)
        seen = range(first - known_for, first, 1_000)
        found += [Arrived(at + lag, partition, at, [_nothing(cluster, partition, at)]) for at in seen]
    until = last + AFTER_MS + 2 * _LONGEST_MS
    found += [Arrived(at, HEARTBEAT, at, []) for at in range(first - known_for, until, 1_000)]
    return sorted(found, key=lambda a: a.at)


def _nothing(cluster: str, partition: str, at: int) -> MetricEvent:
    """A record that concerns no detector and only advances the clock."""
    topic, _, number = partition.rpartition("/")
    return MetricEvent(cluster, "probe", "", at, at, topic, int(number), -1, [])


def batches(arrived: list[Arrived], widths: Iterable[int]) -> Iterator[list[Arrived]]:
    """Cut into batches that are as many ms of the stream long as `widths` yields."""
    edge, batch = arrived[0].at, list[Arrived]()
    width = iter(widths)
    edge += next(width)
    for one in arrived:
        if one.at >= edge:
            yield batch
            batch = []
            while one.at >= edge:
                edge += next(width)
        batch.append(one)
    yield batch


def output(
    name: str, lags: dict[str, int] | None = None, widths: Iterable[int] = repeat(1_000), known_for: int = 0
) -> list[Transition]:
    """All transitions up to AFTER_MS after the last record of a scenario."""
    index, store = bucket.BucketIndex(published=PUBLISHED), MemoryStore()
    found: list[Transition] = []
    for batch in batches(arrivals(name, lags or {}, known_for), widths):
        if not batch:
            continue
        clocks: dict[str, int] = {}
        for one in batch:
            clocks[one.partition] = max(clocks.get(one.partition, 0), one.timestamp)
        events = [event for one in batch for event in one.events]
        step = bucket.step(index, store, events, min(clocks.values()), front=max(clocks.values()))
        assert step.defects == []
        found += step.transitions
    end = max(a.timestamp for a in read(name)) + AFTER_MS
    return [t for t in found if t.at < end]
