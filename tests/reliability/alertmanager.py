"""An Alertmanager process that tells the Slack stand-in of alerts, as a team would have it do."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.embedded.job_process import free_port
from tests.fake_slack.server import TOKEN, Call, SlackServer

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
"""Debian's name and the project's own; None when it is not installed."""

GROUP_INTERVAL_S = 5
"""5 min by default: shortened, so that a run is over soon. The alerts of the runs are shortened alike."""


class Alertmanager:
    """One instance with a folder of its own; `start` after `kill` finds what the folder holds."""

    def __init__(self, folder: Path) -> None:
        self.slack = SlackServer(on_call=self._called)
        self.kill_at_next_call = False
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        (folder / "alertmanager.yml").write_text(yaml.safe_dump(_configuration(self.slack.base_url)))

    def start(self) -> None:
        """Starts it; returns once it is ready."""
        assert PROGRAM is not None
        command = [
            PROGRAM,
            f"--config.file={self._folder / 'alertmanager.yml'}",
            f"--storage.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",
        ]
        with (self._folder / "alertmanager.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not self._ready():
            assert time.monotonic() < deadline, (self._folder / "alertmanager.log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def close(self) -> None:
        self.kill()
        self.slack.close()

    def dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def alert(self, name: str, *, ended: bool = False) -> None:
        """What Prometheus sends every minute or so of an alert that fires, and when it ends."""
        now = datetime.now(UTC)
        ends = now if ended else now + timedelta(minutes=5)
        times = {"startsAt": (now - timedelta(seconds=1)).isoformat(), "endsAt": ends.isoformat()}
        alert = {"labels": {"alertname": name}, "annotations": {}, **times}
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)) as connection:
            connection.request("POST", "/api/v2/alerts", json.dumps([alert]), {"Content-Type": "application/json"})
            assert connection.getresponse().status == 200

    def told(self, state: str) -> list[dict[str, Any]]:
        """The calls that stand in the channel and say FIRING or RESOLVED."""
        standing = len(self.slack.parents())
        said = [call.body for call in self.slack.calls if f"[{state}" in json.dumps(call.body)]
        return said if standing else []

    def _ready(self) -> bool:
        with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=2)) as connection:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
        return False

    def _called(self, _: Call) -> None:
        if self.kill_at_next_call and self._process is not None:
            self.kill_at_next_call = False
            os.kill(self._process.pid, signal.SIGKILL)


def _configuration(slack: str) -> dict[str, Any]:
    receiver = {
        "api_url": f"{slack}chat.postMessage",
        "channel": "#flink-alerts",
        "send_resolved": True,
        "http_config": {"authorization": {"type": "Bearer", "credentials": TOKEN}},
    }
    route = {
        "receiver": "slack",
        "group_by": ["alertname"],
        "group_wait": "1s",
        "group_interval": f"{GROUP_INTERVAL_S}s",
        "repeat_interval": "4h",
    }
    return {"route": route, "receivers": [{"name": "slack", "slack_configs": [receiver]}]}
