"""Follows the configuration topic, so that the job notices a configuration that a command published."""

from collections.abc import Callable
from contextlib import closing

import structlog
from kafka import TopicPartition
from kafka.errors import KafkaError

from detectors.settings.live import PublishedConfiguration, PublishedSilence
from sinks.kafka.reading import follow
from sinks.secret import SecretError
from streaming.configuration.diff import changes
from streaming.configuration.topic import ConfigHistory, ConfigTopic, warn_unreadable
from streaming.threads import Background

log = structlog.get_logger()

_RETRY_S = 2.0


class ConfigFollower(Background):
    """Follows the topic in a thread of its own; `changed` is called with the hash of each new configuration.

    `published` is the configuration in force at the start.
    """

    def __init__(self, topic: ConfigTopic, published: PublishedConfiguration, changed: Callable[[str], None]) -> None:
        super().__init__("configuration in force")
        self._topic = topic
        self._published = published
        self._changed = changed
        self._silences: tuple[PublishedSilence, ...] = ()

    def publish_lost(self) -> None:
        """Publish the configuration and the silences again if the topic has lost them. Raises PublishedError."""
        if self._topic.history().in_force is None:
            self._topic.restore(self._published, self._silences)
            log.warning(
                "configuration topic was empty, the configuration in force was published again",
                hash=self._published.hash,
                silences=len(self._silences),
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaError, SecretError) as error:
                log.warning("cannot read the configuration topic, trying again", error=str(error))
                self._stop.wait(_RETRY_S)

    def _follow(self) -> None:
        history, partition = ConfigHistory(), TopicPartition(self._topic.name, 0)
        with closing(self._topic.consumer()) as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            end = consumer.end_offsets([partition])[partition]
            for records in follow(consumer, self._stop):
                for record in records:
                    history.add(record.key, record.value, record.offset)
                if history.unreadable:
                    warn_unreadable(self._topic.name, history.unreadable)
                    history.unreadable = []
                # Records before the end are configurations that were in force earlier.
                if consumer.position(partition) >= end and history.in_force is not None:
                    self._now(history.in_force)
                    self._silences = tuple(history.silences.values())

    def _now(self, published: PublishedConfiguration) -> None:
        before, self._published = self._published, published
        if (before.hash, before.at) == (published.hash, published.at):
            return
        log.info(
            "new configuration is in force",
            hash=published.hash,
            published_by=published.by,
            origin=published.origin,
            changes=[str(change) for change in changes(before.live(), published.live())],
        )
        self._changed(published.hash)
