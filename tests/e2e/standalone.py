"""A standalone Spark cluster on this machine: a master and workers, each a process, as an operator would start them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from streaming.setup.java import find_java
from tests.embedded.broker import LEASH
from tests.embedded.job_process import free_port

SPARK_HOME = Path(pyspark.__file__).parent
EXECUTOR = b"CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """Lives as long as the `with` block; each worker has one core. Executors see nothing but their own directory."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder = folder
        self._count = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        try:
            port = self.master.rpartition(":")[2]
            deploy = "org.apache.spark.deploy"
            self._start(f"{deploy}.master.Master", "--port", port)
            for number in range(self._count):
                directory = self._folder / f"worker-{number}"
                options = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory))
                self._start(f"{deploy}.worker.Worker", *options, self.master)
            self._await_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Executors end by themselves when their worker does."""
        for process in reversed(self._processes):
            os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

    def executors(self) -> list[int]:
        """Process ids of the executors that run now."""
        workers = {p.pid for p in self._processes[1:]}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in workers and EXECUTOR in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return sorted(found)

    def logs(self) -> str:
        """All that master, workers and executors wrote."""
        files = [*self._folder.glob("*.log"), *self._folder.glob("worker-*/*/*/std*")]
        return "\n".join(file.read_text(errors="replace") for file in files)

    def _start(self, name: str, *arguments: str) -> None:
        command = [
            str(SPARK_HOME / "bin" / "spark-class"),
            name,
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *arguments,
        ]
        # What a worker has, its executors have: nothing of this project.
        environment = {n: v for n, v in os.environ.items() if n not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        environment |= {"JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        with (self._folder / f"{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
                start_new_session=True,
            )
        self._processes.append(process)

    def _await_workers(self) -> None:
        deadline = time.monotonic() + 600
        said = self._folder / "0.log"
        while said.read_text(errors="replace").count("Registering worker") < self._count:
            if time.monotonic() > deadline or any(p.poll() is not None for p in self._processes):
                raise RuntimeError(f"the cluster did not start:\n{self.logs()[-3000:]}")
            time.sleep(0.2)
