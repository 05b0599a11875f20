"""A broker whose answers to fetches take as long as a test says: a proxy that knows the frames of Kafka's protocol."""

import contextlib
import queue
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Self

import pytest

from tests.embedded import broker as embedded
from tests.embedded.broker import Broker
from tests.embedded.job_process import free_port
from tests.embedded.listeners import Listener

_FETCH = 1


class SlowProxy:
    """Stands before a broker; `delay_s` may be changed at any time. Answers keep their order, as Kafka demands."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.delayed = 0
        self.target: tuple[str, int] = ("127.0.0.1", 0)
        self._server = socket.create_server(("127.0.0.1", port), backlog=128)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End every connection."""
        for one in (self._server, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
                broker = socket.create_connection(self.target)
            except OSError:
                return
            self._open += [client, broker]
            asked: queue.SimpleQueue[int] = queue.SimpleQueue()
            threading.Thread(target=self._ask, args=(client, broker, asked), daemon=True).start()
            threading.Thread(target=self._answer, args=(broker, client, asked), daemon=True).start()

    def _ask(self, client: socket.socket, broker: socket.socket, asked: "queue.SimpleQueue[int]") -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _frame(client)
                asked.put(struct.unpack(">h", frame[4:6])[0])
                broker.sendall(frame)
        _end(client, broker)

    def _answer(self, broker: socket.socket, client: socket.socket, asked: "queue.SimpleQueue[int]") -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = _frame(broker)
                if asked.get() == _FETCH and self.delay_s:
                    self.delayed += 1
                    time.sleep(self.delay_s)
                client.sendall(frame)
        _end(client, broker)


class SlowBroker:
    """A broker that clients know by the address of its proxy alone."""

    def __init__(self) -> None:
        self._address = free_port()
        self.proxy = SlowProxy(self._address)
        self._broker = Broker(listeners=[Listener("SLOW", "PLAINTEXT")])

    @property
    def bootstrap(self) -> str:
        """The proxy's address."""
        return f"127.0.0.1:{self._address}"

    def __enter__(self) -> Self:
        plain = embedded.server_properties
        with pytest.MonkeyPatch.context() as patch:

            def advertised(listeners: object, ports: dict[str, int], *rest: object) -> str:
                text = plain(listeners, ports, *rest)  # type: ignore[arg-type]
                before, _, after = text.partition("advertised.listeners=")
                own = f"SLOW://127.0.0.1:{ports['SLOW']}"
                return f"{before}advertised.listeners={after.replace(own, f'SLOW://{self.bootstrap}')}"

            patch.setattr(embedded, "server_properties", advertised)
            self._broker.__enter__()
        host, port = self._broker.address("SLOW").split(":")
        self.proxy.target = (host, int(port))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.proxy.close()
        self._broker.__exit__(kind, error, trace)


def _frame(sender: socket.socket) -> bytes:
    size = _exactly(sender, 4)
    return size + _exactly(sender, struct.unpack(">i", size)[0])


def _exactly(sender: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        if not (piece := sender.recv(count - len(found))):
            raise EOFError
        found += piece
    return bytes(found)


def _end(*connections: socket.socket) -> None:
    for one in connections:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
