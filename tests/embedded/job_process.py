"""Runs `flinkwatch run` in a process of its own, as a user would, for the demo and the tests."""

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

from tests.embedded.broker import DIE_WITH_PARENT

_STOP_WITHIN_S = 45.0
_PROJECT = Path(__file__).resolve().parents[2]


class JobProcessError(RuntimeError):
    """The job exited, or was not ready in time; the message contains the end of its log."""


class JobProcess:
    """A job with `configuration` (the content of the YAML file) and its files in `folder`.

    `page_port` is the port of the HTTP page, 0 for any. `module` is the module that Python runs; tests that instrument
    the job use another one. The job is killed when this process ends.
    """

    def __init__(
        self,
        folder: Path,
        configuration: Mapping[str, Any],
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        module: str = "streaming",
        page_port: int = 0,
    ) -> None:
        self.log = folder / "job.log"
        self._config = folder / "flinkwatch.yaml"
        self._arguments = arguments
        self._module = module
        self._environment = {**os.environ, "PYTHONPATH": str(_PROJECT), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.page_port = page_port or free_port()
        self._config.write_text(yaml.safe_dump(_with_page(configuration, self.page_port)))

    @property
    def page_url(self) -> str:
        """Address of the HTTP page, such as http://127.0.0.1:9108; with --no-deliver the job's own page."""
        return f"http://127.0.0.1:{self.page_port}"

    @property
    def pid(self) -> int:
        """Process id of the driver's Python process, which is also its process group."""
        if self._process is None:
            raise JobProcessError("the job was never started")
        return self._process.pid

    def start(self) -> None:
        """Start the job and return at once."""
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
                [sys.executable, "-I", "-S", str(DIE_WITH_PARENT), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    def await_ready(self, within: float = 300.0, waiting: Callable[[], bool] = lambda: True) -> None:
        """Wait until the job is ready, or `waiting` returns False. Raises JobProcessError."""
        self.await_condition(self._ready, within, waiting)

    def await_condition(
        self, met: Callable[[], bool], within: float, waiting: Callable[[], bool] = lambda: True
    ) -> None:
        """Wait until `met` returns True, ten checks a second, while the job runs. Raises JobProcessError."""
        deadline = time.monotonic() + within
        while waiting() and not met():
            self.check()
            if time.monotonic() > deadline:
                raise JobProcessError(f"the condition was not met within {within:.0f} s:\n{self.log_tail()}")
            time.sleep(0.1)

    def check(self) -> None:
        """Raise JobProcessError if the job has exited."""
        if self.exit_status() is not None:
            raise JobProcessError(f"the job exited with status {self.exit_status()}:\n{self.log_tail()}")

    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process is not None else None

    def wait(self, within: float) -> int:
        """Wait until the job exits by itself; return its status. Raises JobProcessError if it does not exit."""
        if self._process is None:
            raise JobProcessError("the job was never started")
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise JobProcessError(f"the job did not exit within {within:.0f} s:\n{self.log_tail()}") from None

    def terminate(self) -> int:
        """Stop the job with SIGTERM; return its exit status."""
        if self._process is None or self._process.poll() is not None:
            return self._process.returncode if self._process is not None else 0
        self._process.terminate()
        try:
            return self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise JobProcessError(
                f"the job did not exit within {_STOP_WITHIN_S:.0f} s of SIGTERM:\n{self.log_tail()}"
            ) from None

    def kill(self) -> None:
        """Kill the driver, the JVM and the Python workers with SIGKILL."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)

    def log_tail(self, lines: int = 15) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _ready(self) -> bool:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{self.page_url}/-/ready", timeout=2),  # nosec B310 - its own page
        ):
            return True
        return False


def free_port() -> int:
    """A port on 127.0.0.1 that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _with_page(configuration: Mapping[str, Any], port: int) -> dict[str, Any]:
    sinks = {**configuration.get("sinks", {}), "prometheus": {"address": "127.0.0.1", "port": port}}
    streaming = {**configuration.get("streaming", {}), "metrics_port": port}
    return {**configuration, "sinks": sinks, "streaming": streaming}
