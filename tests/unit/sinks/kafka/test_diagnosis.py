"""What is reported of a port that is no broker: anything that explains an error must always get an answer."""

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from kafka.errors import KafkaTimeoutError

from sinks.kafka import diagnosis
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explain, lasting_obstacle, unreachable


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_TIMEOUT_S", 1.0)
    monkeypatch.setenv("PASSWORD", "secret")


@contextmanager
def port_that_answers(answer: bytes | None, closes: bool = False) -> Iterator[str]:
    """An address that gives `answer` to each request; None: it closes each connection, and asks for nothing."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection = server.accept()[0]
                except OSError:
                    return
                if answer is not None:
                    threading.Thread(target=talk, args=(connection,), daemon=True).start()
                else:
                    connection.close()

        def talk(connection: socket.socket) -> None:
            with suppress(ConnectionResetError):
                while connection.recv(1024):
                    if answer:
                        connection.sendall(answer)
                    if closes:
                        connection.close()
                        return
            held.append(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def plain(address: str) -> KafkaAccess:
    return KafkaAccess(bootstrap_servers=address)


def with_login(address: str) -> KafkaAccess:
    return KafkaAccess(
        bootstrap_servers=address,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="flinkwatch",
        sasl_password_env="PASSWORD",
    )


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="HTTP"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n", id="SSH"),
        pytest.param(struct.pack(">i", -5), id="a negative size"),
        pytest.param(struct.pack(">iih", 6, 7, 0), id="another request's answer"),
        pytest.param(struct.pack(">iihi", 10, 1, 0, 2**31 - 1), id="a list that is cut"),
    ],
)
@pytest.mark.parametrize("make", [plain, with_login])
def test_an_answer_of_another_protocol_is_reported_with_the_clients_own_error(
    answer: bytes, make: Callable[[str], KafkaAccess]
) -> None:
    with port_that_answers(answer) as address:
        reported = lasting_obstacle(make(address))
        assert reported is not None
        assert reported.startswith(f"{address} answers, but not as a Kafka broker: ")
        assert "\n" not in reported
        assert explain(make(address), KafkaTimeoutError()).endswith(reported)


@pytest.mark.parametrize("seed", range(4))
def test_noise_raises_nothing_and_is_reported_in_one_line(seed: int) -> None:
    with port_that_answers(struct.pack(">ii", 44, 1) + random.Random(seed).randbytes(40)) as address:
        reported = explain(with_login(address), KafkaTimeoutError())
    assert reported.startswith(f"no Kafka broker answers at {address}: ")
    assert "\n" not in reported


@pytest.mark.parametrize("make", [plain, with_login])
def test_the_alert_of_a_tls_port_may_be_read_before_the_connection_ends(make: Callable[[str], KafkaAccess]) -> None:
    with port_that_answers(bytes.fromhex("15030300020246")) as address:
        reported = lasting_obstacle(make(address))
        protocol = make(address).security_protocol
    assert reported == f"{address} speaks TLS, security_protocol is {protocol}"


def test_a_port_that_never_answers_may_be_a_broker_that_is_starting() -> None:
    with port_that_answers(b"") as address:
        assert lasting_obstacle(with_login(address)) is None
        assert "takes connections, but does not answer as a Kafka broker" in explain(
            with_login(address), KafkaTimeoutError()
        )


def test_a_port_that_closes_at_once_may_be_a_proxy_whose_broker_is_starting() -> None:
    with port_that_answers(None) as address:
        assert lasting_obstacle(with_login(address)) is None
        assert f"{address} closes the connection at once" in explain(with_login(address), KafkaTimeoutError())


def test_a_login_that_ends_with_a_closed_connection_is_reported_with_what_to_check() -> None:
    """A broker closes the connection together with its refusal."""
    with port_that_answers(b"", closes=True) as address:
        reported = lasting_obstacle(with_login(address))
    assert reported is not None
    assert "refuses the login of flinkwatch by SCRAM-SHA-256: wrong sasl_username, or wrong password in" in reported
    assert "environment variable PASSWORD" in reported


def test_without_a_login_a_closed_connection_is_reported_as_a_login_that_is_missing() -> None:
    with port_that_answers(b"", closes=True) as address:
        reported = lasting_obstacle(plain(address))
    assert reported is not None
    assert "wants a login, which needs sasl_mechanism, sasl_username and a password" in reported


def test_nothing_is_left_of_a_diagnosis() -> None:
    with port_that_answers(None) as address:
        before = set(threading.enumerate())
        explain(plain(address), KafkaTimeoutError())
        assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("address", ["127.0.0.1:99999", f"{'a' * 70}.example.org:9092"])
def test_an_address_that_cannot_be_one_is_reported_and_raises_nothing(address: str) -> None:
    assert explain(plain(address), KafkaTimeoutError()).startswith("no Kafka broker answers at ")


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
    assert says in (unreachable("b-1.example.org:14001") or "")
