"""What a metric record costs in the read stage: `python tests/bench/reading.py [--records N]`.

The pages of `shipped.py`, 300 series each, through the stage that `mapInArrow` runs, and out of what it packs again, as
the stateful stage does; then the same samples as OTLP in JSON and in protobuf, and log lines in both. No Spark, no
Kafka; CPU time of one process, the least of five. The last line is JSON.
"""

import argparse
import json
import time
import zlib
from collections.abc import Callable

import pyarrow as pa
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from detectors.events.identity import Identity
from streaming.job.read import ReadStage
from streaming.job.rows import decode_packed
from tests.bench.clusters import START
from tests.bench.shipped import Shipped, ShippedCluster


def pages(count: int) -> list[Shipped]:
    """Records of the metric topic, of clusters with 2 jobs and 10 TaskManagers."""
    clusters = [ShippedCluster(f"cluster-{n:03d}", 2, 10, START) for n in range(5)]
    found: list[Shipped] = []
    second = 2
    while len(found) < count:
        found += [r for c in clusters for r in c.records(second) if r[0] == "flink.metrics"]
        second += 1
    return found[:count]


def arrow(records: list[Shipped]) -> pa.RecordBatch:
    """As Spark's Kafka source hands them over (`streaming.job.read.SELECTION`)."""
    count = len(records)
    return pa.record_batch(
        {
            "topic": [topic for topic, _, _ in records],
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([START + 60_000] * count, pa.int64()),
            "key": pa.array([key for _, key, _ in records], pa.binary()),
            "value": pa.array([value for _, _, value in records], pa.binary()),
            "headers": pa.array([None] * count, pa.string()),
        }
    )


def otlp_of(page: bytes) -> MetricsData:
    """The samples of a page as a collector's Prometheus receiver sends them: a gauge of one point for each."""
    found = MetricsData()
    scope = found.resource_metrics.add().scope_metrics.add()
    for line in page.decode().splitlines():
        series, _, value = line.rpartition(" ")
        name, _, labels = series.partition("{")
        point = scope.metrics.add(name=name).gauge.data_points.add(as_double=float(value), time_unix_nano=START * 10**6)
        for label in filter(None, labels.rstrip("},").split(",")):
            key, _, text = label.partition("=")
            point.attributes.add(key=key).value.string_value = text.strip('"')
    return found


def log_batch(count: int) -> LogsData:
    """Log records of one process as a collector sends them; one in eight says something."""
    found = LogsData()
    scope = found.resource_logs.add().scope_logs.add()
    for n in range(count):
        record = scope.log_records.add(time_unix_nano=(START + n) * 10**6, severity_number=9, severity_text="INFO")
        record.attributes.add(key="log.file.name").value.string_value = "jobmanager.log"
        text = f"Checkpoint {n} of job {'a' * 32} expired before completing." if n % 8 == 0 else f"Polling {n} again"
        record.body.string_value = f"2026-11-21 02:13:00,000 INFO  org.apache.flink.runtime.X [] - {text}"
    return found


def both(stage: ReadStage, topic: str, messages: list[Message]) -> dict[str, int]:
    """Microseconds and bytes of a record in each encoding."""
    measured: dict[str, int] = {}
    for name, encode in (
        ("json", lambda m: MessageToJson(m, use_integers_for_enums=True, indent=None).encode()),
        ("protobuf", lambda m: m.SerializeToString()),
    ):
        values = [encode(message) for message in messages]
        batch = arrow([(topic, b"cluster", value) for value in values])
        took = least(lambda batch=batch: list(stage.run(iter([batch]))))  # type: ignore[misc]
        measured[f"{topic}_{name}_us"] = round(took / len(values) * 1e6)
        measured[f"{topic}_{name}_bytes"] = sum(map(len, values)) // len(values)
    return measured


def least(work: Callable[[], object]) -> float:
    """CPU seconds, the least of five."""
    found = []
    for _ in range(5):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=220)
    options = parser.parse_args()
    records = pages(options.records)
    batch = arrow(records)
    stage = ReadStage(Identity(), ("flink.metrics",), "flinkwatch.config", "flinkwatch.heartbeat", 8)
    packed = [row.as_py() for out in stage.run(iter([batch])) for row in out.column(1)]
    values = b"".join(value for _, _, value in records)
    measured = {
        "records": len(records),
        "bytes": len(values) // len(records),
        "bytes_packed": sum(map(len, packed)) // len(records),
        "compressed_to": round(len(zlib.compress(values)) / len(values), 3),
        "read_us": round(least(lambda: list(stage.run(iter([batch])))) / len(records) * 1e6),
        "unpack_us": round(least(lambda: [decode_packed(row) for row in packed]) / len(records) * 1e6),
    }
    measured |= both(stage, "flink.metrics", [otlp_of(value) for _, _, value in records[:50]])
    measured |= both(stage, "flink.logs", [log_batch(200)] * 20)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
