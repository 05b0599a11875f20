"""Runs Spark's JVM as a child of this process: start, signals, standard error, and end.

If pyspark starts the JVM, the signal that stops flinkwatch also kills the JVM with its current batch, its output is not
in flinkwatch's log, and the reason of its end is unknown.
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
from streaming.threads import Stop, Stopped

log = structlog.get_logger()

_POLL_S = 0.1
_END_WITHIN_S = 10.0
_OUT_OF_HEAP = 3
"""The exit status of -XX:+ExitOnOutOfMemoryError."""
_WORKER_START = Path(__file__).resolve().parent / "worker_start"

# Threads of these servers print a traceback when the JVM ends, which is detected elsewhere.
for _server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
    _server.handle_error = lambda *_: None  # type: ignore[method-assign]

# The JVM and its workers inherit ignored signals, so that only flinkwatch handles them.
_IGNORE_SIGNALS = 'trap "" INT TERM; exec "$0" "$@"'


class Jvm:
    """One JVM at a time. `start` may be called again after the JVM has ended."""

    def __init__(self, stop: Stop | None = None, inherits: tuple[int, ...] = ()) -> None:
        """`inherits` are file descriptors that the JVM keeps open as long as it runs."""
        self._stop = stop or Stop()
        self._inherits = inherits
        self._process: subprocess.Popen[bytes] | None = None
        self._log = JvmLog()
        self._killed = False
        self.session: SparkSession | None = None
        """The session in the JVM, which is stopped before it."""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self, conf: Mapping[str, str]) -> Any:
        """Start the JVM with these Spark properties and return the gateway for SparkContext.

        Raises Stopped if flinkwatch is asked to stop meanwhile, PreflightError if the JVM does not start.
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
        # pyspark keeps the gateway, which keeps the pipe open. The JVM ends when the pipe closes.
        gateway.proc = self._process
        return gateway

    def gone(self, within: float = 0.0) -> str | None:
        """How the JVM ended, as text; None if it still runs after `within` seconds."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(within) if within else self._process.poll()
        except subprocess.TimeoutExpired:
            return None
        return None if status is None else f"Spark's JVM {how_it_ended(status)}"

    def quiet(self) -> None:
        """Drop the JVM's output from now on: during a stop it writes errors that are not failures."""
        self._log.quiet = True

    def end(self, within: float = _END_WITHIN_S) -> None:
        """Stop the session, give the JVM so many seconds to end in order, then kill it."""
        self.quiet()
        if self.session is not None and self.gone() is None:
            try:
                self.session.stop()
            except (Py4JError, OSError) as error:
                log.debug("the Spark session did not stop in order", error=str(error))
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            if self.gone(within) is None:
                self.kill()

    def kill(self) -> None:
        """Kill the JVM at once, also if it is just starting."""
        self._killed = True
        self.quiet()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _launch(self, conf: Mapping[str, str], info: Path) -> subprocess.Popen[bytes]:
        submit = str(Path(_find_spark_home()) / "bin" / "spark-submit")
        options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        # Spark passes PYTHONPATH of the driver's JVM only to workers on this host.
        paths = [str(_WORKER_START), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
        }
        process = subprocess.Popen(  # nosec B603
            ["/bin/sh", "-c", _IGNORE_SIGNALS, submit, *options, *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=self._inherits,
        )
        self._log = JvmLog(process.stderr)
        return process


def _connected(written: bytes) -> Any:
    """Connect pyspark to the running JVM through two environment variables, which are removed again."""
    port, length = struct.unpack_from("!ii", written)
    secret = written[8 : 8 + length].decode()
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]


def _forget() -> None:
    """Make pyspark forget its JVM, since it has no public way to use another one in the same process."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001


def how_it_ended(status: int) -> str:
    """The end of a JVM with this exit status, in words. They name memory if it ended for lack of it."""
    if status == -signal.SIGKILL:
        return "was killed (signal 9), probably by the kernel because memory was short"
    if status < 0:
        return f"was killed by signal {-status}"
    if status == _OUT_OF_HEAP:
        return "ran out of heap (streaming.driver_memory)"
    return f"ended with status {status}"
