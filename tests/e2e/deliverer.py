"""`flinkwatch deliver` as a process of its own, with its configuration file."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.embedded.broker import DIE_WITH_PARENT
from tests.embedded.job_process import free_port
from tests.fake_slack.server import TOKEN


class DelivererProcess:
    """Starts at once. `sinks` is the section of its file; the page of metrics is added to it."""

    def __init__(self, bootstrap: str, folder: Path, prefix: str, sinks: dict[str, Any]) -> None:
        self.port = free_port()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.log, self._file = folder / "deliver.log", folder / "flinkwatch.yaml"
        self._kafka = {"access": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}}
        self.configure(sinks)
        command = [sys.executable, "-m", "streaming", "deliver", "--config", str(self._file)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command],
                stdout=log,
                stderr=log,
                env=os.environ | {"SLACK_BOT_TOKEN": TOKEN, "TMPDIR": str(self.temporary)},
                cwd=Path(__file__).parents[2],
            )

    def configure(self, sinks: dict[str, Any]) -> None:
        """Write the file, from which the process takes what may change."""
        page = {"prometheus": {"address": "127.0.0.1", "port": self.port}}
        body = {"kafka": self._kafka, "streaming": {"heartbeat": False}, "sinks": page | sinks}
        self._file.write_text(yaml.safe_dump(body))

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except OSError:
            return 0, b""

    def eventually(self, met: Callable[[], bool], within: float = 300.0) -> None:
        deadline = time.monotonic() + within
        while not met():
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.1)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
