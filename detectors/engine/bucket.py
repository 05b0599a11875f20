"""One bucket of clusters: the unit of work of the stateful stage.

A bucket keeps a small index (its clock, the next deadline of each cluster, the configuration in force, counts of what
was rejected); the states of the clusters are fetched one by one from a store, only when touched or due.
"""

from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import NamedTuple, Protocol

import msgspec
from pydantic import ValidationError

from detectors.engine import bisect_failures, late_partitions
from detectors.engine import entries_cut as cut
from detectors.engine.bisect_failures import FailedEvent
from detectors.engine.engine import DroppedState, StateVersionError
from detectors.engine.engines import Configuration
from detectors.engine.entries_cut import EntriesCut
from detectors.engine.host_clock import HeartbeatClock
from detectors.engine.late_partitions import PartitionOrder, StreamClocks
from detectors.engine.not_understood import Recognition
from detectors.events.event import Event
from detectors.incident import Reading, Transition
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.silences import MAX_SILENCES, Silence
from detectors.settings.live import LiveSettings, PublishedConfiguration, PublishedSilence, settings_hash
from detectors.values.bounded import put_bounded

INDEX_VERSION = 1
# Clusters' clocks may lag: what has ended is forgotten only when no incident can still be under it.
_FORGET_SILENCE_MS = 86_400_000
# `flinkwatch tune` steps under two in turn.
_MAX_CONFIGURATIONS = 4
MAX_CLUSTERS = 1_000
"""In one bucket. Anybody who may write a topic can name clusters; each costs state, and series on the page."""


class Store(Protocol):
    """Where states of clusters are kept, as bytes."""

    def get(self, cluster: str) -> bytes | None:
        """The bytes, or None for a cluster not seen before."""

    def put(self, cluster: str, state: bytes) -> None:
        """Keep the bytes."""

    def remove(self, cluster: str) -> None:
        """Forget the cluster."""


class BucketIndex(msgspec.Struct):
    """What a bucket keeps beside its clusters; `rejected` counts by reason since the beginning.

    `silences` are those made on the command line, by id, and `silences_hash` names them. `cut` counts rows that were
    too large for their topic, and `recognised` what of the input is understood. `front` is how far the furthest
    partition has come, `orders` what clusters wait for, `beats` what is known of the driver's clock. `catching_up`
    tells that the last batch left records behind: what is read next may be late because of the reader.
    """

    version: int = INDEX_VERSION
    clock: int = 0
    dues: dict[str, int] = {}
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
    beats: HeartbeatClock = msgspec.field(default_factory=HeartbeatClock)
    catching_up: bool = False

    def go_back(self, clock: int) -> None:
        """The clock was driven ahead by a host whose own was wrong: it stands at `clock`, in every cluster."""
        self.clock, self.front = clock, clock
        self.counted_at = min(self.counted_at, clock)
        self.dues = dict.fromkeys(self.dues, 0)
        self.orders = {}

    def configure(self, published: PublishedConfiguration | None, silences: Iterable[PublishedSilence]) -> int:
        """Take over what was published, in order; if it is news, every cluster is stepped, due or not. The number of
        silences that are refused: there is no room for them.
        """
        before = self.config_hash(), self.silences_hash
        self.published = published or self.published
        refused = self._silence({s.silence["id"]: s for s in silences})
        made = msgspec.json.encode([*self.silences.values()], order="sorted")
        self.silences_hash = sha256(made).hexdigest()[:8] if self.silences else ""
        if before != (self.config_hash(), self.silences_hash):
            self.dues = dict.fromkeys(self.dues, 0)
        return refused

    def _silence(self, published: dict[str, PublishedSilence]) -> int:
        """Take over silences as far as there is room; the number of those that are refused."""
        known = {**self.silences, **published}
        known = {i: s for i, s in known.items() if s.ends() > self.clock - _FORGET_SILENCE_MS}
        if len(known) > MAX_SILENCES:
            known = {i: s for i, s in known.items() if s.ends() > self.clock}
        self.silences = dict(islice(known.items(), MAX_SILENCES))
        return len(known) - len(self.silences)

    def config_hash(self) -> str:
        """Names the settings in force."""
        return self.published.hash if self.published else _DEFAULT


