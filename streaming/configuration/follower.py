"""What is in force, as the topic of the configuration tells it: also when somebody else published it."""

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
    """Follows the topic in a thread of its own from `published` on; `told` hears the hash of each that follows."""

    def __init__(self, topic: ConfigTopic, published: PublishedConfiguration, told: Callable[[str], None]) -> None:
        super().__init__("configuration in force")
        self._topic = topic
        self._published = published
        self._told = told
        self._silences: tuple[PublishedSilence, ...] = ()

    def publish_lost(self) -> None:
        """Write what is in force, and the silences, to a topic that has lost them. Raises PublishedError."""
        if self._topic.history().in_force is None:
            self._topic.restore(self._published, self._silences)
            log.warning(
                "the topic of the configuration was empty, what is in force is published again",
                hash=self._published.hash,
                silences=len(self._silences),
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaError, SecretError) as error:
                log.warning("configuration in force not known for the moment", error=str(error))
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
                # Until then it is what was in force once.
                if consumer.position(partition) >= end and history.in_force is not None:
                    self._now(history.in_force)
                    self._silences = tuple(history.silences.values())

    def _now(self, published: PublishedConfiguration) -> None:
        before, self._published = self._published, published
        if (before.hash, before.at) == (published.hash, published.at):
            return
        log.info(
            "another configuration is in force",
            hash=published.hash,
            published_by=published.by,
            origin=published.origin,
            changes=[str(change) for change in changes(before.live(), published.live())],
        )
        self._told(published.hash)
