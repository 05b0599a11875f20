"""How fast `flinkwatch tune` is: `python tests/bench/tune.py [--hours 24] [--keep FILE]`.

Makes a recording of a cluster that runs well: 10 jobs, 10 TaskManagers with 10 slots each, a page of Prometheus text of
each process every 15 s (about 300 series), a checkpoint of each job a minute, restarts. Then tunes over it with another
configuration, and says how many times faster than real time that was, by the clock on the wall.
"""

import argparse
import gzip
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from detectors.events.event import Event, MetricEvent, Record
from detectors.events.vocabulary.metric_names import read_prometheus
from detectors.settings.live import LiveSettings
from streaming.configuration.settings import Settings
from streaming.recordings.recording import line_of
from streaming.tuning.compare import compare
from tests.bench.clusters import START, Cluster, Page

JOBS, TMS, SLOTS = 10, 10, 10
GOAL = 200
NEW = LiveSettings.model_validate(
    {"detectors": {"checkpoint_overdue": {"factor": 2.0}, "backpressure": {"min_duration": "30s"}}}
)


class Recorded(Cluster):
    """A cluster of the fleet as the records that are shipped of it."""

    def __init__(self, name: str, jobs: int, tms: int, slots: int) -> None:
        self.records: list[Record] = []
        self._series: dict[str, list[str]] = {}
        super().__init__(name, jobs, tms, slots)

    def take(self) -> list[Record]:
        """The records since the last call."""
        taken, self.records = sorted(self.records, key=lambda r: r.timestamp), []
        return taken

    def _line(self, at: int, host: str, logger: str, message: str) -> list[Event]:
        printed = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime((START + at) // 1000)) + f",{at % 1000:03d}"
        text = f"{printed} INFO  org.apache.flink.runtime.{logger:<45} [] - {message}"
        self._add("flink.logs", START + at + 200, host, text)
        return []

    def _scrape(self, page: Page, second: int) -> MetricEvent:
        values = [value(second) for _, value in page.samples]
        text = "\n".join(f"{s} {v}" for s, v in zip(self._series[page.host], values, strict=True))
        self._add("flink.metrics", START + second * 1000 + 200, page.host, text + "\n")
        return super()._scrape(page, second)

    def _page(self, host: str, lines: list[str]) -> Page:
        # Those that mean nothing to flinkwatch are on a real page, too; here they are left out.
        self._series[host] = [line.rpartition(" ")[0] for line in lines if read_prometheus(line)]
        return super()._page(host, lines)

    def _add(self, topic: str, timestamp: int, host: str, text: str) -> None:
        headers = (("cluster", self.name.encode()), ("host", host.encode()))
        self._offset += 1
        self.records.append(Record(topic, 0, self._offset, timestamp, None, text.encode(), headers))


def make(file: Path, hours: float) -> tuple[int, int]:
    """Write the recording; (records, bytes before packing)."""
    cluster, count, size = Recorded("c", JOBS, TMS, SLOTS), 0, 0
    with gzip.open(file, "wb", compresslevel=1) as out:
        for second in range(round(hours * 3600)):
            cluster.second(second)
            for record in cluster.take():
                line = line_of(record)
                count, size = count + 1, size + len(line)
                out.write(line)
    return count, size


def main() -> None:
    """Measure and print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--keep", type=Path, help="where the recording is kept, and taken from when it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = options.keep or Path(folder) / "day.jsonl.gz"
        if not file.exists():
            records, size = make(file, options.hours)
            print(f"{records:,} records, {size / 1e9:.2f} GB, packed {file.stat().st_size / 1e6:.0f} MB", flush=True)
        begin, cpu = time.monotonic(), time.process_time()
        found = compare([file], LiveSettings(), NEW, Settings())
        wall, own = time.monotonic() - begin, time.process_time() - cpu
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
    span = found.span / 1000
    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}")
    print(f"{span / 3600:.1f} h of records in {wall:.1f} s: {span / wall:.0f} times real time (goal {GOAL})")
    print(f"CPU time: stepping twice {own:.1f} s, decoding in a process of its own {children.ru_utime:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, children.ru_maxrss / 1024
    print(f"resident at most {peak[0]:.0f} MB and {peak[1]:.0f} MB")
    print(json.dumps({"times_real_time": round(span / wall), "wall_s": round(wall, 1), "hours": round(span / 3600, 1)}))
    if found.same:
        sys.exit("a cluster that runs well is not silent")


if __name__ == "__main__":
    main()
