"""The configuration topic: it holds every published configuration and the silences of the command line.

Changes are few and small, so each reader reads the topic from its beginning.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

import msgspec
import structlog
from kafka import TopicPartition

from detectors.incidents.silences import Silence
from detectors.settings.live import (
    CONFIG_KEY,
    RESOLVE_KEY,
    SILENCE_KEY,
    PublishedConfiguration,
    PublishedResolution,
    PublishedSilence,
    encode_published,
    publish_silence,
    read_change,
)
from detectors.values.decoding import UndecodableError
from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.diagnosis import explained
from sinks.kafka.reading import read_to_end
from streaming.errors import PublishedError

# Long enough for a machine that is still starting.
_WITHIN_MS = 30_000
_NAMED = 3

encode_silence = msgspec.json.Encoder().encode


log = structlog.get_logger()


class ConfigHistory(msgspec.Struct):
    """The content of the topic: configurations in order, and the newest version of each silence by id.

    `unreadable` has one sentence for each record that is neither a configuration nor a silence.
    """

    configurations: list[PublishedConfiguration] = []
    silences: dict[str, PublishedSilence] = {}
    unreadable: list[str] = []

    @property
    def in_force(self) -> PublishedConfiguration | None:
        return self.configurations[-1] if self.configurations else None

    @property
    def from_file(self) -> PublishedConfiguration | None:
        """The newest configuration that a job published from its file."""
        return next((p for p in reversed(self.configurations) if p.origin == "file"), None)

    def add(self, key: bytes | None, value: bytes | None, offset: int = -1) -> None:
        """Add a record. Unreadable records are skipped, as in the job."""
        try:
            change = read_change(key, value)
        except UndecodableError as error:
            self.unreadable.append(f"offset {offset}: {error.reason}: {error}")
            return
        if isinstance(change, PublishedConfiguration):
            self.configurations.append(change)
        elif isinstance(change, PublishedSilence):
            self.silences[change.read().id] = change


def warn_unreadable(topic: str, unreadable: list[str]) -> None:
    """Log that records of the topic are skipped: how many, and the newest with their reasons."""
    log.warning(
        "configuration records cannot be read and are skipped",
        topic=topic,
        count=len(unreadable),
        newest=unreadable[-_NAMED:],
    )


class ConfigTopic:
    """Reads and writes the topic. Every call raises PublishedError if the brokers do not answer in time."""

    def __init__(self, access: KafkaAccess, topic: str, within_ms: int = _WITHIN_MS) -> None:
        self._access = access
        self._within_ms = within_ms
        self.name = topic

    def history(self) -> ConfigHistory:
        """Everything published so far. Logs a warning about records that cannot be read."""
        history = ConfigHistory()
        with self._explained("read"), closing(self.consumer()) as consumer:
            if self.name not in consumer.topics():
                raise PublishedError(f"Kafka has no topic {self.name}: has `flinkwatch run` been started there?")
            for record in read_to_end(consumer, [TopicPartition(self.name, 0)], within_s=self._within_ms / 1000):
                history.add(record.key, record.value, record.offset)
        if history.unreadable:
            warn_unreadable(self.name, history.unreadable)
        return history

    def publish(self, published: PublishedConfiguration) -> None:
        """Make it the configuration in force."""
        self._send({CONFIG_KEY: encode_published(published)})

    def restore(self, published: PublishedConfiguration, silences: Iterable[PublishedSilence]) -> None:
        """Publish an earlier configuration and its silences again, unchanged."""
        kept = {SILENCE_KEY + s.read().id.encode(): encode_silence(s) for s in silences}
        self._send({CONFIG_KEY: encode_published(published), **kept})

    def publish_silence(self, silence: Silence, by: str) -> None:
        """Add a silence, or replace the one with the same id."""
        record = publish_silence(silence, int(time.time() * 1000), by)
        self._send({SILENCE_KEY + silence.id.encode(): encode_silence(record)})

    def publish_resolution(self, resolution: PublishedResolution) -> None:
        """Ask the job to end an incident."""
        self._send({RESOLVE_KEY + resolution.last.incident.encode(): encode_silence(resolution)})

    def consumer(self) -> Any:
        """A KafkaConsumer without partitions. Raises kafka.errors.KafkaError, SecretError."""
        return clients.consumer(self._access, connect_ms=self._within_ms)

    def _send(self, records: Mapping[bytes, bytes]) -> None:
        limits = {"within_ms": self._within_ms, "connect_ms": self._within_ms}
        with self._explained("written"), closing(clients.producer(self._access, **limits)) as producer:
            for key, value in records.items():
                producer.send(self.name, key=key, value=value).get(timeout=2 * self._within_ms / 1000)

    def _explained(self, done: str) -> AbstractContextManager[None]:
        return explained(self._access, PublishedError, f"{self.name} could not be {done}: ")
