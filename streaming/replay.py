"""`flinkwatch replay`: recorded Kafka records through the same code, without Spark.

Input, by content: recorded Kafka records (one JSON object a line, plain or gzip), a plain Flink log file, or a page of
Prometheus text. Records are taken in order of arrival, one second of the stream's clock at a time, as live.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from detectors import bucket
from detectors.clock import believed
from detectors.events.event import Event, Record, Rejected
from detectors.events.reader import Reader
from detectors.incidents.incident import Transition
from detectors.order import BOUND_MS
from detectors.settings import Published, read_change
from streaming.errors import RecordingError
from streaming.known_issues import shipped
from streaming.recording import records_of

TRIGGER_MS = 1_000
# Live the pulse moves the clock on. A log often ends with what killed its process, and detectors wait a little for the
# reason or for a goodbye before they say so.
AFTER_MS = 5_000


def load(paths: Iterable[Path], logs_topic: str, metrics_topic: str) -> list[Record]:
    """All records of the files in order of arrival. Raises RecordingError."""
    files = [list(records_of(p, logs_topic, metrics_topic)) for p in paths]
    if len(files) == 1:
        return files[0]
    return sorted((r for f in files for r in f), key=lambda r: r.timestamp)


def replay(
    records: list[Record],
    reader: Reader,
    published: Published,
    rejected: Counter[str] | None = None,
    config_topic: str = "",
    after_ms: int = AFTER_MS,
) -> Iterator[Transition]:
    """The transitions, in order, of records given in order of arrival; `rejected` counts by reason what is not read.

    A record of `config_topic` takes force where it stands, as in the job: before what comes after it. The clock goes on
    for `after_ms` when the last record has come.
    """
    index, store = bucket.Index(published=published), MemoryStore()
    records, changes = _without_changes(records, config_topic)
    read = [reader.read(r) for r in records]
    if rejected is not None:
        rejected.update(found.reason for found in read if isinstance(found, Rejected))
    clocks = believed([(source_of(r, e), r.timestamp) for r, e in zip(records, read, strict=True)])
    events: list[Event] = []
    limit = -1
    for i, clock in enumerate(clocks):
        if clock >= limit or i in changes:
            if i:
                yield from step(index, store, events, clocks[i - 1], clocks[i - 1])
            _configure(index, changes.pop(i, ()), rejected)
            events, limit = [], clock + TRIGGER_MS
        found = read[i]
        if not isinstance(found, Rejected):
            events += found
    if clocks:
        yield from step(index, store, events, clocks[-1], clocks[-1])
    for last in changes.values():
        _configure(index, last, rejected)
        yield from step(index, store, [], index.clock)
    if clocks:
        # What waits for a partition that lagged has all come.
        end = clocks[-1] + after_ms
        yield from step(index, store, [], end, end + BOUND_MS)


def _without_changes(records: list[Record], config_topic: str) -> tuple[list[Record], dict[int, list[Record]]]:
    """The other records, and changes of the configuration by the number of those that came before."""
    others: list[Record] = []
    changes: dict[int, list[Record]] = {}
    for record in records:
        if record.topic == config_topic:
            changes.setdefault(len(others), []).append(record)
        else:
            others.append(record)
    return others, changes


def _configure(index: bucket.Index, records: Iterable[Record], rejected: Counter[str] | None) -> None:
    for record in records:
        try:
            change = read_change(record.key, record.value)
        except ValueError:
            if rejected is not None:
                rejected["bad_config"] += 1
            continue
        if isinstance(change, Published):
            index.configure(change, ())
        elif change is not None:
            index.configure(None, [change])


def step(
    index: bucket.Index, store: bucket.Store, events: list[Event], until: int, front: int | None = None
) -> list[Transition]:
    """One second of the stream. Raises RecordingError when a detector fails."""
    said = bucket.step(index, store, events, until, shipped(), front)
    if said.defects:
        defect = said.defects[0]
        raise RecordingError(f"{defect.event.topic}/{defect.event.partition}/{defect.event.offset}: {defect.error}")
    return said.transitions


class MemoryStore:
    """States of clusters in memory."""

    def __init__(self) -> None:
        self._states: dict[str, bytes] = {}

    def get(self, cluster: str) -> bytes | None:
        """The bytes, or None."""
        return self._states.get(cluster)

    def put(self, cluster: str, state: bytes) -> None:
        """Keep the bytes."""
        self._states[cluster] = state

    def remove(self, cluster: str) -> None:
        """Forget the cluster."""
        self._states.pop(cluster, None)


def source_of(record: Record, read: list[Event] | Rejected) -> str:
    """The source of a record, also of one without an event."""
    if isinstance(read, list) and read:
        return read[0].source
    return f"{record.topic}/{record.key!r}/{dict(record.headers).get('host', b'')!r}"
