"""The pulse: one small record every trigger, so that the stream's clock moves when nothing else comes.

Its Kafka timestamp is all it says. It goes through the whole pipeline, and it is part of the input: a batch that is run
again has the same clock. What the driver has to say of the input goes the same way, as the value of such a record, and
so does the canary (`sinks.canary`).
"""

import time
from collections import deque
from typing import Any

import structlog
from kafka import KafkaProducer
from kafka.errors import KafkaError

from sinks.kafka_access import KafkaAccess, client_options
from sinks.kafka_reach import explain
from sinks.secret import SecretError
from streaming import canary
from streaming.background import Background

log = structlog.get_logger()

# While no broker answers they wait.
_MOST_LINES = 10_000


class Pulse(Background):
    """Writes to `topic` every `every` ms, and every `canary_every` ms (0: never) a canary.

    From a thread of its own, until stopped.
    """

    def __init__(self, access: KafkaAccess, topic: str, every: int, canary_every: int = 0) -> None:
        super().__init__("pulse")
        self._access = access
        self._topic = topic
        self._every = every / 1000
        self._canary_every = canary_every / 1000
        self._next_canary = 0.0
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def tell(self, line: str) -> None:
        """Write a line of `detectors.events.words.inputs` with the next beat."""
        self._lines.append(line)

    def _producer(self) -> KafkaProducer:
        # The client would wait up to 30 s between attempts, and the clock with it.
        return KafkaProducer(
            **client_options(self._access), reconnect_backoff_max_ms=2_000, allow_auto_create_topics=False
        )

    def _run(self) -> None:
        producer: Any = None
        while not self._stop.wait(self._every):
            try:
                producer = producer or self._producer()
                producer.send(self._topic, value=self._beat())
                while self._lines:
                    producer.send(self._topic, value=self._lines[0].encode())
                    self._lines.popleft()
            except (KafkaError, SecretError) as error:
                # Without brokers there is nothing to read either: the clock may stand still.
                log.warning("pulse not written", error=explain(self._access, error))
        if producer is not None:
            producer.close(timeout=1)

    def _beat(self) -> bytes:
        """An empty value, or a canary when one is due: it is a beat as any other."""
        now = time.monotonic()
        if not self._canary_every or now < self._next_canary:
            return b""
        self._next_canary = now + self._canary_every
        return canary.value(int(time.time() * 1000))
