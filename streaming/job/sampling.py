"""Samples records of each Arrow batch to measure, by source, how many are understood.

To check every record would double the cost of reading. A few records of each batch show the same soon enough.
"""

from collections.abc import Iterable

from detectors.engine.not_understood import SourceSample
from detectors.events.event import Event, Record
from detectors.events.reader import Reader

_SAMPLE = 8
_MAX_SOURCES = 500


def spread(count: int, first: int) -> list[int]:
    """At most eight evenly spread places among `count`; `first` shifts them, so that batches show different ones.

    >>> spread(3, 7), spread(40, 7)
    ([0, 1, 2], [2, 7, 12, 17, 22, 27, 32, 37])
    """
    if count <= _SAMPLE:
        return list(range(count))
    step = count // _SAMPLE
    return [number * step + first % step for number in range(_SAMPLE)]


class Samples:
    """The samples of one read task."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._seen: dict[tuple[str, str, str], SourceSample] = {}

    def understood(self, topic: str, event: Event) -> None:
        self._add(topic, event.cluster, event.host, 1, missed=False, flink=False)

    def look(self, records: Iterable[Record], weight: int) -> None:
        """Check some records, each of which represents `weight` records."""
        for record in records:
            try:
                found = self._reader.recognise(record)
            except Exception:  # noqa: BLE001, S112  # nosec B112 - the reader rejects the same record
                continue
            if found is not None:
                missed = not found.understood
                self._add(record.topic, found.cluster, found.host, weight, missed=missed, flink=found.flink)

    def taken(self) -> list[SourceSample]:
        taken, self._seen = list(self._seen.values()), {}
        return taken

    def _add(self, topic: str, cluster: str, host: str, weight: int, *, missed: bool, flink: bool) -> None:
        if len(self._seen) >= _MAX_SOURCES and (topic, cluster, host) not in self._seen:
            cluster = host = ""
        looked = self._seen.setdefault((topic, cluster, host), SourceSample(topic, cluster, host, 0, 0, 0))
        looked.seen += weight
        looked.missed += weight * missed
        looked.flink += weight * flink
