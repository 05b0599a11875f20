"""One bucket of clusters, the unit of work of the stateful stage.

A bucket keeps a small index: its clock, the next deadline of each cluster, the configuration in force, and counts of
rejected records. The state of a cluster is fetched from a store only if it has events or a deadline.
"""

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from itertools import dropwhile, islice
from typing import NamedTuple, Protocol

import msgspec
from pydantic import ValidationError

from detectors.engine import bisect_failures, late_partitions
from detectors.engine import entries_cut as cut
from detectors.engine.bisect_failures import FailedEvent
from detectors.engine.engine import Engine
from detectors.engine.engines import Configuration
from detectors.engine.entries_cut import EntriesCut
from detectors.engine.fold import DroppedState, MayWait, arrival, resolve
from detectors.engine.host_clock import HeartbeatClock
from detectors.engine.late_partitions import PartitionOrder, StreamClocks
from detectors.engine.not_understood import Recognition
from detectors.engine.state import StateVersionError, decode_state, encode_state
from detectors.events.event import Event, MetricEvent
from detectors.events.vocabulary.container_metrics import only_containers
from detectors.incident import Reading, Transition
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.silences import MAX_SILENCES, Silence
from detectors.settings.live import (
    LiveSettings,
    PublishedConfiguration,
    PublishedResolution,
    PublishedSilence,
    settings_hash,
)
from detectors.values.bounded import put_bounded
from detectors.values.decoding import UndecodableError
from detectors.values.stored_format import StoredFormat

INDEX_VERSION = 2
# Clocks of clusters may lag, so an expired silence is kept until no incident can still be silenced by it.
_FORGET_SILENCE_MS = 86_400_000
# `flinkwatch tune` alternates between two configurations.
_MAX_CONFIGURATIONS = 4
MAX_CLUSTERS = 1_000
"""Limit for one bucket. Any producer can invent cluster names, and each cluster costs state and metrics."""


class Store(Protocol):
    """Where the encoded states of clusters are kept."""

    def get(self, cluster: str) -> bytes | None:
        """The state of a cluster, None if it is new."""

    def put(self, cluster: str, state: bytes) -> None:
        """Set the state of a cluster."""

    def remove(self, cluster: str) -> None:
        """Delete the state of a cluster."""


class BucketIndex(msgspec.Struct, tag_field="version", tag=INDEX_VERSION):
    """What a bucket keeps in addition to the states of its clusters.

    `rejected` counts rejected records by reason since the beginning. `silences` are those added on the command line,
    by ID, and `silences_hash` is their hash. `cut` counts rows that were too large for their topic, and `recognised`
    counts understood records. `ignored` counts entries of collectors' records that are passed over, by topic and
    reason. `front` is the time that the most advanced partition has reached, `orders` the late partitions that clusters
    wait for and the waiting events, and `heartbeat_clock` the state of the driver's clock.
    `resolutions` are the incidents to end in the next step, by cluster.
    `catching_up` is set if the last batch left records unread: the next records may then be late because of the reader.
    """

    clock: int = 0
    deadlines: dict[str, int] = {}
    published: PublishedConfiguration | None = None
    records: int = 0
    rejected: dict[str, int] = {}
    counted_at: int = 0
    silences: dict[str, PublishedSilence] = {}
    silences_hash: str = ""
    cut: dict[str, int] = {}
    recognised: Recognition = msgspec.field(default_factory=Recognition)
    front: int = 0
    orders: dict[str, PartitionOrder] = {}
    heartbeat_clock: HeartbeatClock = msgspec.field(default_factory=HeartbeatClock)
    catching_up: bool = False
    ignored: dict[str, dict[str, int]] = {}
    resolutions: dict[str, list[PublishedResolution]] = {}

    def go_back(self, clock: int) -> None:
        """Set the clock of every cluster back to `clock`, because a host with a wrong clock had driven it ahead."""
        self.clock, self.front = clock, clock
        self.counted_at = min(self.counted_at, clock)
        self.deadlines = dict.fromkeys(self.deadlines, 0)
        # Lags were measured with the wrong clock. Waiting events are taken with the next step.
        self.orders = {c: PartitionOrder(waiting=o.waiting) for c, o in self.orders.items() if o.waiting}

    def configure(self, published: PublishedConfiguration | None, silences: Iterable[PublishedSilence]) -> int:
        """Apply what was published; if it changes anything, every cluster is stepped in the next step.

        Returns the number of silences that were refused because there are too many.
        """
        before = self.config_hash(), self.silences_hash
        self.published = published or self.published
        refused = self._silence({s.silence["id"]: s for s in silences})
        made = msgspec.json.encode([*self.silences.values()], order="sorted")
        self.silences_hash = sha256(made).hexdigest()[:8] if self.silences else ""
        if before != (self.config_hash(), self.silences_hash):
            self.deadlines = dict.fromkeys(self.deadlines, 0)
        return refused

    def _silence(self, published: dict[str, PublishedSilence]) -> int:
        """Add silences up to the limit; returns the number of refused ones."""
        known = {**self.silences, **published}
        known = {i: s for i, s in known.items() if s.ends() > self.clock - _FORGET_SILENCE_MS}
        if len(known) > MAX_SILENCES:
            known = {i: s for i, s in known.items() if s.ends() > self.clock}
        self.silences = dict(islice(known.items(), MAX_SILENCES))
        return len(known) - len(self.silences)

    def resolve(self, asked: Iterable[PublishedResolution]) -> None:
        """End incidents of this bucket's clusters in the next step."""
        for one in asked:
            self.resolutions.setdefault(one.last.cluster, []).append(one)

    def config_hash(self) -> str:
        """The hash of the settings in force."""
        return self.published.hash if self.published else _DEFAULT


