"""`flinkwatch deliver`: small, and ready only while canaries come back."""

import socket
import subprocess
import sys

import pytest

from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.deliver import new_delivery, run_delivery
from streaming.job.heartbeat import HeartbeatWriter
from streaming.threads import Stop


def test_delivery_loads_nothing_of_the_job() -> None:
    """Its goal of 150 MB has no room for Spark's libraries, nor, before a chart is drawn, for those of charts."""
    code = (
        "import sys, streaming.cli.main, streaming.job.deliver\n"
        "heavy = {'pyspark', 'pandas', 'pyarrow', 'numpy', 'matplotlib', 'py4j'} & set(sys.modules)\n"
        "print(*sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")


@pytest.mark.parametrize(
    ("streaming", "checked"),
    [({}, True), ({"canary": "0s"}, False), ({"heartbeat": False}, False)],
    ids=["default", "no canary", "no heartbeat"],
)
def test_readiness_waits_for_canaries_where_there_are_any(streaming: dict[str, object], checked: bool) -> None:
    delivery = new_delivery(Settings.model_validate({"streaming": streaming}))
    _, _, body = delivery.page.answer("/-/ready", "")
    assert (b"canary: no canary has arrived yet" in body) == checked


def test_the_first_heartbeat_is_a_canary_and_the_next_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new job is known to work at once, and then a canary is due once a minute."""
    clock = [100.0]
    monkeypatch.setattr("streaming.job.heartbeat.time.monotonic", lambda: clock[0])
    heartbeat = HeartbeatWriter(Settings().kafka.access, "heartbeat", every=1_000, canary_every=60_000)
    values = []
    for _ in range(122):
        values.append(heartbeat.next_value())
        clock[0] += 1
    assert [number for number, value in enumerate(values) if value.startswith(b"flinkwatch canary ")] == [0, 60, 120]
    assert set(values[1:60]) == {b""}


def test_a_taken_port_is_one_line_that_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.job.deliver.lasting_obstacle", lambda _access: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        page = {"address": "127.0.0.1", "port": taken.getsockname()[1]}
        with pytest.raises(PreflightError, match=r"^sinks\.prometheus: cannot listen on "):
            run_delivery(Settings.model_validate({"sinks": {"prometheus": page}}), Stop())
