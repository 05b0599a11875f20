"""Plays recorded Kafka records into real topics, faster than they happened, with their original times.

Records keep their Kafka timestamps, so the job sees what it would have seen then. Heartbeats with the recording's time
are written in between, since a live heartbeat would set the stream's clock to today. A heartbeat is sent only after
Kafka has all records before it, so that a slow producer does not look like a lagging partition.
"""

import threading
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from detectors.events.event import Record
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from streaming.job.heartbeat import canary_value
from streaming.recordings.play import send

_HEARTBEAT_MS = 1_000
# Kafka needs milliseconds, but a broker on a busy machine may need a minute.
_FLUSH_S = 120.0


class Playback:
    """Plays one recording once.

    `sent_at` maps (topic, partition, offset) in Kafka to the wall time of sending (epoch s).
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
        """The original duration of the recording in ms."""
        return self._records[-1].timestamp - self._records[0].timestamp

    def run(self, stop: threading.Event) -> None:
        """Play to the end, or until `stop`. Raises kafka.errors.KafkaError if the broker is gone."""
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

    def send_heartbeats(self, stop: threading.Event) -> None:
        """After the recording, write a heartbeat with a canary every second, until `stop`.

        The stream's clock then advances as fast as the wall clock. Raises KafkaError if the broker is gone.
        """
        last, begun = self._records[-1].timestamp, time.monotonic()
        with closing(clients.producer(self._access)) as producer:
            while not stop.wait(_HEARTBEAT_MS / 1000):
                since = int((time.monotonic() - begun) * 1000)
                value = canary_value(int(time.time() * 1000))
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