class BucketOutput(NamedTuple):
    """The output of a step over a bucket.

    `removed` are the keys of readings that end. `defects` are events lost to an error in a detector. `refused` has for
    each cluster beyond the limit the number of its events and the first of them. `dropped` are detector states that
    could not be read, `cut` the clusters that are too large to be kept completely.
    """

    transitions: list[Transition]
    readings: list[Reading]
    removed: list[str]
    defects: list[FailedEvent]
    refused: dict[str, tuple[int, Event]]
    dropped: list[DroppedState]
    cut: list[EntriesCut]


encode_index = msgspec.msgpack.Encoder().encode
INDEX_FORMAT = StoredFormat("the index of a bucket", BucketIndex, msgspec.msgpack)


def decode_index(data: bytes) -> BucketIndex:
    """Decode an index. Raises StateVersionError if it is damaged or of a version that cannot be migrated."""
    try:
        return INDEX_FORMAT.decode(data)
    except msgspec.MsgspecError as error:
        raise StateVersionError(f"the index of a bucket cannot be read: {error}") from error
    except UndecodableError as error:
        raise StateVersionError(str(error)) from error


_configurations: dict[tuple[str, str, str], Configuration] = {}
_NO_ISSUES = IssueCatalogue()
_DEFAULT = settings_hash(LiveSettings())


def _configuration(index: BucketIndex, issues: IssueCatalogue) -> Configuration:
    """The configuration in force, built once per process."""
    key = index.config_hash(), index.silences_hash, issues.hash
    found = _configurations.get(key)
    if found is None:
        live, silences = _read(index)
        found = Configuration(live, index.config_hash(), silences, issues)
        put_bounded(_configurations, key, found, _MAX_CONFIGURATIONS)
    return found


def _read(index: BucketIndex) -> tuple[LiveSettings, tuple[Silence, ...]]:
    """The settings and silences that a bucket keeps, or the defaults if another version of flinkwatch wrote them.

    A batch that is repeated after an upgrade may still have them. The job publishes its own before the next batch.
    """
    try:
        live = index.published.live() if index.published else LiveSettings()
        return live, tuple(s.read() for s in index.silences.values())
    except ValidationError:
        return LiveSettings(), ()


