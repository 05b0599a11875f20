"""Logs a warning while most records of a source are not understood.

The stages that detect it run on executors, whose logs are rarely read. The driver reads it from the readings topic.
"""

import time
from collections.abc import Callable
from contextlib import closing

import structlog
from kafka.errors import KafkaError

from detectors.engine.not_understood import READING
from detectors.incident import Reading, decode_reading
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import follow, partitions_of
from sinks.secret import SecretError
from streaming.threads import Background

log = structlog.get_logger()

_RETRY_S = 5.0
_AGAIN_S = 3_600.0
_MAX_NAMED = 1_000
_NAME = READING.encode()


class NotUnderstood(Background):
    """Follows new readings in a thread of its own."""

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("not understood", ends_within_s=5.0)
        self._access = access
        self._topic = topic
        self._clock = clock
        self._named: dict[bytes, float] = {}

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the topic. The warning for a source is logged at first and once an hour."""
        if key is None or not key.startswith(_NAME):
            return
        if value is None:
            if self._named.pop(key, None) is not None:
                log.info("records of a source are understood again", source=key.decode(errors="replace"))
            return
        try:
            reading = decode_reading(value)
        except UndecodableError:
            return
        now = self._clock()
        if now - self._named.get(key, -_AGAIN_S) >= _AGAIN_S:
            if len(self._named) >= _MAX_NAMED:
                self._named.clear()
            self._named[key] = now
            _warn(reading)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaError, SecretError) as error:
                log.debug("cannot read the readings topic, trying again", error=str(error))
                self._stop.wait(_RETRY_S)

    def _follow(self) -> None:
        with closing(clients.consumer(self._access)) as consumer:
            partitions = partitions_of(consumer, self._topic)
            if not partitions:
                self._stop.wait(_RETRY_S)
                return
            consumer.assign(partitions)
            consumer.seek_to_end(*partitions)
            for records in follow(consumer, self._stop):
                for record in records:
                    self.take(record.key, record.value)


def _warn(reading: Reading) -> None:
    log.warning(
        "most records of a source are not understood: they have no known log layout or metric name, so nothing can be "
        "detected there; see 'Read and not understood' in docs/inputs.md",
        **{name: reading.labels.get(name, "") for name in ("topic", "cluster", "source")},
        share=round(reading.value, 3),
    )
