"""What is said of a port that is no broker: whoever explains an error must always get an answer."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.errors import KafkaTimeoutError

from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explain, lasting_obstacle
from streaming.job.wait_for_brokers import connection_problem

VERSIONS = struct.pack(">ii", 4, 7)


@contextmanager
def port_that_answers(*answers: bytes) -> Iterator[str]:
    """An address that gives one answer to each request, and then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(2):
                with server.accept()[0] as connection:
                    for answer in answers:
                        connection.recv(1024)
                        connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(struct.pack(">ii", 4, 17), id="nothing after the head"),
        pytest.param(struct.pack(">iihi", 10, 17, 33, 9), id="a list that is cut"),
        pytest.param(struct.pack(">iih", 6, 17, 0) + struct.pack(">iihhi", 17, 36, 0, -1, 5) + b"hello", id="no SCRAM"),
    ],
)
def test_an_answer_that_is_no_login_is_told_and_raises_nothing(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    monkeypatch.setenv("PASSWORD", "secret")
    with port_that_answers(VERSIONS, answer) as address:
        access = KafkaAccess(
            bootstrap_servers=address,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_username="flinkwatch",
            sasl_password_env="PASSWORD",
        )
        says = f"{address} answers, but not as a Kafka broker"
        assert lasting_obstacle(access) == says
        assert explain(access, KafkaTimeoutError()).endswith(says)


@pytest.mark.parametrize(
    ("in_kubernetes", "says"),
    [(True, "does a NetworkPolicy of this namespace allow egress to port 14001?"), (False, "does a firewall")],
)
def test_a_connection_that_times_out_is_told_with_who_may_drop_it(
    monkeypatch: pytest.MonkeyPatch, in_kubernetes: bool, says: str
) -> None:
    def nothing_answers(*_: object, **__: object) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr("socket.create_connection", nothing_answers)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_kubernetes:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    access = KafkaAccess(bootstrap_servers="b-1.example.org:14001")
    assert lasting_obstacle(access) is None
    assert says in explain(access, KafkaTimeoutError())
    assert says in connection_problem("b-1.example.org:14001")
