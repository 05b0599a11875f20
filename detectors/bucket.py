"""One bucket of clusters: the unit of work of the stateful stage.

A bucket keeps a small index (its clock, the next deadline of each cluster, the configuration in force, counts of what
was rejected); the states of the clusters are fetched one by one from a store, only when touched or due.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from detectors.engine import ClusterState, Engine, decode_state, encode_state
from detectors.events.event import Event
from detectors.incidents.incident import Reading, Transition
from detectors.incidents.known_issues import Issues
from detectors.settings import DetectorSettings, Published


class Store(Protocol):
    """Where states of clusters are kept, as bytes."""

    def get(self, cluster: str) -> bytes | None:
        """The bytes, or None for a cluster not seen before."""

    def put(self, cluster: str, state: bytes) -> None:
        """Keep the bytes."""

    def remove(self, cluster: str) -> None:
        """Forget the cluster."""


class Index(msgspec.Struct):
    """What a bucket keeps beside its clusters; `rejected` counts by reason since the beginning."""

    version: int = 1
    clock: int = 0
    dues: dict[str, int] = {}
    published: Published | None = None
    records: int = 0
    rejected: dict[str, int] = {}
    counted_at: int = 0


class Defect(NamedTuple):
    """An event that a detector could not take: the error, in one line."""

    event: Event
    error: str


class Said(NamedTuple):
    """What a step over a bucket says; `defects` are events lost to an error in a detector."""

    transitions: list[Transition]
    readings: list[Reading]
    gone: list[str]
    defects: list[Defect]


encode_index = msgspec.msgpack.Encoder().encode
decode_index = msgspec.msgpack.Decoder(Index).decode

_engines: dict[tuple[str, str], Engine] = {}
_NO_ISSUES = Issues()


def _engine(published: Published | None, issues: Issues) -> Engine:
    """The engine of a configuration; built once in a process."""
    key = (published.hash if published else "", issues.hash)
    engine = _engines.get(key)
    if engine is None:
        _engines.clear()
        settings: Any = DetectorSettings.model_validate(published.detectors if published else {})
        engine = _engines[key] = Engine(settings, issues)
    return engine


def step(index: Index, store: Store, events: Iterable[Event], until: int, issues: Issues = _NO_ISSUES) -> Said:
    """Fold `events` into their clusters and let the clock of the bucket run to `until`; changes `index` and `store`."""
    engine = _engine(index.published, issues)
    until = max(until, index.clock)
    by_cluster: dict[str, list[Event]] = {c: [] for c, due in index.dues.items() if due <= until}
    for event in events:
        by_cluster.setdefault(event.cluster, []).append(event)
    said = Said([], [], [], [])
    for cluster, own in by_cluster.items():
        data = store.get(cluster)
        state = decode_state(data) if data is not None else ClusterState()
        try:
            result = engine.step(cluster, state, own, until)
            encoded = encode_state(state)
        except Exception as error:  # noqa: BLE001
            # The outer edge: an error in a detector must not stop the stream, nor touch the state of this or any other
            # cluster. The events are kept with the error, and the cluster is asked again when its next one comes.
            index.dues.pop(cluster, None)
            said.defects.extend(Defect(event, f"{type(error).__name__}: {error}") for event in own)
            continue
        said.transitions.extend(result.transitions)
        if engine.over(state, until):
            store.remove(cluster)
            index.dues.pop(cluster, None)
            said.gone.extend([*result.gone, *engine.said(state)])
            continue
        store.put(cluster, encoded)
        index.dues[cluster] = engine.due(state)
        said.readings.extend(result.readings)
        said.gone.extend(result.gone)
    index.clock = until
    return said
