"""F19: a day of two clusters in a quarter of an hour, with incidents opening and ending: nothing of the job grows.

`FLINKWATCH_SOAK_HOURS` is how much of the stream is played, a hundred times faster than it happened. The figures are
shown with `--log-cli-level=INFO`.
"""

import logging
import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest
from kafka import KafkaProducer

from detectors.numerics.trend import theil_sen
from tests.bench.shipped import Shipped, ShippedCluster, seconds
from tests.bench.usage import tree
from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.embedded.job_process import JobProcess
from tests.fake_slack.server import TOKEN, SlackServer

_log = logging.getLogger(__name__)

HOURS = float(os.environ.get("FLINKWATCH_SOAK_HOURS", "24"))
SPEED = 100
EXPIRES_EVERY_S = 600
SAMPLE_EVERY_S = 10.0
MAY_GROW = 0.05
"""Share of a figure's usual value by which its trend may rise in what is measured of the run."""

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(HOURS * 3600 / SPEED + 900)]


class Figures(NamedTuple):
    """What a leak would show in: resident bytes of Python's processes, live bytes of the JVM's heap, and counts."""

    python: float
    heap: float
    threads: float
    descriptors: float
    checkpoint_files: float
    series: float


def figures(job: JobProcess, folder: Path) -> Figures:
    """Now; without a full collection yet, the heap is 0."""
    processes = tree(job.pid)
    counts = [_count(process.pid) for process in processes]
    with urllib.request.urlopen(f"{job.page_url}/metrics", timeout=30) as answer:
        page = answer.read().decode()
    return Figures(
        python=sum(p.rss for p in processes if p.name.startswith("python")),
        heap=_live_heap(folder),
        threads=sum(threads for threads, _ in counts),
        descriptors=sum(descriptors for _, descriptors in counts),
        checkpoint_files=sum(len(files) for _, _, files in os.walk(folder / "checkpoint")),
        series=len(page.splitlines()),
    )


def fleet(begins: int) -> Iterator[list[Shipped]]:
    """The records of each second: two clusters that run well, but for a checkpoint that expires now and then."""
    clusters = [ShippedCluster(f"soak-{n}", 2, 3, begins) for n in range(2)]
    for second, records in enumerate(seconds(clusters, 3, 5)):
        number, rest = divmod(second, EXPIRES_EVERY_S)
        yield records + (clusters[number % 2].expire(second, number // 2 % 2) if rest == EXPIRES_EVERY_S // 2 else [])


def play(here: Installation, begins: int, ended: threading.Event, hours: float = HOURS, speed: float = SPEED) -> None:
    """Write the fleet at its pace, each record and a heartbeat a second dated as it would have been."""
    topics = {"flink.logs": here.logs, "flink.metrics": here.metrics}
    # What a broker that is away for a while cannot take waits.
    producer = KafkaProducer(bootstrap_servers=here.bootstrap, max_request_size=4_000_000, delivery_timeout_ms=600_000)
    began = time.monotonic()
    for second, records in zip(range(int(hours * 3600)), fleet(begins), strict=False):
        time.sleep(max(0.0, began + second / speed - time.monotonic()))
        at = begins + second * 1000
        for topic, key, value in records:
            producer.send(topics[topic], key=key, value=value, timestamp_ms=at)
        producer.send(f"{here.prefix}.heartbeat", value=b"", timestamp_ms=at)
        if ended.is_set():
            break
    producer.close(timeout=600)


def test_f19_a_day_makes_nothing_grow(installation: Callable[..., Installation]) -> None:
    # Full collections at each sample: between them the heap rises for minutes.
    here = installation(trigger="1s", spark={"spark.cleaner.periodicGC.interval": f"{SAMPLE_EVERY_S:.0f}s"})
    here.create_inputs()
    begins = int(time.time() - HOURS * 3600) * 1000
    with SlackServer() as slack:
        told = {"enabled": True, "channel": "flink-alerts", "base_url": slack.base_url, "charts": False}
        collections = f"-Xlog:gc:file={here.folder}/gc-%p.log"
        environment = {"SLACK_BOT_TOKEN": TOKEN, "JDK_JAVA_OPTIONS": collections}
        here.job = JobProcess(here.folder, {**here.configuration, "sinks": {"slack": told}}, environment=environment)
        here.job.start()
        here.job.await_ready()
        ended = threading.Event()
        writer = threading.Thread(target=play, args=(here, begins, ended))
        writer.start()
        try:
            found = []
            while writer.is_alive():
                writer.join(SAMPLE_EVERY_S)
                assert here.job.exit_status() is None, here.job.log_tail()
                found.append((time.monotonic(), figures(here.job, here.folder)))
        finally:
            ended.set()
            writer.join()
        here.wait_for(lambda: here.transitions()[-1].transition == "resolved")
        assert here.job.terminate() == 0
        parents = len(slack.parents())
    said = here.transitions()
    opened = sum(t.transition == "opened" for t in said)
    _log.info("%s incidents, %s messages, %s samples", opened, parents, len(found))
    assert opened >= HOURS * 3600 / EXPIRES_EVERY_S / 2
    assert opened == sum(t.transition == "resolved" for t in said)
    settled = found[len(found) // 3 :]
    times = [at for at, _ in settled]
    growing = {}
    for name in Figures._fields:
        values = [getattr(f, name) for _, f in settled]
        usual, rise = median(values), theil_sen(times, values).slope * (times[-1] - times[0])
        _log.info("%s: %s, and %+.2f %% in %.0f s", name, f"{usual:,.0f}", 100 * rise / usual, times[-1] - times[0])
        if rise > MAY_GROW * usual:
            growing[name] = values
    assert growing == {}


def _count(pid: int) -> tuple[int, int]:
    """Threads and open file descriptors of a process; none when it has just ended."""
    try:
        return len([*Path(f"/proc/{pid}/task").iterdir()]), len([*Path(f"/proc/{pid}/fd").iterdir()])
    except OSError:
        return 0, 0


def _live_heap(folder: Path) -> float:
    """What the latest full collection has left, bytes."""
    collections = "".join(log.read_text(errors="replace") for log in folder.glob("gc-*.log"))
    left = re.findall(r"Pause Full .* \d+M->(\d+)M\(", collections)
    return int(left[-1]) * 2.0**20 if left else 0.0