def step(
    index: BucketIndex,
    store: Store,
    events: Iterable[Event],
    until: int,
    issues: IssueCatalogue = _NO_ISSUES,
    front: int | None = None,
) -> BucketOutput:
    """Fold `events` into their clusters and advance the bucket's clock to `until`; changes `index` and `store`.

    `front` is the time that the most advanced partition has reached. Without it, and while a backlog is read, no event
    counts as late or waits (`late_partitions.py`).
    """
    configuration = _configuration(index, issues)
    since, until = index.clock, max(until, index.clock)
    before = 0 if front is None or index.catching_up else index.front
    clocks = StreamClocks(until, before, max(index.front, front or 0, until))
    by_cluster: dict[str, list[Event]] = {
        c: []
        for c, due in index.deadlines.items()
        if due <= until and due <= late_partitions.cluster_clock(index.orders, c, clocks)
    }
    for event in events:
        by_cluster.setdefault(event.cluster, []).append(event)
    _drop_strangers(index, store, by_cluster)
    output = BucketOutput([], [], [], [], _refused(index, store, by_cluster), [], [])
    asked, index.resolutions = index.resolutions, {}
    for cluster, resolutions in asked.items():
        at = min(since, late_partitions.cluster_clock(index.orders, cluster, clocks))
        if _resolve(store, configuration.engine(cluster), cluster, resolutions, at, output):
            by_cluster.setdefault(cluster, [])
    for cluster, own in by_cluster.items():
        taken = late_partitions.take(index.orders, cluster, own, clocks)
        may_wait = partial(late_partitions.may_wait, index.orders, clocks)
        _step(index, store, configuration, cluster, taken, since, may_wait, output)
    index.clock, index.front = until, clocks.front
    return output


def _resolve(
    store: Store, engine: Engine, cluster: str, asked: list[PublishedResolution], at: int, output: BucketOutput
) -> bool:
    """End incidents before the cluster's events are folded, so that no failing event undoes it.

    False if the cluster was forgotten.
    """
    before = store.get(cluster)
    state = engine.new_state() if before is None else decode_state(before)
    output.transitions.extend(resolve(engine, cluster, state, asked, at))
    if before is not None:
        store.put(cluster, encode_state(state))
    return before is not None


def _drop_strangers(index: BucketIndex, store: Store, by_cluster: dict[str, list[Event]]) -> None:
    """Drop what comes about containers before the first line or metric of Flink: a container makes no cluster."""
    for cluster in [c for c, own in by_cluster.items() if c not in index.deadlines and any(map(_of_containers, own))]:
        if store.get(cluster) is None:
            by_cluster[cluster] = [*dropwhile(_of_containers, sorted(by_cluster[cluster], key=arrival))]
            if not by_cluster[cluster]:
                del by_cluster[cluster]


def _of_containers(event: Event) -> bool:
    return isinstance(event, MetricEvent) and only_containers(event.samples)


def _refused(index: BucketIndex, store: Store, by_cluster: dict[str, list[Event]]) -> dict[str, tuple[int, Event]]:
    """Take out new clusters beyond MAX_CLUSTERS; known clusters stay."""
    new = [cluster for cluster in by_cluster if cluster not in index.deadlines]
    room = MAX_CLUSTERS - len(index.deadlines)
    # A cluster that lost all its events to a defect is not in `deadlines`.
    unknown = [cluster for cluster in new if store.get(cluster) is None] if len(new) > room else []
    found: dict[str, tuple[int, Event]] = {}
    for cluster in unknown[max(room, 0) :]:
        events = by_cluster.pop(cluster)
        found[cluster] = len(events), events[0]
    return found


def _step(
    index: BucketIndex,
    store: Store,
    configuration: Configuration,
    cluster: str,
    taken: late_partitions.ReadyEvents,
    since: int,
    may_wait: MayWait,
    output: BucketOutput,
) -> None:
    engine = configuration.engine(cluster)
    defects: list[FailedEvent] = []
    since, before = min(since, taken.until), store.get(cluster)
    stepped = bisect_failures.step(engine, cluster, before, taken.events, taken.until, since, defects, may_wait)
    output.defects.extend(defects)
    if stepped is not None:
        late_partitions.keep_waiting(index.orders, cluster, stepped.output.waiting)
    waiting = late_partitions.next_waiting(index.orders, cluster)
    if stepped is None:
        # The cluster is stepped again when its next event arrives.
        index.deadlines.pop(cluster, None)
        if waiting is not None:
            index.deadlines[cluster] = waiting
        return
    state, encoded, result = stepped
    output.transitions.extend(result.transitions)
    output.dropped.extend(result.dropped)
    output.cut.extend(result.cut)
    if engine.is_expired(state, taken.until) and waiting is None:
        store.remove(cluster)
        for known in (index.deadlines, index.orders):
            known.pop(cluster, None)
        counted = [r.key() for r in cut.readings(cluster, state.topology.cut, taken.until)]
        output.removed.extend([*result.removed, *state.reading_keys(), *counted])
        return
    store.put(cluster, encoded)
    index.deadlines[cluster] = min(engine.next_step(state), waiting) if waiting is not None else engine.next_step(state)
    output.readings.extend(result.readings)
    output.removed.extend(result.removed)
