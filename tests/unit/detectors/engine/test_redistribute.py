"""Other buckets for the same clusters: no state is lost or doubled, and what follows is the same."""

from zlib import crc32

import msgspec
import pytest

from detectors.engine import bucket
from detectors.engine.bucket import BucketIndex
from detectors.engine.not_understood import Recognition, SourceSample, UnknownSource
from detectors.engine.redistribute import redistribute
from detectors.events.event import Event
from detectors.incident import Transition
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, events
from tests.unit.detectors.streams import in_order

CLUSTERS = ("a", "b", "d")
STREAM = in_order(events("late-barrier-acks"))
MIDDLE = len(STREAM) * 3 // 4  # an incident is open


def bucket_of(cluster: str, buckets: int) -> int:
    return crc32(cluster.encode()) % buckets


def several(batch: list[Event]) -> list[Event]:
    """The events of a batch in each of the clusters."""
    return [msgspec.structs.replace(event, cluster=cluster) for cluster in CLUSTERS for event in batch]


class Fleet:
    """Clusters in buckets, which share a store as the memory of a test does."""

    def __init__(self, buckets: int) -> None:
        self.indexes = {number: BucketIndex(published=PUBLISHED) for number in range(buckets)}
        self.store = MemoryStore()

    def step(self, batch: list[Event]) -> list[Transition]:
        until = max(event.timestamp for event in batch)
        found: list[Transition] = []
        for number, index in self.indexes.items():
            own = [e for e in several(batch) if bucket_of(e.cluster, len(self.indexes)) == number]
            index.records += len(own)
            found += bucket.step(index, self.store, own, until).transitions
        return sorted(found, key=lambda t: (t.incident, t.seq))

    def move(self, buckets: int) -> None:
        self.indexes = redistribute(self.indexes, buckets, lambda cluster: bucket_of(cluster, buckets))


@pytest.mark.parametrize(("before", "after"), [(1, 4), (3, 2)])
def test_what_follows_does_not_depend_on_the_buckets(before: int, after: int) -> None:
    stays, moves = Fleet(before), Fleet(before)
    assert stays.step(STREAM[:MIDDLE]) == moves.step(STREAM[:MIDDLE])
    moves.move(after)
    assert len(moves.indexes) == after
    expected = stays.step(STREAM[MIDDLE:])
    assert {t.cluster for t in expected} == set(CLUSTERS)
    assert moves.step(STREAM[MIDDLE:]) == expected
    assert sum(i.records for i in moves.indexes.values()) == sum(i.records for i in stays.indexes.values())


def index(number: int) -> BucketIndex:
    looked = SourceSample("logs", f"c{number}", "host", 10, 9, 1)
    return BucketIndex(
        clock=1_000 + number,
        deadlines={f"c{number}": 7, f"d{number}": 8},
        records=10**number,
        rejected={"not_json": 10**number},
        cut={"incidents": number},
        ignored={"metrics": {"histogram": number}},
        recognised=Recognition({"logs": (10**number, 1)}, {f"s{number}": UnknownSource(looked, 1, 2)}),
    )


@pytest.mark.parametrize("buckets", [1, 2, 4, 9])
def test_every_count_and_every_cluster_is_in_one_bucket(buckets: int) -> None:
    old = {number: index(number) for number in range(4)}
    new = redistribute(old, buckets, lambda cluster: bucket_of(cluster, buckets))
    assert sorted(new) == list(range(buckets))
    assert sum(i.records for i in new.values()) == 1111
    assert sum(i.rejected.get("not_json", 0) for i in new.values()) == 1111
    assert sum(i.cut.get("incidents", 0) for i in new.values()) == 6
    assert sum(i.ignored.get("metrics", {}).get("histogram", 0) for i in new.values()) == 6
    topics = [i.recognised.topics["logs"] for i in new.values() if i.recognised.topics]
    assert (sum(t[0] for t in topics), sum(t[1] for t in topics)) == (1111, 4)
    assert sorted(c for i in new.values() for c in i.deadlines) == sorted(c for i in old.values() for c in i.deadlines)
    for number, made in new.items():
        sources = [source.looked.cluster for source in made.recognised.sources.values()]
        assert {bucket_of(cluster, buckets) for cluster in [*made.deadlines, *sources]} <= {number}
        # Deadlines between the clocks must not be passed over.
        assert made.clock == 1_000


def test_counts_keep_the_number_of_their_bucket_as_long_as_it_exists() -> None:
    """The series of a counter has the bucket as a label, and a counter must not go back."""
    old = {number: index(number) for number in range(4)}
    more = redistribute(old, 6, lambda cluster: bucket_of(cluster, 6))
    assert [i.records for i in more.values()] == [1, 10, 100, 1000, 0, 0]
    assert [i.records for i in redistribute(old, 2, lambda c: bucket_of(c, 2)).values()] == [1101, 10]


def test_no_index_gives_none() -> None:
    assert redistribute({}, 3, lambda _: 0) == {}
