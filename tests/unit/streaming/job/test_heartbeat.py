"""The heartbeat, with a producer that fails when a test says so."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import InvalidTimestampError, KafkaTimeoutError
from structlog.testing import capture_logs

from sinks.kafka.access import KafkaAccess
from sinks.secret import SecretError
from streaming.job.heartbeat import HeartbeatWriter, HostClock, heartbeat_headers, heartbeat_of


class Broker:
    """Makes producers; `errors` are what the next calls raise, None for a call that succeeds."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.written: list[bytes] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.published = threading.Event()

    def producer(self, **_: Any) -> Any:
        self._fail_if_due()
        return SimpleNamespace(send=self._send, close=lambda timeout: None)

    def _send(self, _: str, value: bytes, **fields: Any) -> Any:
        self._fail_if_due()
        self.written.append(value)
        self.heartbeats.append(fields)
        if value:
            self.published.set()
        return SimpleNamespace(add_errback=lambda _: None)

    def _fail_if_due(self) -> None:
        if error := self._errors.pop(0) if self._errors else None:
            raise error


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([SecretError("sasl_password_file: cannot read it")], id="no secret at first"),
        pytest.param([KafkaTimeoutError("no broker")], id="no broker at first"),
        pytest.param([None, KafkaTimeoutError("no broker")], id="the heartbeat fails"),
        pytest.param([None, None, KafkaTimeoutError("no broker")], id="the line fails"),
    ],
)
def test_no_failure_ends_the_heartbeat_or_loses_a_line(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None]
) -> None:
    broker = Broker(*errors)
    monkeypatch.setattr("sinks.kafka.clients.KafkaProducer", broker.producer)
    monkeypatch.setattr("streaming.job.heartbeat.explain", lambda _access, error: str(error))
    heartbeat = HeartbeatWriter(KafkaAccess(bootstrap_servers="localhost:9092"), "flinkwatch.heartbeat", every=1)
    heartbeat.publish_line("records were lost")
    heartbeat.start()
    try:
        assert broker.published.wait(10)
    finally:
        heartbeat.stop()
    assert [value for value in broker.written if value] == [b"records were lost"]


def test_after_a_heartbeat_that_the_broker_refuses_for_its_time_the_clock_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was a day ahead when the job started, and was set right since."""
    monkeypatch.setattr("streaming.job.heartbeat.explain", lambda _access, error: str(error))
    heartbeat = HeartbeatWriter(KafkaAccess(bootstrap_servers="localhost:9092"), "flinkwatch.heartbeat", every=1)
    wrong = HostClock(lambda: time.time() + 86_400)
    heartbeat.clock = wrong
    heartbeat.not_written(KafkaTimeoutError("no broker"))
    assert heartbeat.clock is wrong
    heartbeat.not_written(InvalidTimestampError("out of range"))
    assert abs(heartbeat.clock.steady(heartbeat.clock.now()) / 1000 - time.time()) < 60


def test_a_failed_batch_of_heartbeats_is_explained_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client reports each record of it from its own thread, which an explanation holds up for seconds."""
    asked: list[Exception] = []
    monkeypatch.setattr("streaming.job.heartbeat.explain", lambda _access, error: asked.append(error))
    heartbeat = HeartbeatWriter(KafkaAccess(bootstrap_servers="localhost:9092"), "flinkwatch.heartbeat", every=1)
    for _ in range(100):
        heartbeat.not_written(KafkaTimeoutError("no broker"))
    assert len(asked) == 1


def test_a_heartbeat_has_the_time_of_day_and_a_monotonic_time() -> None:
    """The Kafka timestamp is of the second: brokers refuse a time far ahead of their own."""
    wall, counted = [1_000.0], [50.0]
    clock = HostClock(lambda: wall[0], lambda: counted[0])
    first = clock.now()
    wall[0], counted[0] = 4_601.0, 51.0
    second = clock.now()
    assert (second.run, second.counted - first.counted, second.at - first.at) == (first.run, 1_000, 3_601_000)
    assert clock.steady(second) - clock.steady(first) == 1_000
    assert heartbeat_of(tuple(heartbeat_headers(second))) == second


@pytest.mark.parametrize("content", [b"", b"00000000 1", b"00000000 -1 5", b"x" * 100_000, b"\xff", b"0000000g 1 2"])
def test_a_heartbeat_without_a_valid_header_has_no_monotonic_time(content: bytes) -> None:
    assert heartbeat_of((("heartbeat", content),)) is None
    assert heartbeat_of(()) is None


def test_a_clock_that_was_set_is_logged_once() -> None:
    wall, counted = [1_000.0], [50.0]
    clock = HostClock(lambda: wall[0], lambda: counted[0])
    with capture_logs() as lines:
        for step in (0.0, 3_600.0, 0.0, -3_600.0, 1.0):
            wall[0], counted[0] = wall[0] + 1 + step, counted[0] + 1
            clock.now()
    warnings = [str(line) for line in lines if "clock of this host was changed" in line["event"]]
    assert ["3600" in line for line in warnings] == [True, True]
    assert "-3600" in warnings[1]


_FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
_BEATS = """
import sys
from streaming.job.heartbeat import HostClock
clock = HostClock()
for _ in sys.stdin:
    heartbeat = clock.now()
    print("heartbeat", heartbeat.counted, heartbeat.at, clock.steady(heartbeat), flush=True)
"""


@pytest.mark.skipif(not _FAKETIME.exists(), reason="libfaketime is not installed: apt-get install faketime")
@pytest.mark.parametrize("jump", [3_600, -3_600, 86_400, -86_400])
def test_a_host_whose_clock_is_set_beats_on(tmp_path: Path, jump: int) -> None:
    """A real process, whose clock libfaketime sets while it runs."""
    offset_file = tmp_path / "offset"
    offset_file.write_text("+0")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(_FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(offset_file),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    command = [sys.executable, "-c", _BEATS]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, stderr=-3, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        heartbeats = []
        for offset in ("+0", f"{jump:+d}", "+0"):
            offset_file.write_text(offset)
            process.stdin.write("\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).startswith("heartbeat"):
                assert line, "the process has ended"
            heartbeats.append([int(word) for word in line.split()[1:]])
        process.stdin.close()
        assert process.wait(30) == 0
    first, wrong, right = heartbeats
    assert abs((wrong[1] - first[1]) / 1000 - jump) < 60
    assert abs(right[1] - first[1]) < 60_000
    assert [b[2] - first[2] for b in heartbeats] == [b[0] - first[0] for b in heartbeats]
    assert 0 <= wrong[0] - first[0] < 60_000
