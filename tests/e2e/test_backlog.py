"""A backlog: very long lines are read in bounded memory, and one of several batches makes nobody wait."""

import time
from collections.abc import Callable

import pytest
from kafka import KafkaProducer

from detectors.events.event import Record
from detectors.incident import decode_reading
from tests.bench.usage import Usage
from tests.e2e.harness import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]

LINE = b"2026-11-21 02:10:52,332 INFO  a.b.CheckpointCoordinator [] - Completed checkpoint of " + b"x" * 400_000
LINES = 2_500
# A worker with its libraries has about 180 MB; all lines of the backlog at once would add 240 MB, and their copies.
MOST = 330_000_000


def test_a_backlog_of_long_lines_is_read_in_bounded_memory(installation: Callable[..., Installation]) -> None:
    here = installation()
    here.create_inputs(partitions=1)
    # Packed, or the test would count bytes for minutes; the job has them unpacked.
    producer = KafkaProducer(bootstrap_servers=here.bootstrap, compression_type="gzip", max_request_size=20_000_000)
    now = int(time.time() * 1000)
    for _ in range(LINES):
        producer.send(here.logs, key=b"prod/jm-1", value=LINE, timestamp_ms=now)
    producer.flush(timeout=600)
    producer.close()
    here.job.start()
    heartbeats = iter(range(10_000))

    def read() -> bool:
        here.heartbeat(now + 20_000 * next(heartbeats))
        done = sum(value for key, value in here.readings().items() if key.startswith("records_read_total"))
        return done >= LINES

    with Usage(here.job.pid) as usage:
        here.wait_for(read, within=1_200)
    assert max(size for name, size in usage.peak() if name.startswith("python")) < MOST, usage.peak()
    assert here.job.terminate() == 0


def test_after_a_backlog_of_many_batches_no_cluster_waits(installation: Callable[..., Installation]) -> None:
    """An outage of a minute and a half, of which each batch takes a little: the heartbeat is read ahead of it."""
    here = installation(max_offsets_per_trigger=100, heartbeat=True)
    here.create_inputs()
    now = int(time.time() * 1000)
    line = b"2026-11-21 02:10:52,332 INFO  a.b.CheckpointCoordinator [] - Completed checkpoint 7 for job x"
    here.send(
        Record("flink.logs", number % 2, 0, now - 90_000 + 45 * number, b"prod/jm-1", line, ())
        for number in range(2_000)
    )
    here.job.start()

    def clock() -> float:
        return here.readings().get("stream_time_timestamp_seconds []", 0.0)

    here.wait_for(lambda: clock() > now / 1000 + 20, within=300)
    waited = [r for r in map(decode_reading, here.values("readings")) if r.name == "cluster_waits_seconds" and r.value]
    assert waited == []
    read = sum(value for key, value in here.readings().items() if key.startswith("records_read_total"))
    assert read == 2_000
    assert here.job.terminate() == 0
