"""What arrives from each cluster: when it was last heard, from where, in which formats, and what is missing in it."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from detectors.engine.time_zones import TimeZoneOffsets
from detectors.events.envelopes import logs
from detectors.events.event import Event, LogEvent, Record, Rejected
from detectors.events.identity import Identity
from detectors.events.reader import Reader
from detectors.incident import Reading
from detectors.values.bounded import setdefault_bounded
from detectors.values.decoding import UndecodableError
from streaming.inspection.formats import envelope_of, layout_of

_MAX_CLUSTERS = 10_000
_MAX_NAMES = 1_000
# Readings repeat within seconds what they were made of.
_LAST = {"last_sample_timestamp_seconds": "process", "last_log_line_timestamp_seconds": "job"}


class InputStream(msgspec.Struct):
    """The logs, or the metrics, of one cluster in the records that were read. `last` is a Kafka timestamp, 0: none.

    `not_understood` counts records that seem to come from Flink, but whose layout or names are unknown.
    """

    records: int = 0
    last: int = 0
    hosts: set[str] = msgspec.field(default_factory=set)
    sources: set[str] = msgspec.field(default_factory=set)
    formats: Counter[str] = msgspec.field(default_factory=Counter)
    not_understood: int = 0

    def take(self, record: Record, host: str, formats: Iterable[str]) -> None:
        self.records += 1
        self.last = max(self.last, record.timestamp)
        _add(self.hosts, host)
        self.formats.update(name for name in formats if name)


class ClusterInputs(msgspec.Struct):
    """What was read of one cluster.

    `names` are the metrics that detectors use, `processes` the last sample of each process by the readings, and
    `checkpoint_lines` the last log line about the checkpoints of each job, both in epoch ms.
    """

    logs: InputStream = msgspec.field(default_factory=InputStream)
    metrics: InputStream = msgspec.field(default_factory=InputStream)
    names: set[str] = msgspec.field(default_factory=set)
    zones: TimeZoneOffsets = msgspec.field(default_factory=TimeZoneOffsets)
    processes: dict[str, int] = {}
    checkpoint_lines: dict[str, int] = {}

    @property
    def last_line(self) -> int:
        """Epoch ms of the last log line that is known, 0 if there is none."""
        return max([self.logs.last, *self.checkpoint_lines.values()])

    @property
    def last_sample(self) -> int:
        """Epoch ms of the last metric sample that is known, 0 if there is none."""
        return max([self.metrics.last, *self.processes.values()])

    def offsets(self) -> tuple[list[int], bool]:
        """The zones of its sources (ms east of UTC), and whether lines have proved them."""
        learned = {*self.zones.learned.values()}
        return (sorted(learned), True) if learned else (sorted({*self.zones.guessed.values()}), False)


class TopicSpan(msgspec.Struct):
    """What was read of one topic: records, the first and the last Kafka timestamp, and why records were rejected."""

    records: int = 0
    first: int = 0
    last: int = 0
    rejected: Counter[str] = msgspec.field(default_factory=Counter)

    def take(self, record: Record) -> None:
        self.first = min(self.first or record.timestamp, record.timestamp)
        self.last = max(self.last, record.timestamp)
        self.records += 1


class InputSurvey:
    """The inputs of each cluster, record by record, read as the job reads them."""

    def __init__(self, identity: Identity, metric_topics: frozenset[str]) -> None:
        self._identity = identity
        self._reader = Reader(identity, metric_topics)
        self._metric_topics = metric_topics
        self.clusters: dict[str, ClusterInputs] = {}
        self.topics: dict[str, TopicSpan] = {}

    def take(self, record: Record) -> None:
        """Take in a record of a log or metric topic, in any order."""
        span = self.topics.setdefault(record.topic, TopicSpan())
        span.take(record)
        found = self._reader.read(record)
        if isinstance(found, Rejected):
            span.rejected[found.reason] += 1
            return
        self._whole(record)
        for event in found:
            self._event(event)

    def measured(self, reading: Reading) -> None:
        """Take in a reading of the job: what it has seen before the newest records."""
        key, cluster = _LAST.get(reading.name), reading.labels.get("cluster")
        if key is None or not cluster:
            return
        own = self._of(cluster)
        times = own.processes if key == "process" else own.checkpoint_lines
        name = reading.labels.get(key, "")
        times[name] = max(times.get(name, 0), round(reading.value * 1_000))

    def _whole(self, record: Record) -> None:
        """Count the record for its cluster, also if it holds nothing that a detector uses."""
        seen = self._reader.recognise(record)
        if seen is None or not (seen.understood or seen.flink):
            return
        own = self._of(seen.cluster)
        metrics = record.topic in self._metric_topics
        stream = own.metrics if metrics else own.logs
        stream.take(record, seen.host, [envelope_of(record.value or b"", metrics), self._layout(record, metrics)])
        stream.not_understood += not seen.understood

    def _layout(self, record: Record, metrics: bool) -> str:
        if metrics:
            return ""
        try:
            entries = logs.open_log(record, self._identity, Counter())
        except UndecodableError:
            return ""
        return next((layout for entry in entries if (layout := layout_of(entry))), "")

    def _event(self, event: Event) -> None:
        own = self._of(event.cluster)
        if isinstance(event, LogEvent):
            _add(own.logs.sources, event.source)
            own.zones.event_time(event)
            return
        _add(own.metrics.sources, event.source)
        _add(own.metrics.hosts, event.host)
        own.names.update(sample.name for sample in event.samples)

    def _of(self, cluster: str) -> ClusterInputs:
        return setdefault_bounded(self.clusters, cluster, ClusterInputs(), _MAX_CLUSTERS)


def _add(names: set[str], name: str) -> None:
    if name and len(names) < _MAX_NAMES:
        names.add(name)
