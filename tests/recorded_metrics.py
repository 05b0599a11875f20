"""What /metrics would have shown of incidents and readings while a scenario was happening, as Prometheus' samples."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from prometheus_client.core import Metric

from detectors.engine import bucket
from detectors.events.event import Event, Record, Rejected
from sinks.contract.feedback import Feedback
from sinks.prometheus.collector import IncidentCollector
from streaming.recordings.replay import MemoryStore
from tests.recorded import PUBLISHED, READER

SCRAPE_S = 15


class Played(NamedTuple):
    """A recording, and the cluster it is of; they end at the same time, whenever they happened."""

    cluster: str
    records: tuple[Record, ...]


def write_samples(played: Iterable[Played], end: int, file: Path) -> int:
    """All of them ending at `end` (epoch s), scraped every `SCRAPE_S`; the time of the first sample, epoch s."""
    first = end
    with file.open("w", encoding="utf-8") as out:
        for one in played:
            shift = end - one.records[-1].timestamp // 1000
            for at, metrics in _scrapes(one.records):
                first = min(first, at + shift)
                out.writelines(_lines(metrics, one.cluster, at + shift, shift))
        out.write("# EOF\n")
    return first


def _scrapes(records: Sequence[Record]) -> Iterator[tuple[int, list[Metric]]]:
    """The board every `SCRAPE_S`; the stream's clock goes on as with a heartbeat a second, as far as anything is
    due."""
    index, store, board = bucket.BucketIndex(published=PUBLISHED), MemoryStore(), IncidentCollector()
    stepped = records[0].timestamp
    scrape = stepped + 1_000 * SCRAPE_S
    events: list[Event] = []
    for record in records:
        while record.timestamp >= scrape:
            _show(board, bucket.step(index, store, events, scrape))
            yield scrape // 1_000, list(board.collect())
            stepped, events, scrape = scrape, [], scrape + 1_000 * SCRAPE_S
        if record.timestamp >= stepped + 1_000:
            _show(board, bucket.step(index, store, events, record.timestamp))
            stepped, events = record.timestamp, []
        read = READER.read(record)
        events += [] if isinstance(read, Rejected) else read


def _show(board: IncidentCollector, said: bucket.BucketOutput) -> None:
    for transition in said.transitions:
        board.show_incident(transition.incident, transition)
        if transition.transition == "opened":
            board.delivery.count_opened(transition)
            acknowledged = Feedback(
                incident=transition.incident, answer="acknowledged", person="ann", user="U1", at=transition.at
            )
            board.feedback.add(acknowledged)
    for reading in said.readings:
        board.show_reading(reading.key(), reading)
    for key in said.removed:
        board.show_reading(key, None)


def _lines(metrics: Iterable[Metric], instance: str, at: int, shift: int) -> Iterator[str]:
    for metric in metrics:
        for sample in metric.samples:
            value = sample.value + shift if sample.name.endswith("_timestamp_seconds") else sample.value
            labels = ",".join(f'{name}="{text}"' for name, text in {"instance": instance, **sample.labels}.items())
            yield f"{sample.name}{{{labels}}} {value} {at}\n"
