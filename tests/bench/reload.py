"""What a reload costs: the time of a batch that brings another configuration, beside batches that bring none.

32 buckets, 50 clusters of 10 jobs, on one core without Spark: decode the index, configure, step, encode. CPU time,
since other work would be in any other. Batches of the same events come in turn, one in two with a change.
"""

import time
from collections.abc import Iterator
from statistics import median

import msgspec

from detectors.engine import bucket
from detectors.events.event import Event, Sample
from detectors.incidents.silences import at
from detectors.settings.live import PublishedConfiguration
from streaming.job.rows import bucket_of
from streaming.recordings.replay import MemoryStore
from tests.unit.detectors.changes import live
from tests.unit.detectors.streams import START, log, page

_BUCKETS = 32
_CLUSTERS = 50
_JOBS = 10
_ROUNDS = 24
_BATCH_MS = 5_000


def _overrides() -> list[dict[str, object]]:
    return [{"job": f"orders-{n}*", "detectors": {"checkpoint_overdue": {"factor": 2.0 + n}}} for n in range(20)]


def _silences() -> list[dict[str, object]]:
    until = at(START + 10**9)
    return [{"job": f"nobody-{n}", "until": until, "author": "ann", "comment": f"number {n}"} for n in range(500)]


def _batch(cluster: str, number: int) -> Iterator[Event]:
    """Five seconds of one cluster: a scrape of two TaskManagers, and one checkpoint of one of its jobs."""
    now = number * _BATCH_MS
    for job in range(_JOBS):
        ids = {"job_id": f"{job:032x}", "job_name": f"orders-{job}"}
        for tm in ("tm_1", "tm_2"):
            labels = {**ids, "tm_id": tm, "task_id": "e" * 32, "task_name": "map", "subtask_index": "0"}
            names = ("busy_time", "backpressured_time", "records_in", "in_pool_usage")
            samples = [Sample(name, labels, float(number * 100 % 900)) for name in names]
            yield msgspec.structs.replace(page(now, samples, job), cluster=cluster)
    job = {"job": f"{number % _JOBS:032x}"}
    lines = [log("checkpoint_triggered", now, number, checkpoint=str(number), epoch=str(START + now), **job)]
    done = {"duration": str(900 + number % 7 * 50), "bytes": "1000"}
    lines.append(log("checkpoint_completed", now + 1_000, number, checkpoint=str(number), **done, **job))
    if number == 0:
        for n in range(_JOBS):
            fields = {"job": f"{n:032x}", "name": f"orders-{n}", "state": "RUNNING"}
            lines.append(log("job_state", now, n, **fields))
    for line in lines:
        yield msgspec.structs.replace(line, cluster=cluster)


class _Fleet:
    """All buckets of the clusters."""

    def __init__(self, published: PublishedConfiguration) -> None:
        self._indexes = [bucket.encode_index(bucket.BucketIndex(published=published))] * _BUCKETS
        self._stores = [MemoryStore() for _ in range(_BUCKETS)]

    def take(self, number: int, change: PublishedConfiguration | None) -> float:
        """CPU seconds for one batch."""
        batches: list[list[Event]] = [[] for _ in range(_BUCKETS)]
        for name in (f"cluster-{n}" for n in range(_CLUSTERS)):
            batches[bucket_of(name, _BUCKETS)] += _batch(name, number)
        begun = time.process_time()
        for n, events in enumerate(batches):
            index = bucket.decode_index(self._indexes[n])
            if change is not None:
                index.configure(change, ())
            said = bucket.step(index, self._stores[n], events, START + (number + 1) * _BATCH_MS)
            assert not said.defects, said.defects
            self._indexes[n] = bucket.encode_index(index)
        return time.process_time() - begun


def main() -> None:
    """Print a line for each kind of configuration."""
    for name, sections in {
        "thresholds": {},
        "20 overrides by job": {"overrides": _overrides()},
        "20 overrides by job, 500 silences": {"overrides": _overrides(), "silences": _silences()},
    }.items():
        one, other = (live({"restart_loop": {"count": count}}, **sections) for count in (3, 4))
        fleet = _Fleet(one)
        for number in range(3 * _JOBS):
            fleet.take(number, None)
        plain, changed = [], []
        for round_ in range(_ROUNDS):
            number = 3 * _JOBS + 2 * round_
            plain.append(fleet.take(number, None) * 1000)
            changed.append(fleet.take(number + 1, (other, one)[round_ % 2]) * 1000)
        extra = median(changed) - median(plain)
        print(
            f"{name:36} without {median(plain):6.1f} ms, with {median(changed):6.1f} ms, "
            f"extra {extra:5.1f} ms, worst of {_ROUNDS} {max(changed) - median(plain):5.1f} ms"
        )


if __name__ == "__main__":
    main()
