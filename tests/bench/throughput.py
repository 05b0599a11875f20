"""How many log lines a CPU-second brings through the job: `python tests/bench/throughput.py [--rounds N]`.

Ways over the same lines, in one run on one embedded broker: Kafka to nowhere with Spark's source as it comes (`noop`)
and with the job's own, whose fetches do not wait (`own source`); the whole job; mtail on the raw lines. `sparse`: 3 %
of the lines matter; `dense`: all do.

Each pass reads two batches of the set's size with a new query and counts the second alone: the job starts once, so what
the first batch of a query costs (Python workers, schemas, code generation) says nothing of throughput. The ways take
turns, the first turn is not counted, and the median of the others is. mtail reads the lines of the second batch, with
the patterns the job has (`mtail`) and with only those that occur in the data, arranged by hand (`mtail, short`).
The last line of output is JSON.
"""

import argparse
import itertools
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession
from pyspark.sql.streaming import DataStreamWriter

from detectors.events.vocabulary.match import PATTERNS
from sinks.kafka.access import spark_options
from sinks.kafka.topics import ensure_topics
from streaming.configuration.settings import Settings
from streaming.job.query import outbox, read, source, watch
from streaming.job.spark.session import start_session
from streaming.job.watch import OutputTopics
from tests.bench.corpus import Line, dense, sparse
from tests.bench.usage import Usage
from tests.embedded.broker import Broker

PARTITIONS = 2
COUNTS = {"sparse": 500_000, "dense": 200_000}
SHORT_PROGRAM = Path(__file__).with_name("short.mtail")


class Cost(NamedTuple):
    """What one pass took: wall seconds and CPU seconds of all its processes."""

    wall_s: float
    cpu_s: float


class Bench:
    """One broker with the records, one Spark session, and a folder for checkpoints."""

    def __init__(self, broker: Broker, folder: Path, counts: dict[str, int]) -> None:
        self._broker = broker
        self._folder = folder
        self._counts = counts
        self._passes = itertools.count()
        self.program = folder / "vocabulary.mtail"
        self.program.write_text(mtail_program())
        self.settings = {name: self._settings_of(name) for name in counts}
        self._admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        topics = self.settings["sparse"].kafka.topics
        ensure_topics(self._admin, topics, topics.create)

    def _settings_of(self, name: str) -> Settings:
        kafka = {"access": {"bootstrap_servers": self._broker.bootstrap}, "logs": [f"{name}.logs"], "metrics": []}
        return Settings.model_validate(
            {"kafka": kafka, "streaming": {"master": "local[2]", "max_offsets_per_trigger": self._counts[name]}}
        )

    def fill(self) -> None:
        """Write every set to Kafka, as Filebeat does, and the raw lines to a file for mtail."""
        start = int(time.time() * 1000) - 7 * 24 * 3_600_000
        for name, make in (("sparse", sparse), ("dense", dense)):
            self._admin.create_topics(
                {f"{name}.logs": {"num_partitions": PARTITIONS, "replication_factor": 1, "configs": {}}}
            )
            size = self._write(name, make(2 * self._counts[name], start))
            print(f"{name}: {self._counts[name]:,} records of {size / self._counts[name] / 2:.0f} bytes", flush=True)

    def _write(self, name: str, lines: Iterator[Line]) -> int:
        size = 0
        producer = KafkaProducer(bootstrap_servers=self._broker.bootstrap, linger_ms=50, batch_size=256 * 1024)
        with self.raw(name).open("w") as raw:
            for number, line in enumerate(lines):
                value = line.filebeat()
                size += len(value)
                producer.send(f"{name}.logs", value=value, partition=line.partition(PARTITIONS), timestamp_ms=line.time)
                if number >= self._counts[name]:
                    raw.write(line.text + "\n")
        producer.close()
        return size

    def raw(self, name: str) -> Path:
        """The raw lines of a set."""
        return self._folder / f"{name}.log"

    def nowhere(self, spark: SparkSession, usage: Usage, name: str) -> Cost:
        """Kafka → noop, as the source comes."""
        records = (
            spark.readStream.format("kafka")
            .options(**spark_options(self.settings[name].kafka.access))
            .option("subscribe", f"{name}.logs")
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", self._counts[name])
            .load()
        )
        return self._run(records.writeStream.format("noop"), usage, name)

    def own_source(self, spark: SparkSession, usage: Usage, name: str) -> Cost:
        """Kafka → noop with the job's own source: its columns, tasks and options, no Python."""
        records = source(spark, self.settings[name], self._earliest(name))
        return self._run(records.writeStream.format("noop").outputMode("append"), usage, name)

    def whole(self, spark: SparkSession, usage: Usage, name: str) -> Cost:
        """The job as it ships, but for its trigger."""
        settings = self.settings[name]
        topics = settings.kafka.topics
        packed = read(source(spark, settings, self._earliest(name)), settings)
        said = watch(packed, OutputTopics(topics.incidents, topics.readings, topics.rejected))
        return self._run(outbox(said, settings), usage, name)

    def _earliest(self, name: str) -> dict[str, dict[str, int]]:
        kafka = self.settings[name].kafka
        topics = {f"{name}.logs": PARTITIONS, kafka.topics.config: 1, kafka.topics.heartbeat: 1}
        return {topic: {str(p): -2 for p in range(count)} for topic, count in topics.items()}

    def _run(self, writer: DataStreamWriter, usage: Usage, name: str) -> Cost:
        checkpoint = str(self._folder / f"checkpoint-{next(self._passes)}")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        batches: list[Any] = [p for p in query.recentProgress if p["numInputRows"]]
        measured = batches[1]
        # Spark shares the limit out to the partitions and rounds: a record or two may be left for a third batch.
        if abs(measured["numInputRows"] - self._counts[name]) > 10:
            raise SystemExit(f"the second batch of {name} has {measured['numInputRows']} records")
        begin = datetime.fromisoformat(measured["timestamp"]).timestamp()
        wall_s = measured["durationMs"]["triggerExecution"] / 1000
        return Cost(wall_s, usage.cpu_s(begin, begin + wall_s))


