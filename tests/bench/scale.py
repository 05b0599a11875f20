"""What a fleet costs: `python tests/bench/scale.py [--quick] [--profile]`.

No Spark, no Kafka: events of made-up clusters (`clusters.py`) through `bucket.step`, one second of the stream
a batch, states as bytes in memory between them. One core. The fleet is 500 clusters with 4 jobs and 20 TaskManagers
each, scraped every 15 s, a checkpoint of each job a minute; a few of them are run in full for ten hours, and the rest
counts as many times the same. The last line is JSON.
"""

import argparse
import cProfile
import gc
import json
import pstats
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from detectors.engine import bucket
from detectors.engine.state import decode_state
from detectors.events.event import Event, LogEvent, MetricEvent, Record, Rejected
from detectors.settings.live import LiveSettings, publish
from streaming.recordings.replay import MemoryStore
from tests.bench.clusters import READER, SCRAPE_EVERY_S, START, Cluster
from tests.bench.corpus import dense
from tests.unit.detectors.streams import log

FLEET = 500
JOBS, TMS = 4, 20
LARGE_JOBS, LARGE_TMS = 10, 50
GOAL_STATE = 50_000
GOAL_EVENTS = 20_000


class Meter:
    """A bucket of clusters, and the CPU time its steps took: other work may run beside."""

    def __init__(self) -> None:
        self.index = bucket.BucketIndex(published=publish(LiveSettings(), 0, "scale"))
        self.store = MemoryStore()
        self.reset()

    def reset(self) -> None:
        """Count from zero; the states stay."""
        self.seconds = 0.0
        self.lines = self.pages = self.samples = self.said = 0

    def step(self, events: list[Event], until: int) -> None:
        """One batch, timed."""
        begin = time.process_time()
        said = bucket.step(self.index, self.store, events, until)
        self.seconds += time.process_time() - begin
        if said.defects:
            raise SystemExit(f"defect: {said.defects[0]}")
        self.said += len(said.transitions)
        for event in events:
            if isinstance(event, LogEvent):
                self.lines += 1
            else:
                self.pages += 1
                self.samples += len(event.samples)

    def events(self) -> int:
        """Log lines that matter, and metric records of any size."""
        return self.lines + self.pages

    def per_event_us(self) -> float:
        """CPU time of one event."""
        return 1e6 * self.seconds / max(self.events(), 1)


def history(meter: Meter, clusters: int, parts: int, part_s: int) -> list[float]:
    """Run `clusters` clusters through `parts` stretches of time as they happen; µs an event in each stretch.

    The minute in which they are deployed, many lines at once, comes before the first.
    """
    fleet = [Cluster(f"cluster-{n}", JOBS, TMS) for n in range(clusters)]
    edges = [0, *(60 + n * part_s for n in range(parts + 1))]
    costs, total = [], [0.0, 0, 0, 0]
    for begin, end in pairwise(edges):
        meter.reset()
        for second in range(begin, end):
            events = [e for c in fleet for e in c.second(second)]
            meter.step(events, START + second * 1000 + 999)
        if begin == 0:
            continue
        costs.append(meter.per_event_us())
        total = [a + b for a, b in zip(total, (meter.seconds, meter.lines, meter.pages, meter.samples), strict=True)]
    meter.seconds, meter.lines, meter.pages, meter.samples = total[0], *map(int, total[1:])
    return costs


def catch_up(events: Iterator[list[Event]]) -> Meter:
    """A backlog: as many events in a batch as are given, no state before the first."""
    meter = Meter()
    for batch in events:
        meter.step(batch, max(e.timestamp for e in batch))
    return meter


def backlog_of_lines(count: int) -> Iterator[list[Event]]:
    """Batches of 10,000 lines that all matter, of 40 clusters that are deployed, checkpoint and restart."""
    batch: list[Event] = []
    for offset, line in enumerate(dense(count, START)):
        found = READER.read(Record("flink.logs", 0, offset, line.time, None, line.filebeat()))
        if not isinstance(found, Rejected):
            batch += found
        if len(batch) >= 10_000:
            yield batch
            batch = []
    if batch:
        yield batch


def backlog_of_pages(minutes: int, slots: int) -> Iterator[list[Event]]:
    """Batches of one minute of the metrics of a cluster."""
    cluster = Cluster("cluster-0", JOBS, TMS, slots)
    for minute in range(minutes):
        events = [e for s in range(60) for e in cluster.second(60 * minute + s)]
        yield [e for e in events if isinstance(e, MetricEvent)]


def large(seconds: int) -> dict[str, int]:
    """Bytes of state of a cluster with 10 jobs and 50 TaskManagers, by part; `total` is all of it."""
    meter, cluster = Meter(), Cluster("large", LARGE_JOBS, LARGE_TMS)
    for second in range(seconds):
        meter.step(cluster.second(second), START + second * 1000 + 999)
    return sizes(meter.store.get("large") or b"")


def sizes(data: bytes) -> dict[str, int]:
    """Bytes by part of an encoded state."""
    state = decode_state(data)
    found = {f"detector {kind}": len(raw) for kind, raw in state.detectors.items()}
    for name in ("topology", "zones", "throwables", "incidents", "readings"):
        found[name] = len(msgspec.msgpack.encode(getattr(state, name)))
    return {"total": len(data), **dict(sorted(found.items(), key=lambda e: -e[1]))}


