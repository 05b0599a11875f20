"""Logs a warning while most records of a source are not understood.

The stages that detect it run on executors, whose logs are rarely read. The driver reads it from the readings topic.
"""

import time
from collections.abc import Callable

import structlog

from detectors.engine.not_understood import READING
from detectors.incident import Reading, decode_reading
from detectors.values.decoding import UndecodableError
from sinks.kafka.access import KafkaAccess
from streaming.job.followers.topic_follower import TopicFollower

log = structlog.get_logger()

_AGAIN_S = 3_600.0
_MAX_NAMED = 1_000
_NAME = READING.encode()


class NotUnderstood(TopicFollower):
    """Follows new readings in a thread of its own."""

    def __init__(self, access: KafkaAccess, topic: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("not understood", access, topic)
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


def _warn(reading: Reading) -> None:
    log.warning(
        "most records of a source are not understood: they have no known log layout or metric name, so nothing can be "
        "detected there; see 'Read and not understood' in docs/inputs.md",
        **{name: reading.labels.get(name, "") for name in ("topic", "cluster", "source")},
        share=round(reading.value, 3),
    )
