"""Writes into the stream which open incidents are about a resource that several clusters may share.

It follows the incidents that the job itself has written and writes lines into the heartbeat topic, so that they are
part of the input: `platform_incident` reads them. After a start it writes about all that is open, and about what ended
within the last day, since the job may have ended in between.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import TopicPartition

from detectors.incident import decode_transition
from detectors.incidents.shared_resources import REPEAT_MS, SharedTroubles
from detectors.values.bounded import put_bounded
from detectors.values.decoding import UndecodableError
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import read_to_end
from streaming.job.followers.topic_follower import TopicFollower

_LATELY_MS = 86_400_000
_MAX_ENDED = 1_000


class SharedResources(TopicFollower):
    """Follows the incidents in a thread of its own; `publish_line` writes a line with the next heartbeat."""

    def __init__(
        self,
        access: KafkaAccess,
        topic: str,
        publish_line: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("shared resources", access, topic)
        self._publish_line = publish_line
        self._clock = clock
        self._troubles = SharedTroubles()
        self._repeat_at = 0.0

    def take(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record of the topic."""
        self._publish(self._lines(key, value, 0))

    def begin(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take all records that are there at the start: of each incident the newest counts, open or ended."""
        self._troubles = SharedTroubles()
        since = int(self._clock() * 1000) - _LATELY_MS
        ended: dict[bytes | None, list[str]] = {}
        for key, value in records:
            lines = self._lines(key, value, since)
            ended.pop(key, None)
            if lines and not self._troubles.is_open(_name(key)):
                put_bounded(ended, key, lines, _MAX_ENDED)
        self._publish([line for lines in ended.values() for line in lines])
        self._repeat_at = 0.0
        self.repeat()

    def _lines(self, key: bytes | None, value: bytes | None, since: int) -> list[str]:
        """The lines to write after a record; none about what ended before `since`."""
        if value is None:
            return self._troubles.gone(_name(key))
        try:
            transition = decode_transition(value)
        except UndecodableError:
            return []
        lines = self._troubles.take(transition)
        return lines if transition.transition != "resolved" or transition.at >= since else []

    def repeat(self) -> None:
        """Once a minute, write the lines of all that is open again."""
        now = self._clock()
        if now >= self._repeat_at:
            self._repeat_at = now + REPEAT_MS / 1000
            self._publish(self._troubles.repeated())

    def _publish(self, lines: list[str]) -> None:
        for line in lines:
            self._publish_line(line)

    def _begin(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self.begin((record.key, record.value) for record in read_to_end(consumer, partitions))

    def polled(self) -> None:
        self.repeat()


def _name(key: bytes | None) -> str:
    """The ID of the incident that a record's key names."""
    return (key or b"").decode("utf-8", "replace")
