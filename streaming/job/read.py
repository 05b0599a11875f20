"""First stage, on executors: Kafka records → packed events, in Arrow batches.

What costs is Python per record, so a search over the raw bytes of a whole batch goes first (`prefilter.py`).
"""

import time
from collections.abc import Iterator
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from detectors.engine.host_clock import Heartbeat
from detectors.events.event import Event, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.events.vocabulary import flinkwatch_itself
from detectors.settings.live import PublishedConfiguration, PublishedResolution, PublishedSilence, read_change
from detectors.values.decoding import UndecodableError
from streaming.gc_pause import gc_paused
from streaming.job.heartbeat import canary_sent_at, heartbeat_of
from streaming.job.prefilter import may_matter
from streaming.job.rows import (
    MAX_KEPT_BYTES,
    DeadLetter,
    Packed,
    bucket_of,
    dead_letter,
    encode_event,
    encode_packed,
    event_letter,
)
from streaming.job.sampling import Samples, spread
from streaming.job.spark.troubles import extent, naming

# Headers as JSON, and NULL where there are none: an array of structs costs 6 µs of CPU a record on its way to Arrow,
# ten times what the rest of the record does.
SELECTION = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "unix_millis(timestamp)",
    "key": "key",
    "value": "value",
    "headers": "CASE WHEN size(headers) > 0 THEN to_json(headers) END",
}
"""Column → its expression over Spark's Kafka source."""

FLUSH_BYTES = 4 * 1024 * 1024
"""Encoded bytes of a task after which its rows so far are written: the JVM holds several copies of a row."""
# The dead letters of a task stay in memory until its batch is written, so after some 256 complete ones they are cut.
_MAX_KEPT, _KEPT_BEYOND = 64 * 1024 * 1024, 1024
# Number of metric records with a literal but no known name that are sampled.
_LOOKED_AT = 8
_OUT = pa.schema([("bucket", pa.int32()), ("packed", pa.binary())])


