"""Second stage, on executors: packed events → output of the engine, with the state of each cluster in RocksDB.

The key is a bucket of clusters. Each bucket has an index (one value) and the states of its clusters (a map), both as
msgpack bytes whose version the engine checks. Spark's own schema evolution would cost half as much again.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import structlog
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from detectors.engine import bucket
from detectors.engine.fold import DroppedState
from detectors.events.event import Event
from detectors.events.vocabulary import flinkwatch_itself
from detectors.incident import Reading
from sinks.prometheus.reading_metrics import CANARY
from streaming.configuration.known_issues import IssueFile, in_force
from streaming.gc_pause import gc_paused
from streaming.job.batch_limit import is_full
from streaming.job.checkpoint.imported_state import read_bucket
from streaming.job.checkpoint.rebuild_plan import NO_PLAN, RebuildPlan
from streaming.job.outlet import MAX_ROW_BYTES, Outlet, OutputRow
from streaming.job.rows import DeadLetter, Packed, decode_packed, event_letter
from streaming.job.spark.troubles import extent, naming
from streaming.job.stream_clock import read_up_to

_COUNTERS_EVERY_MS = 15_000
_MAX_REFUSED = 10
_NO_ROOM = "too_many_clusters"

log = structlog.get_logger()


class OutputTopics(msgspec.Struct, frozen=True):
    """The output topics, and the maximum size of a row's key and value in bytes."""

    incidents: str
    readings: str
    rejected: str
    limit: int = MAX_ROW_BYTES


