"""`flinkwatch run` as a process of its own, started as a user would: for the demo and the tests."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.embedded.broker import LEASH

_STOP_WITHIN_S = 45.0
_PROJECT = Path(__file__).resolve().parents[2]


class JobProcessError(RuntimeError):
    """The job ended, or was not ready in time; the message carries the end of its log."""


class JobProcess:
    """The job with `configuration` (a document as in the YAML file); its files are in `folder`.

    `module` is what Python runs: another one when a test looks into the job. It dies with this process.
    """

    def __init__(
        self,
        folder: Path,
        configuration: Mapping[str, Any],
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        module: str = "streaming",
    ) -> None:
        self.log = folder / "job.log"
        self._config = folder / "flinkwatch.yaml"
        self._arguments = arguments
        self._module = module
        self._environment = {**os.environ, "PYTHONPATH": str(_PROJECT), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.page_port = free_port()
        self._config.write_text(yaml.safe_dump(_with_page(configuration, self.page_port)))

    @property
    def page_url(self) -> str:
        """Address of its page, such as http://127.0.0.1:9108; with --no-deliver that of the job alone."""
        return f"http://127.0.0.1:{self.page_port}"

    @property
    def pid(self) -> int:
        """Process id of the driver's Python, which is also its process group."""
        if self._process is None:
            raise JobProcessError("the job was never started")
        return self._process.pid

    def start(self) -> None:
        """Start it; returns at once."""
        command = [
            sys.executable,
            "-m",
            self._module,
            "--log-format",
            "json",
            "run",
            "--config",
            str(self._config),
            *self._arguments,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def await_ready(self, within: float = 300.0, waiting: Callable[[], bool] = lambda: True) -> None:
        """Until its page says ready, or `waiting` says to give up. Raises JobProcessError."""
        self.await_condition(self._ready, within, waiting)

    def await_condition(
        self, met: Callable[[], bool], within: float, waiting: Callable[[], bool] = lambda: True
    ) -> None:
        """Until `met`, looking ten times a second while the job lives. Raises JobProcessError."""
        deadline = time.monotonic() + within
        while waiting() and not met():
            self.check()
            if time.monotonic() > deadline:
                raise JobProcessError(f"not so within {within:.0f} s:\n{self.log_tail()}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raises JobProcessError when it has ended."""
        if self.exit_status() is not None:
            raise JobProcessError(f"the job ended with status {self.exit_status()}:\n{self.log_tail()}")

    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process is not None else None

    def wait(self, within: float) -> int:
        """Its exit status, once it has ended by itself. Raises JobProcessError when it does not."""
        if self._process is None:
            raise JobProcessError("the job was never started")
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise JobProcessError(f"did not end within {within:.0f} s:\n{self.log_tail()}") from None

    def terminate(self) -> int:
        """SIGTERM, as an orderly stop; its exit status."""
        if self._process is None or self._process.poll() is not None:
            return self._process.returncode if self._process is not None else 0
        self._process.terminate()
        try:
            return self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise JobProcessError(f"did not end within {_STOP_WITHIN_S:.0f} s of SIGTERM:\n{self.log_tail()}") from None

    def kill(self) -> None:
        """kill -9 of everything: driver, JVM and Python workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def log_tail(self, lines: int = 15) -> str:
        """The end of what it logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _ready(self) -> bool:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{self.page_url}/-/ready", timeout=2),  # nosec B310 - its own page
        ):
            return True
        return False


def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _with_page(configuration: Mapping[str, Any], port: int) -> dict[str, Any]:
    sinks = {**configuration.get("sinks", {}), "prometheus": {"address": "127.0.0.1", "port": port}}
    streaming = {**configuration.get("streaming", {}), "metrics_port": port}
    return {**configuration, "sinks": sinks, "streaming": streaming}
