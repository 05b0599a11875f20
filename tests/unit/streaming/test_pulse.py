"""The pulse, with a producer that fails when a test says so."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError

from sinks.kafka_access import KafkaAccess
from sinks.secret import SecretError
from streaming.pulse import Pulse


class Broker:
    """Makes producers; `errors` are what the next calls raise, None for a call that succeeds."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.written: list[bytes] = []
        self.told = threading.Event()

    def producer(self, **_: Any) -> Any:
        self._fail_if_due()
        return SimpleNamespace(send=self._send, close=lambda timeout: None)

    def _send(self, _: str, value: bytes) -> None:
        self._fail_if_due()
        self.written.append(value)
        if value:
            self.told.set()

    def _fail_if_due(self) -> None:
        if error := self._errors.pop(0) if self._errors else None:
            raise error


@pytest.mark.parametrize(
    "errors",
    [
        pytest.param([SecretError("sasl_password_file: cannot read it")], id="no secret at first"),
        pytest.param([KafkaTimeoutError("no broker")], id="no broker at first"),
        pytest.param([None, KafkaTimeoutError("no broker")], id="the beat fails"),
        pytest.param([None, None, KafkaTimeoutError("no broker")], id="the line fails"),
    ],
)
def test_no_failure_ends_the_pulse_or_loses_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch, errors: list[Exception | None]
) -> None:
    broker = Broker(*errors)
    monkeypatch.setattr("streaming.pulse.KafkaProducer", broker.producer)
    monkeypatch.setattr("streaming.pulse.explain", lambda _access, error: str(error))
    pulse = Pulse(KafkaAccess(bootstrap_servers="localhost:9092"), "flinkwatch.pulse", every=1)
    pulse.tell("records were lost")
    pulse.start()
    try:
        assert broker.told.wait(10)
    finally:
        pulse.stop()
    assert [value for value in broker.written if value] == [b"records were lost"]
