"""The heartbeat: one small record every trigger, which advances the stream's clock while no input arrives.

It carries the time of day as its Kafka timestamp and the time of a monotonic clock in a header, so that the stream's
clock does not follow a host clock that is set. It is part of the input, so a repeated batch has the same clock. Lines
of the driver about the input are values of such records, and so is the canary, which measures the whole pipeline
(`sinks.prometheus.reading_metrics`) and is never passed to detectors.
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
from streaming.threads import Background

log = structlog.get_logger()

HEARTBEAT_HEADER = "heartbeat"
_HEARTBEAT = re.compile(rb"([0-9a-f]{8}) (\d{1,15}) (\d{1,15})")
_CANARY = re.compile(rb"flinkwatch canary (\d{1,15})")
# Smaller steps of the host's clock are not logged.
_JUMP_MS = 2_000

_REPORT_EVERY_S = 10.0
# Lines wait here while no broker answers.
_MAX_LINES = 10_000


def heartbeat_of(headers: tuple[tuple[str, bytes], ...]) -> Heartbeat | None:
    found = _HEARTBEAT.fullmatch(dict(headers).get(HEARTBEAT_HEADER, b""))
    return Heartbeat(found[1].decode(), int(found[2]), int(found[3])) if found else None


def heartbeat_headers(heartbeat: Heartbeat) -> list[tuple[str, bytes]]:
    return [(HEARTBEAT_HEADER, f"{heartbeat.run} {heartbeat.counted} {heartbeat.at}".encode())]


def canary_value(sent: int) -> bytes:
    """The value of a canary that is sent at `sent` (epoch ms)."""
    return b"flinkwatch canary %d" % sent


def canary_sent_at(value: bytes | None) -> int:
    """The time (epoch ms) at which a canary was sent; 0 if the record is not a canary."""
    found = _CANARY.fullmatch(value or b"")
    return int(found[1]) if found else 0


class HostClock:
    """The time of this host. Logs a warning if the clock was set since the last call."""

    def __init__(self, wall: Callable[[], float] = time.time, counted: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._counted = wall, counted
        self._run = uuid.uuid4().hex[:8]
        self._first = self._began = self._ask().at - self._ask().counted

    def now(self) -> Heartbeat:
        heartbeat = self._ask()
        offset = heartbeat.at - heartbeat.counted
        step, self._began = offset - self._began, offset
        if abs(step) > _JUMP_MS:
            ahead_s = round(step / 1000, 1)
            log.warning(
                "the clock of this host was changed, so heartbeats are dated by the monotonic clock", ahead_s=ahead_s
            )
        return heartbeat

    def steady(self, heartbeat: Heartbeat) -> int:
        """The time of a heartbeat by the monotonic clock, since brokers refuse times that are far ahead of theirs."""
        return self._first + heartbeat.counted

    def _ask(self) -> Heartbeat:
        return Heartbeat(self._run, int(self._counted() * 1000), int(self._wall() * 1000))


class HeartbeatWriter(Background):
    """Writes a heartbeat to `topic` every `every` ms, in a thread of its own until stopped.

    Every `canary_every` ms (0: never) the heartbeat is a canary.
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
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)

    def publish_line(self, line: str) -> None:
        """Write a line of `detectors.events.vocabulary.flinkwatch_itself` with the next heartbeat."""
        self._lines.append(line)

    def _run(self) -> None:
        producer: Any = None
        while not self._stop.wait(self._every):
            try:
                producer = producer or clients.producer(self._access)
                heartbeat = self.clock.now()
                at = self.clock.steady(heartbeat)
                headers = heartbeat_headers(heartbeat)
                sent = producer.send(self._topic, value=self.next_value(), headers=headers, timestamp_ms=at)
                sent.add_errback(self.not_written)
                while self._lines:
                    producer.send(self._topic, value=self._lines[0].encode(), timestamp_ms=at)
                    self._lines.popleft()
            except (KafkaError, SecretError) as error:
                # Without brokers there is nothing to read either, so the clock may stop.
                log.warning("heartbeat could not be written", error=explain(self._access, error))
        if producer is not None:
            producer.close(timeout=1)

    def not_written(self, error: Exception) -> None:
        if time.monotonic() >= self._report_at:
            log.warning("heartbeat could not be written", error=explain(self._access, error))
            # An explanation takes seconds, and each record of a failed batch calls this function.
            self._report_at = time.monotonic() + _REPORT_EVERY_S
        if isinstance(error, InvalidTimestampError | InvalidRecordError):
            # The host's clock was wrong when this object was created, and may be right now.
            self.clock = HostClock()

    def next_value(self) -> bytes:
        """The value of the next heartbeat: a canary if one is due, else empty."""
        now = time.monotonic()
        if not self._canary_every or now < self._next_canary:
            return b""
        self._next_canary = now + self._canary_every
        return canary_value(int(time.time() * 1000))
