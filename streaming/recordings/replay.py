"""`flinkwatch replay`: runs recorded Kafka records and log files through the engine without Spark.

`inputs.py` recognises the type of a file by its content. Records are processed in order of arrival, one second of the
stream's clock at a time, as in the live job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from detectors.engine import bucket
from detectors.engine.engine import SECOND_MS
from detectors.engine.late_partitions import BOUND_MS
from detectors.engine.state import ClusterState, decode_state, encode_state
from detectors.events.event import Event, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary import flinkwatch_itself
from detectors.flink.topology import Topology
from detectors.incident import Reading, Transition
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.shared_resources import REPEAT_MS, SharedTroubles
from detectors.settings.live import PublishedConfiguration, PublishedSilence, read_change
from detectors.values.decoding import UndecodableError
from streaming.configuration.known_issues import shipped
from streaming.errors import RecordingError
from streaming.recordings.inputs import InputFiles
from streaming.recordings.recording import is_recording, records_of

TRIGGER_MS = 1_000
ONE_CLUSTER_BATCH_MS = 10_000
"""The transitions of one cluster do not depend on how long a batch is, and each batch has fixed costs."""
# In the live job, the heartbeat advances the clock. A log often ends with what killed its process, and detectors wait a
# little for the reason, or for an orderly exit, before they report it.
AFTER_MS = 5_000
_READER = Reader(Identity(), frozenset())

Arrived = tuple[int, Record | None, list[Event] | Rejected]
"""The stream's clock, a record, and the events or the rejection read from it; without a record only the clock."""


def load(paths: Iterable[Path], logs_topic: str, metrics_topic: str) -> list[Record]:
    """All records of the files in order of arrival. Raises RecordingError."""
    paths = list(paths)
    if len(paths) == 1 and is_recording(paths[0]):
        return list(records_of(paths[0]))
    reader = Reader(Identity(), frozenset({metrics_topic}))
    arrivals = InputFiles(paths, reader, (logs_topic, metrics_topic)).arrivals(every=True)
    return [a.record for a in arrivals if a.record is not None]


def run(
    arrived: Iterable[Arrived],
    published: PublishedConfiguration,
    config_topic: str,
    *,
    versions: Mapping[str, str] | None = None,
    after_ms: int = AFTER_MS,
    issues: IssueCatalogue | None = None,
    one_cluster_ms: int = TRIGGER_MS,
    measured: Callable[[list[Reading]], None] = lambda _: None,
) -> Iterator[Transition]:
    """The transitions of arriving records, which are processed one at a time.

    A record of `config_topic` applies to all records after it, as in the job. The clock advances by `after_ms` after
    the last record. `versions` are the Flink versions of clusters that are known from the beginning; `issues` are the
    known issues if they are not only the shipped ones. A batch has `one_cluster_ms` until a second cluster is met: what
    several clusters report about a shared resource is read with the next batch. `measured` gets the readings of each
    step.
    """
    index = bucket.BucketIndex(published=published)
    store = MemoryStore(versions)
    driver = _Driver(partial(step, index, store, issues=issues, measured=measured), one_cluster_ms)
    process = driver.step
    events: list[Event] = []
    limit = last = None
    changed = False
    for clock, record, found in arrived:
        if record is not None and record.topic == config_topic:
            if limit is not None and last is not None:
                yield from process(events, last, last)
            _configure(index, record)
            events, limit, changed = [], None, True
            continue
        if limit is not None and last is not None and clock >= limit:
            yield from process(events, last, last)
            events, limit = [], None
        if limit is None:
            limit = clock + driver.batch_ms
        last, changed = clock, False
        read = [] if isinstance(found, Rejected) else found
        events += read
        if driver.meets_others(read):
            limit = clock
    if limit is not None and last is not None:
        yield from process(events, last, last)
    if changed:
        yield from process([], index.clock)
    if last is not None:
        # Events that waited for a lagging partition or for a deadline can now be processed.
        end, index.catching_up = last + after_ms, True
        yield from process([], end, end + BOUND_MS)
        if (due := store.late_lines_due()) > end:
            end = due
            yield from process([], end, end + BOUND_MS)
        if driver.clusters > 1:
            # What several clusters have reported at the end is compared.
            yield from process([], end, end + BOUND_MS)
            yield from process([], end + AFTER_MS, end + AFTER_MS + BOUND_MS)


