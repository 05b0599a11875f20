"""A real Kafka broker for the demo and the tests: one node, KRaft mode, 127.0.0.1, a temporary directory.

`python -m tests.embedded.broker` runs one in the foreground.
"""

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from streaming.setup.jars import jars_of
from streaming.setup.java import find_java
from tests.embedded.listeners import PLAIN, Listener, server_properties

LEASH = Path(__file__).with_name("die_with_parent.py")

LOG_PROPERTIES = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


class BrokerError(RuntimeError):
    """The broker did not start; the message carries the end of its log."""


class Broker:
    """A Kafka broker that lives as long as the `with` block, and never longer than this process.

    Its port and its data stay the same over `kill()`, `stop()` and `restart()`; leaving the block removes the data.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        heap: str = "384m",
        start_within: float = 300.0,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._port = port
        self._listeners = listeners
        self._heap = heap
        self._start_within = start_within
        self._ports: dict[str, int] = {}
        self.folder: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, such as 127.0.0.1:49152."""
        return self.address(PLAIN)

    @property
    def access(self) -> KafkaAccess:
        """The same for `sinks.kafka`."""
        return KafkaAccess(bootstrap_servers=self.bootstrap)

    def address(self, listener: str) -> str:
        """The address of one of `listeners`, by its name."""
        if not self._ports:
            raise BrokerError("the broker was never started")
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        if self.process is None or self.process.poll() is not None:
            raise BrokerError("the broker is not running")
        return self.process.pid

    def start(self) -> Self:
        """Starts the broker and returns once a client can list its topics."""
        if self.process is not None and self.process.poll() is None:
            return self
        deadline = time.monotonic() + self._start_within
        try:
            if self.folder is None:
                self.folder = Path(tempfile.mkdtemp(prefix="flinkwatch-broker-"))
                self._prepare(self.folder, deadline)
            self.process = self._launch(self.folder)
            self.await_ready(deadline)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, *, within: float = 20.0) -> None:
        """Shuts the broker down in order; kills it when that takes longer than `within` seconds."""
        if self.process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Ends the broker as a crash does."""
        if self.process is None:
            return
        self._signal(signal.SIGKILL)
        self.process.wait(10)

    def restart(self) -> Self:
        """Stops the broker, if it still runs, and starts it on the same port with the same data."""
        self.stop()
        return self.start()

    def replace(self) -> Self:
        """Ends the broker as a crash does, and starts an empty one at the same address."""
        self.kill()
        if self.folder is not None:
            shutil.rmtree(self.folder / "data")
            self._format(self.folder, time.monotonic() + self._start_within)
        return self.start()

    def close(self) -> None:
        """Stops the broker and removes its data."""
        self.stop()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None

    def log_tail(self, lines: int = 30) -> str:
        """The end of what the broker logged."""
        if self.folder is None or not (log := self.folder / "broker.log").exists():
            return ""
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, folder: Path, deadline: float) -> None:
        """Writes the configuration and formats the storage."""
        *free, controller_port = _free_ports(self._port, len(self._listeners) + 2)
        self._ports = dict(zip([PLAIN, *(each.name for each in self._listeners)], free, strict=True))
        (folder / "scratch").mkdir()
        (folder / "log4j.properties").write_text(LOG_PROPERTIES)
        properties = server_properties(self._listeners, self._ports, controller_port, folder / "data")
        (folder / "server.properties").write_text(properties)
        self._format(folder, deadline)

    def _format(self, folder: Path, deadline: float) -> None:
        # The first byte keeps the id from looking like an option.
        cluster = urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).rstrip(b"=").decode()
        # Only the quick compiler: this process ends within a second or two.
        command = self._java(folder, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format")
        command += ["--cluster-id", cluster, "--config", str(folder / "server.properties")]
        with (folder / "broker.log").open("ab") as log:
            try:
                subprocess.run(
                    command, stdout=log, stderr=log, timeout=max(1.0, deadline - time.monotonic()), check=True
                )
            except subprocess.SubprocessError as error:
                raise BrokerError(f"formatting the broker's storage failed:\n{self.log_tail()}") from error

    def _java(self, folder: Path, *arguments: str) -> list[str]:
        return [
            str(find_java() / "bin" / "java"),
            f"-Xmx{self._heap}",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            f"-Djava.io.tmpdir={folder / 'scratch'}",
            f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars_of("broker"))),
            *arguments,
        ]

    def _launch(self, folder: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
        command += self._java(folder, "kafka.Kafka", str(folder / "server.properties"))
        started: Future[subprocess.Popen[bytes]] = Future()

        def hold() -> None:
            # The kernel ties a child to the thread that made it: this one lives as long as the broker.
            try:
                with (folder / "broker.log").open("ab") as log:
                    process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
            except OSError as error:
                started.set_exception(error)
                return
            started.set_result(process)
            process.wait()

        threading.Thread(target=hold, name="embedded-broker", daemon=True).start()
        return started.result()

    def await_ready(self, deadline: float) -> None:
        """Return as soon as it answers. Raises BrokerError if it ends, or has not done so by `deadline` (monotonic)."""
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                raise BrokerError(f"the broker ended while it started:\n{self.log_tail()}")
            if _answers(self.bootstrap):
                return
            time.sleep(0.1)
        raise BrokerError(f"the broker was not ready within {self._start_within:.0f} s:\n{self.log_tail()}")

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)


def _free_ports(wanted: int | None, count: int) -> list[int]:
    """Ports that nobody listens on at this moment; the first is `wanted`, if any."""
    with contextlib.ExitStack() as held:
        ports = []
        for number in range(count):
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", wanted if wanted and number == 0 else 0))
            ports.append(probe.getsockname()[1])
        return ports


def _answers(bootstrap: str) -> bool:
    """Whether a real client can list the topics."""
    host, port = bootstrap.split(":")
    try:
        # The client writes a warning for every refused connection: knock first.
        socket.create_connection((host, int(port)), timeout=1).close()
        admin = clients.admin(KafkaAccess(bootstrap_servers=bootstrap), request_timeout_ms=5000)
    except (OSError, KafkaError):
        return False
    try:
        admin.list_topics()
    except KafkaError:
        return False
    finally:
        admin.close()
    return True


def main() -> None:
    """Runs a broker until Ctrl-C or SIGTERM."""
    logging.getLogger("kafka").setLevel(logging.ERROR)
    asked_to_stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked_to_stop.set())
    with Broker(port=int(sys.argv[1]) if len(sys.argv) > 1 else None) as broker:
        print(f"Kafka listens on {broker.bootstrap}, process {broker.pid}. Ctrl-C stops it.", flush=True)
        asked_to_stop.wait()


if __name__ == "__main__":
    main()
