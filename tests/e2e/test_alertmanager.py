"""Against the real Alertmanager, as Debian packages it: `apt-get install prometheus-alertmanager`."""

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sinks.contract.outcome import Delivered
from sinks.contract.sink import Notification
from sinks.integrations.alertmanager import AlertmanagerConfig, AlertmanagerSink
from tests.embedded.job_process import free_port
from tests.unit.sinks.samples import make_transition

pytestmark = pytest.mark.e2e

_PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")


class Alertmanager:
    """A process of its own on 127.0.0.1; it forgets everything when it is started again."""

    def __init__(self, folder: Path) -> None:
        assert _PROGRAM is not None
        config = folder / "alertmanager.yml"
        config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\nglobal: {resolve_timeout: 1s}\n")
        self.port = free_port()
        self._process = subprocess.Popen(
            [
                _PROGRAM,
                f"--config.file={config}",
                f"--storage.path={folder}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> Any:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            text = answer.read()
            return json.loads(text) if text.startswith((b"[", b"{")) else text

    def active(self) -> dict[str, dict[str, str]]:
        """Labels of the alerts that are firing, by incident."""
        return {one["labels"]["incident"]: one["labels"] for one in self.get("/api/v2/alerts?active=true")}

    def wait(self) -> None:
        for _ in range(100):
            try:
                self.get("/-/ready")
            except (OSError, AssertionError):
                time.sleep(0.1)
            else:
                return
        raise AssertionError("alertmanager does not become ready")

    def close(self) -> None:
        self._process.kill()
        self._process.wait(5)


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[Alertmanager]:
    if _PROGRAM is None:
        pytest.skip("prometheus-alertmanager is not installed")
    running = Alertmanager(tmp_path)
    try:
        running.wait()
        yield running
    finally:
        running.close()


def notice(**changes: Any) -> Notification:
    return Notification(transition=make_transition(**changes))


def test_alertmanager_takes_fires_and_resolves_our_alerts(alertmanager: Alertmanager) -> None:
    config = AlertmanagerConfig(enabled=True, urls=(alertmanager.url,), resend_interval="1s", resolve_timeout="3s")
    sink = AlertmanagerSink(config)
    assert sink.send(notice()) == Delivered()
    assert sink.send(notice(incident="other", severity="critical")) == Delivered()
    assert alertmanager.active()["9f2c41d07b3e"]["alertname"] == "FlinkIncident"
    assert set(alertmanager.active()) == {"9f2c41d07b3e", "other"}
    assert sink.send(notice(incident="other", severity="critical", seq=2, transition="resolved")) == Delivered()
    assert set(alertmanager.active()) == {"9f2c41d07b3e"}
    # Longer than it is valid: what is sent again goes on firing.
    for _ in range(5):
        time.sleep(0.8)
        assert sink.resend() == Delivered()
    assert set(alertmanager.active()) == {"9f2c41d07b3e"}
    # What is no longer sent ends by itself.
    deadline = time.monotonic() + 60
    while alertmanager.active():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_change_of_severity_leaves_one_alert_firing(alertmanager: Alertmanager) -> None:
    sink = AlertmanagerSink(AlertmanagerConfig(enabled=True, urls=(alertmanager.url,)))
    sink.send(notice())
    sink.send(notice(seq=2, transition="updated", severity="critical"))
    firing = alertmanager.get("/api/v2/alerts?active=true")
    assert [one["labels"]["severity"] for one in firing] == ["critical"]
