"""Spark's JVM as a child of this process: its start, its signals, what it writes to stderr, and its end.

pyspark can start it as well, but then it dies of the signal that asks flinkwatch to end, and takes the batch with it;
what it writes goes past flinkwatch's log; and no one can say what killed it.
"""

import os
import shlex
import signal
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError
from pyspark import SparkContext, accumulators
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streaming.errors import PreflightError
from streaming.job.spark.jvm_log import JvmLog
from streaming.shutdown import Stop, Stopped

log = structlog.get_logger()

_POLL_S = 0.1
_END_WITHIN_S = 10.0
_OUT_OF_HEAP = 3
"""What -XX:+ExitOnOutOfMemoryError ends with."""
_WORKER_START = Path(__file__).resolve().parent / "worker_start"

# Their threads print a traceback when the JVM has gone, which is noticed elsewhere.
for _server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
    _server.handle_error = lambda *_: None  # type: ignore[method-assign]

# An ignored signal stays ignored in every program that is executed: the JVM and the workers it starts.
_DEAF = 'trap "" INT TERM; exec "$0" "$@"'


class Jvm:
    """One JVM at a time; `start` may be called again after it has gone."""

    def __init__(self, stop: Stop | None = None, inherits: tuple[int, ...] = ()) -> None:
        """`inherits` are descriptors that it holds as long as it lives."""
        self._stop = stop or Stop()
        self._inherits = inherits
        self._process: subprocess.Popen[bytes] | None = None
        self._log = JvmLog()
        self._killed = False
        self.session: SparkSession | None = None
        """The session in it, which ends before it does."""

    @property
    def pid(self) -> int | None:
        """Its process id, once it was started."""
        return self._process.pid if self._process is not None else None

    def start(self, conf: Mapping[str, str]) -> Any:
        """Start it with these properties of Spark; returns the gateway for SparkContext.

        Raises Stopped when flinkwatch is asked to end meanwhile, PreflightError when it does not start.
        """
        _forget()
        with tempfile.TemporaryDirectory(prefix="flinkwatch-") as folder:
            info = Path(folder) / "gateway"
            self._process = self._launch(conf, info)
            while not info.exists():
                if self._stop.wait(_POLL_S) or self._killed:
                    self.kill()
                    raise Stopped
                if (ended := self.gone()) is not None:
                    raise PreflightError(f"{ended} while it started. {self._log.last}".strip())
            gateway = _connected(info.read_bytes())
        # pyspark keeps the gateway, which so keeps the pipe that the JVM lives by.
        gateway.proc = self._process
        return gateway

    def gone(self, within: float = 0.0) -> str | None:
        """How it ended, in words; None while it runs, for which it has so many seconds."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(within) if within else self._process.poll()
        except subprocess.TimeoutExpired:
            return None
        return None if status is None else f"Spark's JVM {_how(status)}"

    def quiet(self) -> None:
        """From now on what it writes is not passed on: it is about to end, and writes as if that were a failure."""
        self._log.quiet = True

    def end(self) -> None:
        """Stop the session and let the JVM end in order, for a while."""
        self.quiet()
        if self.session is not None and self.gone() is None:
            try:
                self.session.stop()
            except (Py4JError, OSError) as error:
                log.debug("the session did not stop in order", error=str(error))
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            if self.gone(_END_WITHIN_S) is None:
                self.kill()

    def kill(self) -> None:
        """End it at once, also the one that is only about to start."""
        self._killed = True
        self.quiet()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _launch(self, conf: Mapping[str, str], info: Path) -> subprocess.Popen[bytes]:
        submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        # Spark hands PYTHONPATH of the driver's JVM to the workers on this host alone.
        paths = [str(_WORKER_START), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        }
        process = subprocess.Popen(  # nosec B603
            ["/bin/sh", "-c", _DEAF, submit, *options, *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=self._inherits,
        )
        self._log = JvmLog(process.stderr)
        return process


def _connected(written: bytes) -> Any:
    """pyspark takes a JVM that runs already from these two variables, which no other child needs to see."""
    port, length = struct.unpack_from("!ii", written)
    secret = written[8 : 8 + length].decode()
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _forget() -> None:
    """pyspark knows one JVM for the life of a process and has no public way to take another one."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def _how(status: int) -> str:
    if status == -signal.SIGKILL:
        return "was killed (signal 9), as the kernel does when memory is short"
    if status < 0:
        return f"was killed by signal {-status}"
    if status == _OUT_OF_HEAP:
        return "ran out of heap (streaming.driver_memory)"
    return f"ended with status {status}"