class ReadStage:
    """The read stage; `mapInArrow` is given its `run`. Plain data, so that it can be sent to executors."""

    def __init__(
        self, identity: Identity, metric_topics: tuple[str, ...], config_topic: str, heartbeat_topic: str, buckets: int
    ) -> None:
        self._identity = identity
        self._metric_topics = frozenset(metric_topics)
        self._config_topic = config_topic
        self._heartbeat_topic = heartbeat_topic
        self._buckets = buckets

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows of READ_SCHEMA: events as they arrive, and at the end the clocks of the task for every bucket."""
        with gc_paused():
            yield from self._run(batches)

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(Reader(self._identity, self._metric_topics), self._buckets)
        for batch in batches:
            with naming("read", partial(_extent, batch)):
                self._fold(task, batch)
            yield from task.taken()
        with naming("read", lambda: "the end of its task"):
            task.end()
        yield from task.taken()

    def _fold(self, task: "_Task", batch: pa.RecordBatch) -> None:
        for topic, part in _by_topic(batch):
            if topic == self._config_topic:
                task.configure(part)
                continue
            task.tick(topic, part)
            if topic == self._heartbeat_topic:
                task.read_heartbeats(part)
            else:
                task.read(part, topic in self._metric_topics)


class _Task:
    def __init__(self, reader: Reader, buckets: int) -> None:
        self._reader = reader
        self._buckets = buckets
        self._wall = int(time.time() * 1000)
        self._clocks: dict[str, int] = {}
        self._offsets = 0
        self._published: PublishedConfiguration | None = None
        self._silences: list[PublishedSilence] = []
        self._samples = Samples(reader)
        self._kept = 0
        self._heartbeat: Heartbeat | None = None
        self._heartbeat_offset = 0
        self._heartbeat_partition = ""
        self._written: list[pa.RecordBatch] = []
        self._new()

    def _new(self) -> None:
        self._packed: dict[int, Packed[msgspec.Raw]] = {}
        self._events: dict[str, list[msgspec.Raw]] = {}
        self._bytes = 0

    def _bucket(self, number: int) -> Packed[msgspec.Raw]:
        return self._packed.setdefault(number, Packed())

    def taken(self) -> list[pa.RecordBatch]:
        """The rows written since the last call, in batches of about FLUSH_BYTES."""
        taken, self._written = self._written, []
        return taken

    def tick(self, topic: str, batch: pa.RecordBatch) -> None:
        columns = [batch.column(name) for name in ("partition", "timestamp", "offset")]
        partitions, timestamps, offsets = columns
        first = partitions[0].as_py()
        if pc.all(pc.equal(partitions, first)).as_py():
            self._advance(f"{topic}/{first}", pc.max(timestamps).as_py(), offsets[0].as_py(), offsets[-1].as_py())
            return
        wanted = [("t", "max"), ("o", "min"), ("o", "max")]
        groups = pa.table(columns, names=["p", "t", "o"]).group_by("p").aggregate(wanted)
        for row in groups.to_pylist():
            self._advance(f"{topic}/{row['p']}", row["t_max"], row["o_min"], row["o_max"])

    def _advance(self, partition: str, timestamp: int, first: int, last: int) -> None:
        self._clocks[partition] = max(self._clocks.get(partition, 0), timestamp)
        self._offsets += last - first + 1

    def configure(self, batch: pa.RecordBatch) -> None:
        """Keep the newest configuration and silences for every bucket, since rows of a bucket have no order.

        Invalid records are rejected, and the last valid configuration stays in force.
        """
        for record in _records(batch):
            try:
                change = read_change(record.key, record.value)
            except UndecodableError as error:
                self._take(record, Rejected("bad_config", str(error), record))
                continue
            if isinstance(change, PublishedConfiguration):
                self._published = change
            elif isinstance(change, PublishedSilence):
                self._silences.append(change)
            elif isinstance(change, PublishedResolution):
                self._bucket(bucket_of(change.last.cluster, self._buckets)).resolutions.append(change)

    def read(self, batch: pa.RecordBatch, metrics: bool) -> None:
        """Decode the records that may matter, and pack their events by bucket."""
        self._bucket(0).records += batch.num_rows
        mask = may_matter(batch.column("value"), metrics)
        empty: list[Record] = []
        for record in _records(batch.filter(mask)):
            found = self._found(record)
            self._take(record, found)
            if metrics and found == []:
                empty.append(record)
            elif metrics and isinstance(found, list):
                self._samples.understood(record.topic, found[0])
        # Metric records that became events are understood; a few of the others are sampled.
        rest = pc.indices_nonzero(pc.invert(mask)) if metrics else None
        self._samples.look(empty[:_LOOKED_AT], 1)
        self._look_at_some(batch, rest)

    def _look_at_some(self, batch: pa.RecordBatch, rest: pa.Array | None) -> None:
        """Sample a few records of the batch, or of the `rest` of it."""
        count = batch.num_rows if rest is None else len(rest)
        if count == 0:
            return
        chosen = spread(count, batch.column("offset")[0].as_py())
        places = pa.array(chosen) if rest is None else rest.take(pa.array(chosen))
        self._samples.look(_records(batch.take(places)), count // len(chosen))

    def read_heartbeats(self, batch: pa.RecordBatch) -> None:
        """Read heartbeats. Those with a value are canaries or the driver's lines about the input.

        They belong to flinkwatch's own cluster.
        """
        self._keep_newest_heartbeat(batch)
        with_value = batch.filter(pc.fill_null(pc.greater(pc.binary_length(batch.column("value")), 0), False))
        for record in _records(with_value):
            if sent := canary_sent_at(record.value):
                packed = self._bucket(bucket_of(flinkwatch_itself.CLUSTER, self._buckets))
                packed.canary = max(packed.canary, sent)
                continue
            found = self._found(record)
            if not isinstance(found, Rejected):
                found = [msgspec.structs.replace(event, cluster=flinkwatch_itself.CLUSTER) for event in found]
            self._take(record, found)

    def _found(self, record: Record) -> list[Event] | Rejected:
        try:
            return self._reader.read(record)
        except Exception as error:  # noqa: BLE001
            # The content of a record must never stop the stream, even if the reader has a bug.
            return Rejected("defect", f"{type(error).__name__}: {error}", record)

    def _keep_newest_heartbeat(self, batch: pa.RecordBatch) -> None:
        with_headers = batch.filter(pc.is_valid(batch.column("headers")))
        for record in _records(with_headers):
            heartbeat = heartbeat_of(record.headers)
            if heartbeat is not None and record.offset >= self._heartbeat_offset:
                self._heartbeat, self._heartbeat_offset = heartbeat, record.offset
                self._heartbeat_partition = f"{record.topic}/{record.partition}"

    def _take(self, record: Record, found: list[Event] | Rejected) -> None:
        if isinstance(found, Rejected):
            number = bucket_of(f"{record.topic}/{record.partition}", self._buckets)
            letter = dead_letter(found, MAX_KEPT_BYTES if self._kept < _MAX_KEPT else _KEPT_BEYOND)
            self._kept += len(letter.value)
            self._reject(number, letter)
            return
        for event in found:
            self._pack(event)

    def _pack(self, event: Event) -> None:
        try:
            encoded = encode_event(event)
        except Exception as error:  # noqa: BLE001 - only the event that cannot be encoded is lost
            letter = event_letter(event, f"{type(error).__name__}: {error}")
            self._reject(bucket_of(event.cluster, self._buckets), letter)
            return
        events = self._events.get(event.cluster)
        if events is None:
            events = self._bucket(bucket_of(event.cluster, self._buckets)).events
            self._events[event.cluster] = events
        events.append(msgspec.Raw(encoded))
        self._weigh(len(encoded))

    def _reject(self, number: int, letter: DeadLetter) -> None:
        self._bucket(number).rejected.append(letter)
        self._weigh(len(letter.key) + len(letter.value))

    def _weigh(self, size: int) -> None:
        self._bytes += size
        if self._bytes >= FLUSH_BYTES:
            self._write()

    def end(self) -> None:
        """Write one row for every bucket, with the clocks and the configuration."""
        for number in range(self._buckets):
            packed = self._bucket(number)
            packed.clocks, packed.wall, packed.offsets = self._clocks, self._wall, self._offsets
            packed.published, packed.silences = self._published, self._silences
            packed.heartbeat, packed.heartbeat_partition = self._heartbeat, self._heartbeat_partition
        # A row belongs to some bucket; the counts are added up over all.
        self._bucket(0).ignored = {topic: dict(found) for topic, found in self._reader.ignored.items() if found}
        for looked in self._samples.taken():
            self._bucket(bucket_of(looked.cluster, self._buckets)).looked.append(looked)
        self._write()

    def _write(self) -> None:
        rows = sorted(self._packed.items())
        columns = [
            pa.array([n for n, _ in rows], pa.int32()),
            pa.array([encode_packed(p) for _, p in rows], pa.binary()),
        ]
        self._written.append(pa.RecordBatch.from_arrays(columns, schema=_OUT))
        self._new()


def _extent(batch: pa.RecordBatch) -> str:
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    return extent(zip(*columns, strict=True))


class _Header(msgspec.Struct):
    key: str
    value: bytes = b""


_decode_headers = msgspec.json.Decoder(list[_Header]).decode


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    columns = (batch.column(name).to_pylist() for name in SELECTION)
    for topic, partition, offset, timestamp, key, value, headers in zip(*columns, strict=True):
        pairs = tuple((h.key, h.value) for h in _decode_headers(headers)) if headers else ()
        yield Record(topic, partition, offset, timestamp, key, value, pairs)


def _by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    if batch.num_rows == 0:
        return
    topics = batch.column("topic")
    first = topics[0].as_py()
    if pc.all(pc.equal(topics, first)).as_py():
        yield first, batch
        return
    for topic in pc.unique(topics).to_pylist():
        yield topic, batch.filter(pc.equal(topics, topic))
