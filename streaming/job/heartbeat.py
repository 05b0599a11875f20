"""The heartbeat: one small record every trigger, so that the stream's clock moves when nothing else comes.

Its Kafka timestamp is what it says, and in a header how far a monotonic clock has come, so that a host whose clock is
set does not drive the stream's. It goes through the whole pipeline, and it is part of the input: a batch that is run
again has the same clock. What the driver has to say of the input goes the same way, as the value of such a record, and
so does the canary (`sinks.prometheus.canary`).
"""

import re
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog
from kafka.errors import InvalidRecordError, InvalidTimestampError, KafkaError

from detectors.engine.host_clock import Heartbeat
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explain
from sinks.secret import SecretError
from streaming.job import canary
from streaming.threads import Background

log = structlog.get_logger()

BEAT_HEADER = "beat"
_BEAT = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15})")
# What a host's clock is set by before somebody is told.
_JUMP_MS = 2_000

_REPORT_EVERY_S = 10.0
# While no broker answers they wait.
_MOST_LINES = 10_000


def beat_of(headers: tuple[tuple[str, bytes], ...]) -> Heartbeat | None:
    """What the headers of a heartbeat tell; None where they tell nothing."""
    found = _BEAT.fullmatch(dict(headers).get(BEAT_HEADER, b""))
    return Heartbeat(found[1].decode(), int(found[2]), int(found[3])) if found else None


def header(beat: Heartbeat) -> list[tuple[str, bytes]]:
    """The headers that tell a beat."""
    return [(BEAT_HEADER, f"{beat.run} {beat.counted} {beat.at}".encode())]


class HostClock:
    """The time of this host; says so when somebody has set it since it was asked last."""

    def __init__(self, wall: Callable[[], float] = time.time, counted: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._counted = wall, counted
        self._run = uuid.uuid4().hex[:8]
        self._first = self._began = self._ask().at - self._ask().counted

    def beat(self) -> Heartbeat:
        """Both times, at one moment."""
        beat = self._ask()
        step, self._began = beat.at - beat.counted - self._began, beat.at - beat.counted
        if abs(step) > _JUMP_MS:
            log.warning("the clock of this host was set, time goes on without it", ahead_s=round(step / 1000, 1))
        return beat

    def steady(self, beat: Heartbeat) -> int:
        """The time of a beat as if nobody had set the clock: brokers refuse times that are far ahead of their own."""
        return self._first + beat.counted

    def _ask(self) -> Heartbeat:
        return Heartbeat(self._run, int(self._counted() * 1000), int(self._wall() * 1000))


class HeartbeatWriter(Background):
    """Writes to `topic` every `every` ms, and every `canary_every` ms (0: never) a canary.

    From a thread of its own, until stopped.
    """

    def __init__(self, access: KafkaAccess, topic: str, every: int, canary_every: int = 0) -> None:
        super().__init__("heartbeat")
        self._access = access
        self._topic = topic
        self._every = every / 1000
        self._canary_every = canary_every / 1000
        self._next_canary = 0.0
        self._report_at = 0.0
        self.clock = HostClock()
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def tell(self, line: str) -> None:
        """Write a line of `detectors.events.vocabulary.flinkwatch_itself` with the next beat."""
        self._lines.append(line)

    def _run(self) -> None:
        producer: Any = None
        while not self._stop.wait(self._every):
            try:
                producer = producer or clients.producer(self._access)
                beat = self.clock.beat()
                at = self.clock.steady(beat)
                sent = producer.send(self._topic, value=self.next_value(), headers=header(beat), timestamp_ms=at)
                sent.add_errback(self.not_written)
                while self._lines:
                    producer.send(self._topic, value=self._lines[0].encode(), timestamp_ms=at)
                    self._lines.popleft()
            except (KafkaError, SecretError) as error:
                # Without brokers there is nothing to read either: the clock may stand still.
                log.warning("heartbeat not written", error=explain(self._access, error))
        if producer is not None:
            producer.close(timeout=1)

    def not_written(self, error: Exception) -> None:
        if time.monotonic() >= self._report_at:
            log.warning("heartbeat not written", error=explain(self._access, error))
            # An explanation takes seconds, and every record of a batch that failed would ask for one.
            self._report_at = time.monotonic() + _REPORT_EVERY_S
        if isinstance(error, InvalidTimestampError | InvalidRecordError):
            # The host was wrong when this clock was made, and may be right by now.
            self.clock = HostClock()

    def next_value(self) -> bytes:
        """An empty value, or a canary when one is due: it is a beat as any other."""
        now = time.monotonic()
        if not self._canary_every or now < self._next_canary:
            return b""
        self._next_canary = now + self._canary_every
        return canary.value(int(time.time() * 1000))