class BucketProcessor(StatefulProcessor):
    """Processes the batches of buckets. Spark creates one for every task and batch, so it keeps no state itself.

    `issues` are the site's own files of known issues, which executors cannot read themselves.
    """

    def __init__(
        self,
        topics: OutputTopics,
        plan: RebuildPlan = NO_PLAN,
        max_offsets: int = 1 << 62,
        issues: tuple[IssueFile, ...] = (),
    ) -> None:
        self._topics = topics
        self._plan = plan
        self._max_offsets = max_offsets
        self._issues = issues

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._index = handle.getValueState("index", "data binary")
        self._clusters = handle.getMapState("clusters", "cluster string", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803 - Spark's names
        packed: list[Packed[Event]] = []
        with gc_paused(), naming("watch", lambda: f"bucket {key[0]} with {_extent(packed)}"):
            packed += [decode_packed(row.packed) for row in rows]
            yield from self._step(key[0], packed)

    def close(self) -> None:
        """Do nothing, since no resource is held."""

    def _step(self, number: int, packed: list[Packed[Event]]) -> Iterator[Row]:
        stored = self._stored(number)
        index = bucket.decode_index(stored) if stored is not None else bucket.BucketIndex()
        before = bucket.encode_index(index)
        _configure(index, number, packed)
        events = [event for p in packed for event in p.events]
        until, front = read_up_to(index, packed)
        result = bucket.step(index, _SparkStore(self._clusters), events, until, in_force(self._issues), front)
        index.catching_up = is_full(sum(p.offsets for p in packed), self._max_offsets)
        outlet = Outlet(self._topics.limit)
        for transition in self._plan.unwritten(result.transitions):
            yield from self._rows(self._topics.incidents, outlet.transition(transition))
        letters = [letter for p in packed for letter in p.rejected]
        letters += [event_letter(d.event, d.error) for d in result.defects]
        for one in result.cut:
            log.warning("state of a cluster was cut", cluster=one.cluster, what=one.what, cut=one.number)
        letters += [_dropped_letter(d) for d in result.dropped] + _refused(index, result.refused)
        letters += _counted(index, outlet, letters)
        index.records += sum(p.records for p in packed)
        _ignore(index, packed)
        left = index.recognised.fold((one for p in packed for one in p.looked), index.clock)
        readings = result.readings + _counters(index, number, bool(letters))
        if sent := max((p.canary for p in packed), default=0):
            labels = {"cluster": flinkwatch_itself.CLUSTER}
            readings.append(Reading(name=CANARY, labels=labels, value=sent / 1000, at=index.clock))
        for reading in readings:
            yield from self._rows(self._topics.readings, outlet.reading(reading))
        for gone in result.removed + left:
            yield from self._rows(self._topics.readings, outlet.gone(gone))
        letters += _counted(index, outlet, [])
        for letter in letters:
            yield from self._rows(self._topics.rejected, outlet.letter(letter))
        _counted(index, outlet, [])
        after = bucket.encode_index(index)
        if after != before:
            self._index.update((after,))

    def _stored(self, number: int) -> bytes | None:
        """The encoded index of the bucket. In a new checkpoint, imported state becomes the bucket's."""
        stored = self._index.get()
        if stored is not None:
            return bytes(stored[0])
        imported = read_bucket(self._plan.state, number)
        if imported is None:
            return None
        for cluster, state in imported.clusters.items():
            self._clusters.updateValue((cluster,), (state,))
        self._index.update((imported.index,))
        return imported.index

    def _rows(self, topic: str, sent: OutputRow | None) -> Iterator[Row]:
        if sent is not None:
            yield Row(topic=topic, key=sent.key, value=sent.value)


class _SparkStore:
    """Implements `bucket.Store` with Spark's MapState."""

    def __init__(self, clusters: Any) -> None:
        self._clusters = clusters

    def get(self, cluster: str) -> bytes | None:
        found = self._clusters.getValue((cluster,))
        return bytes(found[0]) if found is not None else None

    def put(self, cluster: str, state: bytes) -> None:
        self._clusters.updateValue((cluster,), (state,))

    def remove(self, cluster: str) -> None:
        self._clusters.removeKey((cluster,))


def _configure(index: bucket.BucketIndex, number: int, packed: list[Packed[Event]]) -> None:
    """Apply new configuration at the start of a batch, before its events."""
    # The topic has one partition, so a single task has read its records in order.
    published = next((p.published for p in packed if p.published is not None), None)
    silences = [s for p in packed for s in p.silences]
    index.resolve(asked for p in packed for asked in p.resolutions)
    if published is None and not silences:
        return
    refused = index.configure(published, silences)
    if refused and number == 0:
        # Every bucket refuses the same silences, so one bucket counts them.
        index.rejected["too_many_silences"] = index.rejected.get("too_many_silences", 0) + refused


def _extent(packed: list[Packed[Event]]) -> str:
    return extent((e.topic, e.partition, e.offset) for p in packed for e in p.events)


def _counted(index: bucket.BucketIndex, outlet: Outlet, letters: list[DeadLetter]) -> list[DeadLetter]:
    """Count the letters and the rows that the outlet has cut. Returns the outlet's own letters, also counted."""
    own, cut = outlet.taken()
    for letter in letters + own:
        index.rejected[letter.reason] = index.rejected.get(letter.reason, 0) + 1
    for kind, number in cut.items():
        index.cut[kind] = index.cut.get(kind, 0) + number
    return own


def _ignore(index: bucket.BucketIndex, packed: list[Packed[Event]]) -> None:
    """Add up what the tasks have passed over. Topics and reasons are few, because both are named in the program."""
    for topic, reason, count in ((t, r, n) for p in packed for t, by in p.ignored.items() for r, n in by.items()):
        counts = index.ignored.setdefault(topic, {})
        counts[reason] = counts.get(reason, 0) + count


def _counters(index: bucket.BucketIndex, number: int, now: bool) -> list[Reading]:
    """The bucket's counters since the beginning: every few seconds, or at once if a record was rejected."""
    if not now and index.clock - index.counted_at < _COUNTERS_EVERY_MS:
        return []
    index.counted_at = index.clock
    counts: list[tuple[str, dict[str, str], int]] = [("records_read_total", {}, index.records)] if index.records else []
    counts += [("records_rejected_total", {"reason": r}, n) for r, n in sorted(index.rejected.items())]
    counts += [("outputs_cut_total", {"topic": kind}, n) for kind, n in sorted(index.cut.items())]
    counts += [
        ("entries_ignored_total", {"topic": topic, "reason": reason}, count)
        for topic, by_reason in sorted(index.ignored.items())
        for reason, count in sorted(by_reason.items())
    ]
    readings = [
        Reading(name=name, labels={**labels, "bucket": str(number)}, value=float(value), at=index.clock, type="counter")
        for name, labels, value in counts
    ]
    readings += index.recognised.readings({"bucket": str(number)}, index.clock)
    readings += [
        Reading(name="cluster_waits_seconds", labels={"cluster": c}, value=order.wait() / 1000, at=index.clock)
        for c, order in index.orders.items()
        if order.lags
    ]
    # The index is a row itself.
    rows, clock = float(len(index.deadlines) + 1), index.clock / 1000
    readings.append(Reading(name="state_rows", labels={"bucket": str(number)}, value=rows, at=index.clock))
    if number == 0 and clock:
        # All buckets have the same clock, since every batch brings it to each of them.
        readings.append(Reading(name="stream_time_timestamp_seconds", labels={}, value=clock, at=index.clock))
        wrong = index.heartbeat_clock.wrong / 1000
        readings.append(Reading(name="clock_host_ahead_seconds", labels={}, value=wrong, at=index.clock))
    return readings


def _dropped_letter(dropped: DroppedState) -> DeadLetter:
    """The dead letter of dropped state, without the state itself, which could not be read."""
    body = {"reason": "unreadable_state", "detail": dropped.error, "cluster": dropped.cluster, "detector": dropped.kind}
    return DeadLetter("unreadable_state", f"{dropped.cluster}/{dropped.kind}".encode(), msgspec.json.encode(body))


def _refused(index: bucket.BucketIndex, refused: dict[str, tuple[int, Event]]) -> list[DeadLetter]:
    """Count the events of clusters beyond the limit, and return a dead letter for each of the first of them."""
    kept = list(refused.items())[:_MAX_REFUSED]
    count = sum(number for number, _ in refused.values()) - len(kept)
    if count:
        index.rejected[_NO_ROOM] = index.rejected.get(_NO_ROOM, 0) + count
    if refused:
        names = [cluster for cluster, _ in kept]
        log.warning("too many clusters in one bucket", clusters=len(refused), first=names, events=count + len(kept))
    detail = f"more than {bucket.MAX_CLUSTERS} clusters in this bucket"
    return [event_letter(event, f"{detail}: {cluster}", _NO_ROOM) for cluster, (_, event) in kept]
