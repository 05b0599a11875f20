"""The embedded broker is a real one, survives a crash with its data, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import UnknownTopicOrPartitionError

from tests.embedded import broker as module
from tests.embedded import listeners
from tests.embedded.broker import Broker, BrokerError

pytestmark = pytest.mark.e2e

LEASH = Path(module.__file__).with_name("die_with_parent.py")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        admin = KafkaAdminClient(bootstrap_servers=running.bootstrap)
        admin.create_topics([NewTopic("kept", 1, 1)])
        admin.close()
        yield running


def within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    # A zombie is gone too: whoever adopted it has not looked yet.
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def written(broker: Broker, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    producer.send("kept", value).get(timeout=120)
    producer.close()


def read(broker: Broker) -> list[bytes]:
    where = TopicPartition("kept", 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    consumer.assign([where])
    consumer.seek_to_beginning(where)
    end = consumer.end_offsets([where])[where]
    values = []
    while consumer.position(where) < end:
        values += [record.value for records in consumer.poll(timeout_ms=1_000).values() for record in records]
    consumer.close()
    return values


def in_the_foreground(scratch: Path) -> "subprocess.Popen[str]":
    """The broker's own command; what it leaves behind when it is killed is the test's."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.embedded.broker"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )


def test_a_crash_keeps_the_address_and_every_acknowledged_record(broker: Broker) -> None:
    written(broker, b"before the crash")
    address, pid = broker.bootstrap, broker.pid
    broker.kill()
    with pytest.raises(BrokerError, match="not running"):
        _ = broker.pid
    broker.restart()
    assert broker.bootstrap == address
    assert broker.pid != pid
    written(broker, b"after the crash")
    assert read(broker) == [b"before the crash", b"after the crash"]


def test_a_topic_nobody_made_does_not_come_into_being(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        with pytest.raises(UnknownTopicOrPartitionError):
            admin.delete_topics(["misspelt"])
        assert "misspelt" not in admin.list_topics()
    finally:
        admin.close()


def test_starting_what_runs_changes_nothing(broker: Broker) -> None:
    pid = broker.pid
    assert broker.start().pid == pid


def test_leaving_the_block_leaves_neither_process_nor_files() -> None:
    with Broker() as broker:
        pid, folder = broker.pid, broker.folder
        assert folder is not None
        assert folder.exists()
    assert gone(pid)
    assert not folder.exists()


def test_the_broker_outlives_the_thread_that_started_it() -> None:
    broker = Broker()
    try:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(broker.start).result()
        assert not within(1.0, lambda: gone(broker.pid))
    finally:
        broker.close()


def test_a_broker_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        listeners, "SERVER_PROPERTIES", listeners.SERVER_PROPERTIES.replace("threads=4", "threads=none")
    )
    broker = Broker()
    with pytest.raises(BrokerError, match=r"num\.io\.threads"):
        broker.__enter__()
    assert broker.folder is None


def test_a_broker_that_is_not_ready_in_time_is_ended() -> None:
    broker = Broker(start_within=1.0)
    with pytest.raises(BrokerError):
        broker.__enter__()
    assert broker.process is None or broker.process.poll() is not None


def test_kill_9_of_the_parent_takes_the_broker_along(tmp_path: Path) -> None:
    parent = in_the_foreground(tmp_path)
    assert parent.stdout is not None
    line = parent.stdout.readline()
    pid = int(line.split("process ")[1].split(".")[0])
    assert not gone(pid)
    parent.kill()
    parent.wait(10)
    assert within(120, lambda: gone(pid))


def test_in_the_foreground_it_stops_in_order_when_told_to(tmp_path: Path) -> None:
    parent = in_the_foreground(tmp_path)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline().split("process ")[1].split(".")[0])
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(30) == 0
    assert gone(pid)


def test_where_the_kernel_does_not_tell_the_leash_looks(tmp_path: Path) -> None:
    script = LEASH.read_text().replace('sys.platform == "linux"', "False")
    (tmp_path / "die_with_parent.py").write_text(script)
    source = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, sys.argv[1], str(os.getpid()), '/bin/sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path / "die_with_parent.py")], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not gone(pid)
    parent.kill()
    parent.wait(10)
    assert within(120, lambda: gone(pid))
