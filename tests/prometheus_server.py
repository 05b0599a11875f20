"""A real Prometheus (Debian: package prometheus) on recorded samples or on pages that run."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self


def available() -> bool:
    """Whether Prometheus is installed."""
    return bool(shutil.which("prometheus") and shutil.which("promtool"))


def import_samples(page: Path, folder: Path) -> None:
    """Make the samples of a page of OpenMetrics, with their own times, blocks of the database in `folder`.

    Blocks cannot hold the marks that end a series whose target is gone: take a short `lookback`.
    """
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(page), str(folder / "data")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Prometheus:
    """A server on a free port of 127.0.0.1; `config` is its prometheus.yml, `lookback` how long a sample counts."""

    def __init__(self, folder: Path, config: str = "{}", lookback: str = "5m") -> None:
        self._folder = folder
        self._config = config
        self._lookback = lookback

    def __enter__(self) -> Self:
        file = self._folder / "prometheus.yml"
        file.write_text(self._config, encoding="utf-8")
        (self._folder / "data").mkdir(exist_ok=True)
        self._port = _free_port()
        self._process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                "--storage.tsdb.retention.time=100y",
                f"--query.lookback-delta={self._lookback}",
                f"--web.listen-address=127.0.0.1:{self._port}",
                "--log.level=error",
            ],
            env={**os.environ, "GOMAXPROCS": "2"},
        )
        try:
            self._await_ready()
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._port}"

    def instant(self, expr: str, at: float) -> list[dict[str, Any]]:
        """The series of an expression at a time, epoch s."""
        return self._ask("query", query=expr, time=at)["result"]  # type: ignore[no-any-return]

    def over(self, expr: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """The series of an expression from `start` to `end`, epoch s, every `step` seconds."""
        return self._ask("query_range", query=expr, start=start, end=end, step=step)["result"]  # type: ignore[no-any-return]

    def label_values(self, selector: str, label: str, start: float, end: float) -> list[str]:
        """The values that a label has in the series of a selector."""
        return self._ask(f"label/{label}/values", **{"match[]": selector}, start=start, end=end)  # type: ignore[no-any-return]

    def _ask(self, path: str, **question: object) -> Any:
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(question)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{question}: {error.read().decode()}") from error

    def _await_ready(self) -> None:
        for _ in range(300):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5).close()
                return
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError("Prometheus does not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
