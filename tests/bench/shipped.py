"""The made-up clusters of the benchmarks as their shippers and agents would write them to Kafka, in time.

`python -m tests.bench.shipped BOOTSTRAP CLUSTERS TMS LINES_PER_S SECONDS` writes them: per TaskManager and JobManager a
page of 300 series each 15 s as one record, and log lines as Filebeat writes them, most of which say nothing.
"""

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from kafka import KafkaProducer

from detectors.events.event import Event
from detectors.events.vocabulary.metric_names import read_prometheus
from tests.bench.clusters import SCRAPE_EVERY_S, Cluster, Page, Value, value_of
from tests.bench.corpus import noise

SERIES = 300
_encode = msgspec.json.Encoder().encode

Shipped = tuple[str, bytes, bytes]
"""Topic, cluster and value of a record."""


class ShippedCluster(Cluster):
    """A cluster whose events are records, dated from `begins` (epoch ms)."""

    def __init__(self, name: str, jobs: int, tms: int, begins: int) -> None:
        self._texts: dict[tuple[str, int], list[tuple[str, Value]]] = {}
        self.begins = begins
        super().__init__(name, jobs, tms)

    def records(self, second: int) -> list[Shipped]:
        """The records of one second since the beginning."""
        found: Any = self.second(second)
        return found

    def expire(self, second: int, j: int) -> list[Shipped]:
        """One checkpoint more of a job, which expires."""
        self._number[j] += 1
        text = f"Checkpoint {self._number[j]} of job {self._jobs[j]} expired before completing."
        found: Any = self._line(second * 1000, "jm", "checkpoint.CheckpointCoordinator", text)
        return found

    def line(self, at: int, host: str, logger: str, message: str) -> Shipped:
        """One log line, as Filebeat writes it; `at` ms since the beginning."""
        time = datetime.fromtimestamp((self.begins + at) / 1000, UTC)
        printed = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}"
        body = {
            "@timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z",
            "log": {"offset": at, "file": {"path": f"/opt/flink/log/{host}.log"}},
            "message": f"{printed} INFO  {logger:<60} [] - {message}",
            "fields": {"cluster": self.name},
            "host": {"name": f"{host}.{self.name}"},
        }
        return "flink.logs", self.name.encode(), _encode(body)

    def _line(self, at: int, host: str, logger: str, message: str) -> list[Event]:
        shipped: Any = self.line(at, host, f"org.apache.flink.runtime.{logger}", message)
        return [shipped]

    def _page(self, host: str, lines: list[str]) -> Page:
        second = self._chance.randrange(SCRAPE_EVERY_S)
        unknown = [f'flink_taskmanager_Status_Flink_Memory_Managed_{n}{{host="{host}",}} 1' for n in range(SERIES)]
        series: list[tuple[str, Value]] = []
        for text in [*lines, *unknown][: max(SERIES, len(lines))]:
            known = read_prometheus(text)
            value = value_of(known[0].name if known else "", self._chance)
            series.append((text.rpartition(" ")[0], value))
        self._texts[host, second] = series
        return Page(host, second, [])

    def _scrape(self, page: Page, second: int) -> Any:
        series = self._texts[page.host, page.second]
        text = "\n".join(f"{name} {value(second)}" for name, value in series)
        return "flink.metrics", self.name.encode(), text.encode()


def seconds(fleet: Sequence[ShippedCluster], tms: int, lines_per_s: int) -> Iterator[list[Shipped]]:
    """The records of each second of a fleet (`tms` TaskManagers a cluster), filled up with lines that say nothing."""
    chance = random.Random("lines")
    for second in itertools.count():
        records = [record for cluster in fleet for record in cluster.records(second)]
        for _ in range(lines_per_s - sum(topic == "flink.logs" for topic, _, _ in records)):
            cluster = chance.choice(fleet)
            records.append(cluster.line(second * 1000, f"tm-{chance.randrange(tms)}", *noise(chance)))
        yield records


def write(bootstrap: str, clusters: int, tms: int, lines_per_s: int, duration: int) -> None:
    """Write a fleet to Kafka as it happens, for `duration` seconds; says when it begins, and how far it fell behind."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=50, batch_size=262_144, max_request_size=4_000_000)
    fleet = [ShippedCluster(f"cluster-{n:03d}", 2, tms, 0) for n in range(clusters)]
    begin = time.time()
    for cluster in fleet:
        cluster.begins = int(begin * 1000)
    print("begins", flush=True)
    behind = 0.0
    for second, records in zip(range(duration), seconds(fleet, tms, lines_per_s), strict=False):
        behind = max(behind, time.time() - begin - second - 1)
        time.sleep(max(0.0, begin + second - time.time()))
        for topic, key, value in records:
            producer.send(topic, key=key, value=value)
    producer.flush(30)
    print(f"behind by at most {max(behind, 0):.1f} s")


if __name__ == "__main__":
    address, *numbers = sys.argv[1:]
    write(address, *map(int, numbers))
