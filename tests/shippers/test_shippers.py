"""Real shippers with the configurations of docs/shippers.md: what they write gives the incident of the files."""

import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from detectors.events.event import Record
from sinks.kafka.access import KafkaAccess
from streaming.configuration.settings import Kafka
from streaming.recordings.capture import capture
from streaming.recordings.recording import records_of
from tests.embedded.broker import Broker
from tests.shippers.programs import LOG_SHIPPERS, METRIC_SHIPPERS, Shipper
from tests.shippers.shipped import SAMPLES, judge, page, pages_as_shipped, points, write_logs

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


Regenerate = Callable[[Path], None]


@pytest.fixture
def regenerate(request: pytest.FixtureRequest) -> Regenerate:
    """Keeps a recording as a sample, with `--regenerate`."""

    def keep(recorded: Path) -> None:
        if request.config.getoption("--regenerate"):
            (SAMPLES / recorded.name).write_bytes(recorded.read_bytes())

    return keep


@pytest.mark.parametrize("shipper", LOG_SHIPPERS, ids=lambda s: s.name)
def test_the_logs_give_the_incident(broker: Broker, tmp_path: Path, shipper: Shipper, regenerate: Regenerate) -> None:
    # The samples have the name of the folder in them.
    with tempfile.TemporaryDirectory(prefix="flink-log-") as logs:
        last = [line[:60].encode() for line in write_logs(Path(logs), int(time.time() * 1000))]
        out = ship(
            broker, tmp_path, shipper, {"/opt/flink/log": logs}, lambda values: all(one in values for one in last)
        )
    judge(records_of(out))
    regenerate(out)


@pytest.mark.parametrize("shipper", METRIC_SHIPPERS, ids=lambda s: s.name)
def test_the_metrics_are_those_of_the_pages(
    broker: Broker, tmp_path: Path, shipper: Shipper, regenerate: Regenerate
) -> None:
    with served(page("jm-1")) as jobmanager, served(page("tm-1")) as taskmanager:
        names = {"jobmanager:9249": jobmanager, "taskmanager-1:9249": taskmanager, "15s": "1s"}
        there = (b"flink_jobmanager_numRegisteredTaskManagers", b"flink_taskmanager_Status_JVM_Memory_Heap_Max")
        out = ship(broker, tmp_path, shipper, names, lambda values: all(one in values for one in there))
    assert points(records_of(out)) == pages_as_shipped()
    regenerate(out)


def ship(
    broker: Broker, folder: Path, shipper: Shipper, names: dict[str, str], arrived: Callable[[bytes], bool]
) -> Path:
    """Runs a shipper until all has arrived. `names` of the page are replaced. Returns the recording of its topic."""
    if shipper.path() is None:
        pytest.skip(f"{shipper.program} is not installed: see tests/shippers/README.md")
    topic = f"shipped.{shipper.name}"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.close()
    access = KafkaAccess(bootstrap_servers=broker.bootstrap)
    kafka = Kafka(access=access, logs=[topic], metrics=[f"{topic}.none"])
    out = folder / f"{shipper.name}.jsonl.gz"
    topics = {"flink.logs": topic, "flink.metrics": topic}
    process = shipper.start(folder, names | topics | {"kafka-1:9092": broker.bootstrap})
    deadline = time.monotonic() + 180
    try:
        while not arrived(captured(kafka, out)):
            log = (folder / shipper.name / "log").read_text(errors="replace")[-3000:]
            assert process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(1)
    finally:
        stop(process)
    return out


def captured(kafka: Kafka, out: Path) -> bytes:
    """All values of the topic so far, one after the other; `out` has their records."""
    capture(kafka, 0, out)
    return b"\n".join(record.value or b"" for record in records_of(out))


@contextmanager
def served(shown: Record) -> Iterator[str]:
    """The address of a server whose /metrics is the page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(shown.value or b"")

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends it; one that does not answer is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)
