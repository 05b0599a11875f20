"""`flinkwatch replay --follow`: what happens is printed when it happens, and Ctrl-C ends with the summary."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.streaming.cli.test_main import PROJECT

LOGGER = "org.apache.flink.runtime.entrypoint.ClusterEntrypoint"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the command; it is killed at the end if it still runs."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, **more: Any) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "streaming", "replay", "--follow", *map(str, arguments)]
        running.append(subprocess.Popen(command, cwd=PROJECT, text=True, stdout=subprocess.PIPE, **more))
        return running[-1]

    yield begin
    for one in running:
        one.kill()
        one.communicate()


def failure(reason: str) -> str:
    """What a JobManager logs before it ends."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,000")
    return f"{now} ERROR {LOGGER} [] - Fatal error occurred in the cluster entrypoint.\n{reason}\n"


def test_an_incident_is_printed_while_the_log_grows_and_again_in_the_summary(tmp_path: Path, start: Start) -> None:
    log = tmp_path / "flink-flink-standalonesession-0-jm-1.log"
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S,000")
    log.write_text(f"{now} INFO  {LOGGER} [] - Starting StandaloneSessionClusterEntrypoint (Version: 1.20.5)\n")
    running = start(log, "--time-zone", "UTC")
    log.rename(f"{log}.1")
    log.write_text(failure("java.lang.IllegalStateException: too old resource version"))
    assert running.stdout is not None
    assert running.stdout.readline().startswith("CRITICAL: JobManager lost")
    assert "too old resource version" in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    rest = running.communicate(timeout=120)[0]
    assert running.returncode == 0
    assert rest.endswith("1 incident (JobManager lost), still open at the end.\n")


def test_standard_input_is_followed_to_its_end(start: Start) -> None:
    running = start("-", "--json", stdin=subprocess.PIPE)
    out = running.communicate(failure("java.lang.IllegalStateException: too old resource version"), timeout=120)[0]
    assert running.returncode == 0
    assert '"cause":"jobmanager_lost"' in out.splitlines()[0]
