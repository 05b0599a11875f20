"""Other buckets for the same clusters: the indexes of an export become those of an import. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter

import msgspec

from detectors.engine.bucket import BucketIndex
from detectors.engine.not_understood import Recognition

BucketOf = Callable[[str], int]


def redistribute(indexes: Mapping[int, BucketIndex], buckets: int, bucket_of: BucketOf) -> dict[int, BucketIndex]:
    """The indexes of `buckets` buckets, given those of the previous ones. `bucket_of` gives a cluster's new bucket.

    Clocks, configuration and silences are the same in every bucket between two batches. A count stays with the number
    of its bucket, because its series has it as a label; counts of buckets that no longer exist are added to bucket 0.
    """
    if not indexes:
        return {}
    # If one is behind, the clusters of the others reach the time of their next batch with it.
    common = min(indexes.values(), key=attrgetter("clock"))
    made = {}
    for number in range(buckets):
        previous = [index for old, index in sorted(indexes.items()) if (old if old < buckets else 0) == number]
        made[number] = msgspec.structs.replace(
            common,
            deadlines={c: due for i in indexes.values() for c, due in i.deadlines.items() if bucket_of(c) == number},
            orders={c: order for i in indexes.values() for c, order in i.orders.items() if bucket_of(c) == number},
            records=sum(index.records for index in previous),
            rejected=_added(index.rejected for index in previous),
            cut=_added(index.cut for index in previous),
            ignored=_added_by_topic(previous),
            recognised=_recognised(indexes, previous, number, bucket_of),
        )
    return made


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for one in counts:
        total.update(one)
    return dict(total)


def _added_by_topic(previous: list[BucketIndex]) -> dict[str, dict[str, int]]:
    topics = {topic for index in previous for topic in index.ignored}
    return {topic: _added(index.ignored.get(topic, {}) for index in previous) for topic in sorted(topics)}


def _recognised(
    indexes: Mapping[int, BucketIndex], previous: list[BucketIndex], number: int, bucket_of: BucketOf
) -> Recognition:
    """A source goes where the samples of its cluster go."""
    topics: dict[str, tuple[int, int]] = {}
    for topic, (understood, missed) in ((t, c) for index in previous for t, c in index.recognised.topics.items()):
        before = topics.get(topic, (0, 0))
        topics[topic] = before[0] + understood, before[1] + missed
    sources = {
        name: source
        for index in indexes.values()
        for name, source in index.recognised.sources.items()
        if bucket_of(source.looked.cluster) == number
    }
    return Recognition(topics, sources)