def many_jobs(count: int) -> tuple[int, int]:
    """Bytes of state of one cluster after a third of `count` distinct job ids, and after all of them."""
    meter = Meter()
    after: list[int] = []
    third = -(-count // 3)
    for first in range(0, count, third):
        for start in range(first, min(first + third, count), 1_000):
            events = [e for n in range(start, min(start + 1_000, first + third, count)) for e in _short_life(n)]
            meter.step(events, events[-1].timestamp)
        after.append(len(meter.store.get("c") or b""))
    return after[0], after[-1]


def _short_life(n: int) -> list[Event]:
    job, at = f"{n:032x}", n * 100
    return [
        log("job_state", at, 4 * n, job=job, name=f"job-{n}", state="RUNNING", before="CREATED"),
        log("checkpoint_triggered", at + 10, 4 * n + 1, job=job, checkpoint="1", epoch=str(START + at + 10)),
        log("checkpoint_completed", at + 20, 4 * n + 2, job=job, checkpoint="1", duration="10", bytes="1"),
        log("checkpoint_triggered", at + 30, 4 * n + 3, job=job, checkpoint="2", epoch=str(START + at + 30)),
    ]


def profile(minutes: int) -> None:
    """The ten most expensive functions of a mixed stream, by their own time."""
    meter, cluster = Meter(), Cluster("cluster-0", JOBS, TMS)
    seconds = [cluster.second(s) for s in range(60 * minutes)]
    watch = cProfile.Profile()
    watch.enable()
    for second, events in enumerate(seconds):
        meter.step(events, START + second * 1000 + 999)
    watch.disable()
    pstats.Stats(watch).sort_stats("tottime").print_stats(30)


def table(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Two columns."""
    print(f"\n{title}")
    for name, value in rows:
        print(f"  {name:<48} {value:>16}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, in seconds")
    parser.add_argument("--profile", action="store_true", help="only say where the time goes")
    options = parser.parse_args()
    # As in the job's workers: the collector rests while a batch is worked on.
    gc.disable()
    if options.profile:
        profile(5 if options.quick else 30)
        return
    clusters, part_s = (1, 360) if options.quick else (1, 3_600)
    print(f"1 event: a log line that matters, or a metric record ({SCRAPE_EVERY_S} s between two of a process)")

    lines = catch_up(backlog_of_lines(6_000 if options.quick else 60_000))
    minutes = 2 if options.quick else 20
    pages = {m.samples // m.pages: m for m in (catch_up(backlog_of_pages(minutes, slots)) for slots in (4, 10))}
    lines_s, pages_s = lines.events() / lines.seconds, {n: m.events() / m.seconds for n, m in pages.items()}
    samples_s = max(m.samples / m.seconds for m in pages.values())
    table(
        "A backlog, on one core",
        [
            ("log lines a second", f"{lines_s:,.0f}"),
            *((f"metric records of {n} samples a second", f"{rate:,.0f}") for n, rate in pages_s.items()),
            ("samples a second", f"{samples_s:,.0f}"),
        ],
    )

    meter = Meter()
    costs = history(meter, clusters, 10, part_s)
    stretch = part_s * 10 * clusters
    cores = FLEET * meter.seconds / stretch
    table(
        f"The fleet as it happens, batches of a second: {FLEET} clusters, {FLEET * JOBS:,} jobs, {FLEET * TMS:,} "
        f"TaskManagers; {clusters} cluster is run, the others count as the same",
        [
            ("events a second", f"{FLEET * meter.events() / stretch:,.0f}"),
            ("samples a second", f"{FLEET * meter.samples / stretch:,.0f}"),
            ("cores", f"{cores:.2f}"),
            ("transitions (a healthy fleet: none)", str(meter.said)),
            *((f"µs an event, stretch {n} of {part_s} s", f"{c:.1f}") for n, c in enumerate(costs, 1)),
        ],
    )
    small = sizes(meter.store.get("cluster-0") or b"")
    parts = large(600 if options.quick else 3_600)
    table(
        f"State, bytes: {LARGE_JOBS} jobs, {LARGE_TMS} TaskManagers",
        [(name, f"{size:,}") for name, size in parts.items()],
    )
    third, whole = many_jobs(10_000 if options.quick else 100_000)
    table(
        "State, bytes",
        [
            (f"{JOBS} jobs, {TMS} TaskManagers", f"{small['total']:,}"),
            ("one cluster after a third of the job ids", f"{third:,}"),
            (f"one cluster after {10_000 if options.quick else 100_000:,} job ids", f"{whole:,}"),
        ],
    )
    print(
        json.dumps(
            {
                "state_bytes": parts["total"],
                "log_lines_per_s": round(lines_s),
                **{f"records_of_{n}_samples_per_s": round(rate) for n, rate in pages_s.items()},
                "samples_per_s": round(samples_s),
                "fleet_cores": round(cores, 3),
                "us_per_event_first": round(costs[0], 1),
                "us_per_event_last": round(costs[-1], 1),
                "last_over_first": round(costs[-1] / costs[0], 2),
                "state_bytes_third_of_job_ids": third,
                "state_bytes_all_job_ids": whole,
            }
        )
    )


if __name__ == "__main__":
    main()
