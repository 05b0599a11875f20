"""Checks whether everything that was played has been read, processed and delivered."""

import re
import time
import urllib.error
import urllib.request
from contextlib import closing

from kafka.errors import KafkaError

from sinks.kafka import clients
from sinks.kafka.access import KafkaAccess
from sinks.kafka.reading import partitions_of
from sinks.kafka.topics import TopicNames

_CANARY = re.compile(r"^flinkwatch_canary_timestamp_seconds (\S+)$", re.MULTILINE)


class Settled:
    """Polled after the last record, while `Playback` sends canaries.

    Each batch reads all topics up to one moment. A canary that was sent after the last record and has returned proves
    that a batch has read every record. A second canary, sent after the return of the first, proves that this batch has
    written its output. Delivery is then complete once its consumer group has committed the end of the incidents topic,
    since it commits only up to the first incident that still waits.
    """

    def __init__(self, access: KafkaAccess, page_url: str, topics: TopicNames, receiver: str) -> None:
        self._access = access
        self._page_url = page_url
        self._topics = topics
        self._group = f"{topics.prefix}.delivery.{receiver}"
        self._after = time.time()
        self._canaries = 0

    def now(self) -> bool:
        """Check the job's page and Kafka; return whether everything is delivered."""
        while self._canaries < 2:
            if self._last_canary() <= self._after:
                return False
            self._canaries += 1
            self._after = time.time()
        return self._delivered()

    def _last_canary(self) -> float:
        """The time (epoch s) at which the last returned canary was sent; 0 without one, or if the page fails."""
        try:
            with urllib.request.urlopen(f"{self._page_url}/metrics", timeout=10) as page:  # nosec B310 - its own page
                found = _CANARY.search(page.read().decode())
        except (urllib.error.URLError, OSError):
            return 0.0
        return float(found[1]) if found else 0.0

    def _delivered(self) -> bool:
        try:
            # It only reads offsets: a member of the group would be assigned partitions.
            with closing(clients.consumer(self._access, group=self._group)) as consumer:
                ends = consumer.end_offsets(partitions_of(consumer, self._topics.incidents))
                return all(end == 0 or (consumer.committed(p) or 0) >= end for p, end in ends.items())
        except KafkaError:
            return False
