"""`flinkwatch deliver` as a process of its own, which kill -9 ends at an exact point.

The product knows nothing of it: the points lie in the Kafka clients it is given and in the Slack stand-in.
Each process is forked from a server that has loaded the code already: a start takes a tenth of a second, not one.
"""

import faulthandler
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import yaml
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer

from sinks.kafka import clients
from streaming.cli.main import cli
from tests.fake_slack.server import APP_TOKEN, TOKEN

SESSION_MS = 1_500
"""How long the group waits for a member that was killed, unless a test wants the product's 10 s."""

END_S = 60.0
"""A process that was told to end has ended by then: 10 s are the product's, the rest is a busy machine's."""

IN_PROCESS = (
    "after the fetch",
    "after the intent",
    "after the answer",
    "after the log entry",
    "after the commit",
    "during a rebalance",
    "before the feedback",
    "after the feedback",
)
"""Points at which the process kills itself; the stand-in kills it at the others."""

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.reliability.deliverer"])

_ASKING = threading.Lock()
"""How a process ended can be read once, and each start asks it of all that run: a second thread would be told 255."""


class Deliverer:
    """One process; `point` and `count`: it dies when it gets to that point for the count-th time."""

    def __init__(
        self,
        folder: Path,
        configuration: dict[str, Any],
        point: str = "",
        count: int = 1,
        *,
        session_ms: int = SESSION_MS,
    ) -> None:
        self.log = folder / "deliver.log"
        config = folder / "flinkwatch.yaml"
        config.write_text(yaml.safe_dump(configuration))
        self.process = _FORKS.Process(target=_deliver, args=(str(config), str(self.log), point, count, session_ms))
        self.process.daemon = True
        with _ASKING:
            self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def ended(self, within: float = 0.0) -> bool:
        """Whether it has ended, for which it has so many seconds."""
        wait([self.process.sentinel], within)
        return self.exit_status() is not None

    def exit_status(self) -> int | None:
        """None while it runs; -9 after kill -9."""
        with _ASKING:
            return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()
        self.ended(END_S)

    def terminate(self, within: float = END_S) -> int | None:
        """SIGTERM, once it heeds it; its exit status, None when it does not end: its log tells then what it is at."""
        deadline = time.monotonic() + within
        while not self.ended(0.05) and not self._heeds(signal.SIGTERM) and time.monotonic() < deadline:
            pass
        self.process.terminate()
        if not self.ended(within):
            self.stacks()
        return self.exit_status()

    def stacks(self) -> str:
        """The end of its log, with what each of its threads is at."""
        if not self.ended():
            os.kill(self.pid, signal.SIGUSR1)
            self.ended(1.0)
        return self.log_tail()

    def _heeds(self, number: int) -> bool:
        """Whether it has a handler for a signal."""
        told = Path(f"/proc/{self.pid}/status").read_text()
        caught = next(int(line.split()[1], 16) for line in told.splitlines() if line.startswith("SigCgt:"))
        return bool(caught >> (number - 1) & 1)

    def log_tail(self, lines: int = 80) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def configuration(bootstrap: str, prefix: str, slack: str, **settings: Any) -> dict[str, Any]:
    """What the deliverer reads; `settings` are those of sinks.slack."""
    # A channel's own pace and the digest would only make the runs longer.
    pace = {"posts_per_minute": 100_000, "edits_per_minute": 100_000, "digest_above": 1_000}
    told = {"enabled": True, "channel": "flink-alerts", "base_url": slack, "thread_updates": False, "charts": False}
    wanted = {**told, **pace, **settings}
    return {
        "kafka": {"access": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}},
        "sinks": {"slack": wanted, "prometheus": {"enabled": False}},
    }


def _deliver(config: str, log: str, point: str, count: int, session_ms: int) -> None:
    with Path(log).open("ab") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    # The product is silent about what kafka-python tries again; who looks for a reason wants to know.
    logging.getLogger("kafka.coordinator").setLevel(logging.WARNING)
    faulthandler.register(signal.SIGUSR1, sys.stderr)
    os.environ |= {"SLACK_BOT_TOKEN": TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    _Fuse.point, _Fuse.left = point, count
    _Consumer.session_ms = session_ms
    clients.KafkaConsumer, clients.KafkaProducer = _Consumer, _Producer
    cli(["--log-format", "json", "deliver", "--config", config], standalone_mode=False)


class _Fuse:
    """Where this process dies, and how often it still may pass there."""

    point = ""
    left = 1

    @classmethod
    def reach(cls, point: str) -> None:
        if point == cls.point:
            cls.left -= 1
            if cls.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


class _Consumer(KafkaConsumer):  # type: ignore[misc]
    session_ms = SESSION_MS

    def __init__(self, *topics: str, **options: Any) -> None:
        self._of_group = options.get("group_id") is not None
        if self._of_group:
            options |= {"session_timeout_ms": self.session_ms, "heartbeat_interval_ms": self.session_ms // 5}
        super().__init__(*topics, **options)

    def poll(self, *arguments: Any, **options: Any) -> Any:
        found = super().poll(*arguments, **options)
        if found and self._of_group:
            _Fuse.reach("after the fetch")
        return found

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        super().subscribe(topics, pattern, _Listener(listener) if listener is not None else None)

    def commit(self, *arguments: Any, **options: Any) -> None:
        super().commit(*arguments, **options)
        _Fuse.reach("after the commit")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """A rebalance is under way from the moment that partitions are taken until others are given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._inner.on_partitions_revoked(revoked)
        if revoked:
            _Fuse.reach("during a rebalance")

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._inner.on_partitions_assigned(assigned)


class _Producer(KafkaProducer):  # type: ignore[misc]
    def send(self, topic: str, value: Any = None, **options: Any) -> Any:
        state = _state(value)
        if topic.endswith(".feedback"):
            # Slack has the acknowledgement of the press.
            _Fuse.reach("before the feedback")
        if state == "sent":
            _Fuse.reach("after the answer")
        future = super().send(topic, value=value, **options)
        if topic.endswith(".feedback") and _Fuse.point == "after the feedback":
            future.get(END_S)
            _Fuse.reach("after the feedback")
        if state in {"intent", "sent"} and _Fuse.point in {"after the intent", "after the log entry"}:
            future.get(END_S)
            _Fuse.reach("after the intent" if state == "intent" else "after the log entry")
        return future


def _state(value: bytes | None) -> str:
    """The state of a message in an entry of the notification log; empty if there is none."""
    entry = json.loads(value) if value else None
    return str(entry.get("state", "")) if isinstance(entry, dict) else ""