class BucketOutput(NamedTuple):
    """What a step over a bucket says; `defects` are events lost to an error in a detector, `refused` those of clusters
    for which there is no room: how many, and the first of each; `dropped` are detectors' states that could not be read,
    `cut` the clusters that are too large to be kept whole.
    """

    transitions: list[Transition]
    readings: list[Reading]
    gone: list[str]
    defects: list[FailedEvent]
    refused: dict[str, tuple[int, Event]]
    dropped: list[DroppedState]
    cut: list[EntriesCut]


encode_index = msgspec.msgpack.Encoder().encode
_decode_index = msgspec.msgpack.Decoder(BucketIndex).decode


def decode_index(data: bytes) -> BucketIndex:
    """Bytes → index. Raises StateVersionError when another version wrote it."""
    try:
        index = _decode_index(data)
    except msgspec.MsgspecError as error:
        raise StateVersionError(f"this index of a bucket cannot be read: {error}") from error
    if index.version != INDEX_VERSION:
        raise StateVersionError(f"index of version {index.version}, this is flinkwatch with version {INDEX_VERSION}")
    return index


_configurations: dict[tuple[str, str, str], Configuration] = {}
_NO_ISSUES = IssueCatalogue()
_DEFAULT = settings_hash(LiveSettings())


def _configuration(index: BucketIndex, issues: IssueCatalogue) -> Configuration:
    """The configuration in force; built once in a process."""
    key = index.config_hash(), index.silences_hash, issues.hash
    found = _configurations.get(key)
    if found is None:
        live, silences = _read(index)
        found = Configuration(live, index.config_hash(), silences, issues)
        put_bounded(_configurations, key, found, _MAX_CONFIGURATIONS)
    return found


def _read(index: BucketIndex) -> tuple[LiveSettings, tuple[Silence, ...]]:
    """The settings and silences that a bucket keeps.

    Those of another version of flinkwatch are not in force: a batch that is run again after an upgrade may still have
    them, and the job publishes its own before the next one.
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
    """Fold `events` into their clusters and let the clock of the bucket run to `until`; changes `index` and `store`.

    `front` is how far the furthest partition has come; without it, and while a backlog is worked off, nothing is taken
    for late (`late_partitions.py`).
    """
    configuration = _configuration(index, issues)
    since, until = index.clock, max(until, index.clock)
    before = 0 if front is None or index.catching_up else index.front
    clocks = StreamClocks(until, before, max(index.front, front or 0, until))
    by_cluster: dict[str, list[Event]] = {
        c: [] for c, due in index.dues.items() if due <= until and due <= late_partitions.due(index.orders, c, clocks)
    }
    for event in events:
        by_cluster.setdefault(event.cluster, []).append(event)
    said = BucketOutput([], [], [], [], _refused(index, store, by_cluster), [], [])
    for cluster, own in by_cluster.items():
        taken = late_partitions.take(index.orders, cluster, own, clocks)
        _step(index, store, configuration, cluster, taken, since, said)
    index.clock, index.front = until, clocks.front
    return said


def _refused(index: BucketIndex, store: Store, by_cluster: dict[str, list[Event]]) -> dict[str, tuple[int, Event]]:
    """Take out the clusters beyond MAX_CLUSTERS that are new; those that are known stay."""
    new = [cluster for cluster in by_cluster if cluster not in index.dues]
    room = MAX_CLUSTERS - len(index.dues)
    # One that lost all its events to a defect is not in `dues`.
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
    said: BucketOutput,
) -> None:
    engine = configuration.engine(cluster)
    defects: list[FailedEvent] = []
    since = min(since, taken.until)
    stepped = bisect_failures.step(engine, cluster, store.get(cluster), taken.events, taken.until, since, defects)
    said.defects.extend(defects)
    waiting = late_partitions.next_waiting(index.orders, cluster)
    if stepped is None:
        # The cluster is asked again when its next event comes.
        index.dues.pop(cluster, None)
        if waiting is not None:
            index.dues[cluster] = waiting
        return
    state, encoded, result = stepped
    said.transitions.extend(result.transitions)
    said.dropped.extend(result.dropped)
    said.cut.extend(result.cut)
    if engine.over(state, taken.until):
        store.remove(cluster)
        for known in (index.dues, index.orders):
            known.pop(cluster, None)
        counted = [r.key() for r in cut.readings(cluster, state.topology.cut, taken.until)]
        said.gone.extend([*result.gone, *engine.said(state), *counted])
        return
    store.put(cluster, encoded)
    index.dues[cluster] = min(engine.due(state), waiting) if waiting is not None else engine.due(state)
    said.readings.extend(result.readings)
    said.gone.extend(result.gone)