class _Driver:
    """The job's driver, as far as the stream reads what it writes: lines about shared resources, for the next step."""

    def __init__(self, process: Callable[..., list[Transition]], one_cluster_ms: int) -> None:
        self._process = process
        self._one_cluster_ms = one_cluster_ms
        self._troubles = SharedTroubles()
        self._lines: list[str] = []
        self._named: set[str] = set()
        self._met: set[str] = set()
        self._count = self._repeated_at = 0

    @property
    def batch_ms(self) -> int:
        """The length of the next batch, by the stream's clock."""
        return TRIGGER_MS if len(self._met) > 1 else self._one_cluster_ms

    def meets_others(self, events: list[Event]) -> bool:
        """Whether these events are the first of a second cluster."""
        if not events or len(self._met) > 1:
            return False
        self._met.update(event.cluster for event in events)
        return len(self._met) > 1

    @property
    def clusters(self) -> int:
        """How many clusters have reported trouble with a shared resource."""
        return len(self._named)

    def step(self, events: list[Event], until: int, front: int | None = None) -> list[Transition]:
        """Process one second of the stream and what was written after the last one."""
        found = self._process([*events, *self._written(until)], until, front)
        for transition in found:
            if lines := self._troubles.take(transition):
                self._named.add(transition.cluster)
                self._lines += lines
        return found

    def _written(self, until: int) -> list[Event]:
        if until - self._repeated_at >= REPEAT_MS:
            self._repeated_at, self._lines = until, [*self._lines, *self._troubles.repeated()]
        lines, self._lines = self._lines, []
        return [event for line in lines for event in self._read(line, until)]

    def _read(self, line: str, at: int) -> list[Event]:
        self._count += 1
        found = _READER.read(Record("flinkwatch.heartbeat", 0, self._count, at, None, line.encode()))
        events = [] if isinstance(found, Rejected) else found
        return [msgspec.structs.replace(event, cluster=flinkwatch_itself.CLUSTER) for event in events]


def _configure(index: bucket.BucketIndex, record: Record) -> None:
    try:
        change = read_change(record.key, record.value)
    except UndecodableError:
        return
    if isinstance(change, PublishedConfiguration):
        index.configure(change, ())
    elif isinstance(change, PublishedSilence):
        index.configure(None, [change])
    elif change is not None:
        index.resolve([change])


def step(
    index: bucket.BucketIndex,
    store: bucket.Store,
    events: list[Event],
    until: int,
    front: int | None = None,
    issues: IssueCatalogue | None = None,
    measured: Callable[[list[Reading]], None] = lambda _: None,
) -> list[Transition]:
    """Process one second of the stream. Raises RecordingError if a detector fails."""
    result = bucket.step(index, store, events, until, issues or shipped(), front)
    if result.defects:
        defect = result.defects[0]
        raise RecordingError(f"{defect.event.topic}/{defect.event.partition}/{defect.event.offset}: {defect.error}")
    measured(result.readings)
    return result.transitions


class MemoryStore:
    """Keeps the states of clusters in memory; `versions` are the Flink versions of clusters that are already known."""

    def __init__(self, versions: Mapping[str, str] | None = None) -> None:
        self._states: dict[str, bytes] = {}
        self._versions = dict(versions or {})

    def get(self, cluster: str) -> bytes | None:
        if (version := self._versions.pop(cluster, None)) is not None:
            return self._states.setdefault(cluster, encode_state(ClusterState(topology=Topology(version=version))))
        return self._states.get(cluster)

    def put(self, cluster: str, state: bytes) -> None:
        self._states[cluster] = state

    def remove(self, cluster: str) -> None:
        self._states.pop(cluster, None)

    def late_lines_due(self) -> int:
        """The clock at which the last of the lines that came late are taken; 0 if none wait."""
        times = [decode_state(state).late.due() for state in self._states.values()]
        return max((time + SECOND_MS for time in times if time is not None), default=0)
