"""Waiting for brokers: a reason for each address, an end, and one line a quarter of a minute."""

import socket
import threading
import time

import pytest
from structlog.testing import capture_logs

from streaming.configuration.settings import Settings
from streaming.errors import PreflightError
from streaming.job.wait_for_brokers import await_brokers
from streaming.threads import Stop, Stopped
from tests.embedded.job_process import free_port


def settings(servers: str, within: str) -> Settings:
    return Settings.model_validate(
        {"kafka": {"access": {"bootstrap_servers": servers}}, "streaming": {"wait_for_brokers": within}}
    )


@pytest.fixture(autouse=True)
def every_server_is_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after a connection is tested with real brokers."""
    monkeypatch.setattr("streaming.job.wait_for_brokers.lasting_obstacle", lambda _access: None)


def test_a_broker_that_takes_connections_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        reasons: list[str] = []
        port = server.getsockname()[1]
        await_brokers(settings(f"127.0.0.1:{free_port()},127.0.0.1:{port}", "0s"), Stop(), reasons.append)
        assert reasons == []


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("no-such-host.invalid:9092", "no-such-host.invalid:9092: there is no host of this name"),
        ("127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("[::1]:1", "[::1]:1: "),
        ("127.0.0.1:99999", "127.0.0.1:99999: "),
    ],
)
def test_every_address_has_its_reason(server: str, reason: str) -> None:
    with pytest.raises(PreflightError) as raised:
        await_brokers(settings(f"{server},127.0.0.1:2", "0s"), Stop(), str)
    assert str(raised.value).startswith(f"no Kafka broker answers: {reason}")
    assert str(raised.value).endswith("; 127.0.0.1:2: Connection refused (kafka.access.bootstrap_servers)")


def test_a_broker_that_starts_later_is_waited_for_and_logged_once() -> None:
    port, reasons = free_port(), list[str]()

    def come_up() -> None:
        time.sleep(1.5)
        with socket.create_server(("127.0.0.1", port)) as server:
            server.accept()

    thread = threading.Thread(target=come_up, daemon=True)
    thread.start()
    with capture_logs() as logged:
        await_brokers(settings(f"127.0.0.1:{port}", "30s"), Stop(), reasons.append)
    thread.join(5)
    assert len(reasons) >= 2
    assert [line["event"] for line in logged] == ["waiting for Kafka"]
    assert logged[0]["reason"] == reasons[0]


def test_the_limit_ends_it_with_the_reason_and_the_setting() -> None:
    with pytest.raises(PreflightError, match=r"refused .*after 1 s \(streaming.wait_for_brokers\)"):
        await_brokers(settings(f"127.0.0.1:{free_port()}", "500ms"), Stop(), str)


def test_a_stop_ends_it() -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped):
        await_brokers(settings(f"127.0.0.1:{free_port()}", "1m"), stop, str)


def test_a_missing_secret_is_reported_before_any_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    access = {"bootstrap_servers": "127.0.0.1:1", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    access |= {"sasl_username": "flinkwatch", "sasl_password_env": "KAFKA_PASSWORD"}
    with pytest.raises(PreflightError, match=r"^kafka\.access\.sasl_password_env: .* KAFKA_PASSWORD is not set$"):
        await_brokers(Settings.model_validate({"kafka": {"access": access}}), Stop(), str)
