"""The canary through the real job: readiness goes with it."""

import http.client
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sinks.delivery.service import Delivery
from streaming.configuration.settings import Settings
from streaming.job.deliver import new_delivery
from tests.e2e.harness import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CANARY_S = 2


@pytest.fixture
def here(installation: Callable[..., Installation]) -> Installation:
    """A job with a heartbeat and canaries, not started."""
    made = installation(heartbeat=True, canary=f"{CANARY_S}s")
    made.create_inputs()
    return made


@pytest.fixture
def delivery(here: Installation) -> Iterator[Delivery]:
    """Delivery beside it, as `flinkwatch deliver` runs it."""
    page = {"prometheus": {"address": "127.0.0.1", "port": 0}}
    running = new_delivery(Settings.model_validate({**here.configuration, "sinks": page}))
    running.start()
    yield running
    running.stop()


def get(port: int, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def await_status(port: int, status: int, within: float = 300.0) -> str:
    """What readiness says once it has that status."""
    deadline = time.monotonic() + within
    while (answer := get(port, "/-/ready"))[0] != status:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer[1]


def jvm_of(pid: int) -> int:
    """The JVM of the driver: the process `java` below it."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The fourth field after the name is the process group; the JVM stays in that of the driver.
        if name == "java" and int(rest.split()[2]) == pid:
            return int(entry.name)
    raise AssertionError(f"no JVM in the process group {pid}")


def test_readiness_goes_with_the_canary_and_no_incident_comes_of_it(here: Installation, delivery: Delivery) -> None:
    """Injected faults: a query that stands still while the heartbeat goes on, and a job that is killed."""
    port = delivery.page.port
    here.job.start()
    await_status(port, 200)
    shown = get(port, "/metrics")[1]
    assert "\nflinkwatch_canary_round_trip_seconds " in shown
    assert "\nflinkwatch_canary_timestamp_seconds " in shown

    jvm = jvm_of(here.job.pid)
    os.kill(jvm, signal.SIGSTOP)
    try:
        said = await_status(port, 503)
    finally:
        os.kill(jvm, signal.SIGCONT)
    assert said.startswith("canary: the last canary that arrived was sent ")
    await_status(port, 200)

    # The page of a job without delivery: what Spark says of its progress.
    shown = get(here.job.page_port, "/metrics")[1]
    for name in (
        "batch_duration_seconds_count",
        "consumer_lag_records",
        "config_info",
        "state_memory_bytes",
        "build_info",
    ):
        assert f"\nflinkwatch_{name}" in shown
    assert get(here.job.page_port, "/-/ready")[0] == 200

    here.job.kill()
    await_status(port, 503)
    assert here.transitions() == []
    assert here.rejected() == []
