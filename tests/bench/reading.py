"""What a metric record costs in the read stage: `python tests/bench/reading.py [--records N]`.

The pages of `shipped.py`, 300 series each, through the stage that `mapInArrow` runs, and out of what it packs again, as
the stateful stage does. No Spark, no Kafka; CPU time of one process, the least of five. The last line is JSON.
"""

import argparse
import json
import time
import zlib
from collections.abc import Callable

import pyarrow as pa

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
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
