"""Plays recorded Kafka records into real topics, faster than they happened, with their times intact.

Records keep their Kafka timestamps, so the job sees what it would have seen then. Between them go heartbeats with the
recording's time: the live heartbeat would tell the job that it is today. A heartbeat is sent once Kafka has every
record before it, so that a slow producer never looks like a partition that lags.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from detectors.events.event import Record
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from streaming.job import canary
from streaming.recordings.play import send

_HEARTBEAT_MS = 1_000
# Kafka takes milliseconds; a broker on a busy machine may take a minute.
_FLUSH_S = 120.0


class Playback:
    """One playing of one recording.

    `sent_at` maps (topic, partition, offset) in Kafka to the wall time of sending, in s.
    """

    def __init__(self, access: KafkaAccess, records: Sequence[Record], heartbeat_topic: str, speed: float) -> None:
        self.sent_at: dict[tuple[str, int, int], float] = {}
        self.played = 0
        self._access = access
        self._records = records
        self._heartbeat_topic = heartbeat_topic
        self._speed = speed

    @property
    def span_ms(self) -> int:
        """How long it took when it happened."""
        return self._records[-1].timestamp - self._records[0].timestamp

    def run(self, stop: threading.Event) -> None:
        """Play to the end, or until `stop`. Raises kafka.errors.KafkaError when the broker has gone."""
        with closing(clients.producer(self._access)) as producer:
            first, begun = self._records[0].timestamp, time.monotonic()
            heartbeat = first
            for record in self._records:
                while heartbeat <= record.timestamp and not stop.is_set():
                    self._wait(heartbeat - first, begun, stop)
                    producer.flush(timeout=_FLUSH_S)
                    producer.send(self._heartbeat_topic, value=b"", timestamp_ms=heartbeat)
                    heartbeat += _HEARTBEAT_MS
                self._wait(record.timestamp - first, begun, stop)
                if stop.is_set():
                    break
                self._send(producer, record)
            producer.flush(timeout=_FLUSH_S)

    def go_on(self, stop: threading.Event) -> None:
        """After the recording: heartbeats with a canary, each second, until `stop`.

        The stream's clock then runs as fast as the wall clock. Raises kafka.errors.KafkaError when the broker has gone.
        """
        last, begun = self._records[-1].timestamp, time.monotonic()
        with closing(clients.producer(self._access)) as producer:
            while not stop.wait(_HEARTBEAT_MS / 1000):
                since = int((time.monotonic() - begun) * 1000)
                value = canary.value(int(time.time() * 1000))
                producer.send(self._heartbeat_topic, value=value, timestamp_ms=last + since)
                producer.flush(timeout=_FLUSH_S)

    def _wait(self, since_first_ms: int, begun: float, stop: threading.Event) -> None:
        left = begun + since_first_ms / 1000 / self._speed - time.monotonic()
        if left > 0:
            stop.wait(left)

    def _send(self, producer: Any, record: Record) -> None:
        future = send(producer, record, record.partition)
        sent = time.time()
        future.add_callback(lambda where: self.sent_at.setdefault((where.topic, where.partition, where.offset), sent))
        self.played += 1
