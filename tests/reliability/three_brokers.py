"""Three brokers, each a process of its own, that are brokers and controllers at once."""

import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.embedded import broker as embedded
from tests.embedded.broker import Broker
from tests.embedded.job_process import free_port

_COUNT = 3
_START_WITHIN_S = 240.0
_REPLICATED = """\
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
broker.session.timeout.ms=6000
"""


class ThreeBrokers:
    """A cluster with three replicas of everything, of which two must have a record before it counts."""

    def __init__(self) -> None:
        self.brokers = [Broker(heap="256m", start_within=_START_WITHIN_S) for _ in range(_COUNT)]

    @property
    def bootstrap(self) -> str:
        """The addresses of all."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def __enter__(self) -> Self:
        controllers = [free_port() for _ in range(_COUNT)]
        cluster = uuid.UUID(bytes=b"\0" + uuid.uuid4().bytes[1:])
        plain = embedded.server_properties
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(embedded.uuid, "uuid4", lambda: cluster)
                patch.setattr(Broker, "await_ready", lambda *_: None)
                for number, broker in enumerate(self.brokers, 1):

                    def properties(
                        listeners: Sequence[object], ports: dict[str, int], _: int, data: Path, node: int = number
                    ) -> str:
                        text = plain(listeners, ports, controllers[node - 1], data)  # type: ignore[arg-type]
                        voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controllers, 1))
                        lines = [
                            line
                            for line in text.splitlines()
                            if not line.startswith(("controller.quorum.voters", "broker.session", "offsets.topic.repl"))
                        ]
                        lines = [line if not line.startswith("node.id") else f"node.id={node}" for line in lines]
                        return "\n".join([*lines, f"controller.quorum.voters={voters}", _REPLICATED])

                    patch.setattr(embedded, "server_properties", properties)
                    broker.start()
            for broker in self.brokers:
                broker.await_ready(time.monotonic() + _START_WITHIN_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all, and remove their data."""
        for broker in self.brokers:
            # In order one would wait for the others, which are gone.
            broker.kill()
            broker.close()