def mtail_program() -> str:
    """The job's vocabulary in mtail's language: every log_pattern with its fields, counted by meaning and job."""
    rules = [
        f"/{'' if w.anywhere else ' - '}{w.pattern.replace('/', chr(92) + '/')}/ {{\n"
        f'  lines_total["{w.event_type}"][{"$job" if "(?P<job>" in w.pattern else chr(34) * 2}]++\n}}\n'
        for w in PATTERNS
    ]
    return "counter lines_total by meaning, job\n" + "".join(rules)


def mtail(program: Path, raw: Path) -> Cost:
    """mtail over the raw lines, counting."""
    command = [
        "mtail",
        "--one_shot",
        "--one_shot_format=json",
        "--logtostderr",
        "--progs",
        str(program),
        "--logs",
        str(raw),
    ]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(command, capture_output=True, timeout=300, check=True)
    end, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if b"checkpoint" not in done.stdout:
        raise SystemExit(f"mtail counted nothing: {done.stderr[-500:]!r}")
    return Cost(end - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def install_mtail() -> None:
    """Debian's package, when this is a Debian and we may."""
    if shutil.which("mtail") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(
            ["apt-get", "install", "-y", "--no-install-recommends", "mtail"],
            capture_output=True,
            timeout=300,
            check=False,
        )
    if shutil.which("mtail") is None:
        print("mtail is not installed (apt-get install mtail): its figures are left out", flush=True)


def median(costs: list[Cost]) -> Cost:
    """Median wall and median CPU time."""
    return Cost(statistics.median(c.wall_s for c in costs), statistics.median(c.cpu_s for c in costs))


def measure(
    bench: Bench, spark: SparkSession, usage: Usage, name: str, count: int, rounds: int
) -> dict[str, float | None]:
    """The figures of one set."""
    ways: dict[str, Callable[[], Cost]] = {
        "noop": lambda: bench.nowhere(spark, usage, name),
        "own source": lambda: bench.own_source(spark, usage, name),
        "whole job": lambda: bench.whole(spark, usage, name),
    }
    if shutil.which("mtail"):
        ways["mtail"] = lambda: mtail(bench.program, bench.raw(name))
        ways["mtail, short"] = lambda: mtail(SHORT_PROGRAM, bench.raw(name))
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for way, run in ways.items():
            cost = run()
            turn = f"round {number}" if number else "warm-up"
            print(
                f"{name:7s} {turn:8s} {way:14s} {cost.wall_s:6.2f} s {cost.cpu_s:6.2f} CPU-s "
                f"{count / cost.cpu_s:9,.0f} lines per CPU-s",
                flush=True,
            )
            if number:
                costs[way].append(cost)
    middle = {way: median(found) for way, found in costs.items()}
    noop, whole = middle["noop"], middle["whole job"]

    def against(way: str) -> float | None:
        return round(middle[way].cpu_s / whole.cpu_s, 3) if way in middle else None

    return {
        f"{name}_vs_noop": round(noop.wall_s / whole.wall_s, 3),
        f"{name}_vs_own_source": round(middle["own source"].wall_s / whole.wall_s, 3),
        f"{name}_vs_noop_cpu": against("noop"),
        f"{name}_vs_mtail": against("mtail"),
        f"{name}_vs_mtail_short": against("mtail, short"),
        f"{name}_lines_per_cpu_s": round(count / whole.cpu_s),
    }


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds of each way")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of records")
    options = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.ERROR)
    install_mtail()
    counts = {name: int(count * options.scale) for name, count in COUNTS.items()}
    figures: dict[str, float | None] = {}
    with Broker() as broker, tempfile.TemporaryDirectory(prefix="flinkwatch-bench-") as folder:
        bench = Bench(broker, Path(folder), counts)
        bench.fill()
        spark = start_session(bench.settings["sparse"].streaming)
        with Usage(os.getpid(), without=(broker.pid,)) as usage:
            for name, count in counts.items():
                figures |= measure(bench, spark, usage, name, count, options.rounds)
        spark.stop()
    figures["lines_per_cpu_s"] = figures["sparse_lines_per_cpu_s"]
    print("resident at the peak, MB:", ", ".join(f"{name} {size // 2**20}" for name, size in usage.peak()))
    figures["peak_rss_mb"] = usage.peak_rss() // 2**20
    figures["peak_pss_mb"] = usage.peak_pss() // 2**20
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(main())
